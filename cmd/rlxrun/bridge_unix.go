//go:build unix

package main

import (
	"context"
	"net"
	"os"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/bridge"
	"github.com/rlx-go/rlx/internal/cli"
)

// systemCommands returns the commands that not every system has.
func systemCommands() []*cli.Command { return []*cli.Command{bridgeCommand()} }

func bridgeCommand() *cli.Command {
	return &cli.Command{
		Name: "bridge", Args: "", Short: "serve models to the program that started this one",
		Long: `Answers requests on a Unix socket that it has inherited, until the other end is closed. The Python module rlx starts it; the
documentation of internal/bridge describes the requests.`,
		Setup: func(fs *cli.FlagSet) cli.Run {
			fd := fs.Int("fd", 3, "`N` the descriptor of the socket")
			return func(ctx context.Context, _ *cli.Env, args []string) error {
				if len(args) > 0 {
					return cli.Usagef("bridge", "takes no arguments; found %d", len(args))
				}
				f := os.NewFile(uintptr(*fd), "bridge")
				conn, err := net.FileConn(f)
				f.Close()
				socket, ok := conn.(*net.UnixConn)
				if err != nil || !ok {
					return diag.New(diag.Usage, "bridge", "descriptor %d is not a Unix socket", *fd).WithHint(
						"the Python module rlx starts this command; it is not for terminals")
				}
				return bridge.Serve(ctx, socket, bridge.Options{Remember: verifiedFolder()})
			}
		},
	}
}
