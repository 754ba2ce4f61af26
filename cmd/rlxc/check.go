package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name: "check", Args: "FILE.rlx", Short: "verify an artifact in full, without executing it",
		Long:     "Runs every check of the verifier, weights included, and exits with status 4 at the first one that fails.",
		Examples: []cli.Example{{About: "is this file sound?", Line: "rlxc check sam.rlx"}},
		Setup: func(*cli.FlagSet) cli.Run {
			return func(_ context.Context, env *cli.Env, args []string) error {
				start := time.Now()
				v, err := openOne(args)
				if err != nil {
					return err
				}
				defer v.Close()
				if env.JSON {
					return env.WriteJSON(map[string]any{"file": args[0], "ok": true, "bytes": v.Size(), "root": v.Identity(),
						"programs": len(v.Programs()), "seconds": time.Since(start).Seconds()})
				}
				_, err = fmt.Fprintf(env.Stdout, "%s: ok, %s, %d programs, %d weights, %s, %.2f s\n", diag.Printable(args[0]), cli.Size(v.Size()), len(v.Programs()), len(v.Weights().Tensors()),
					v.Identity(), time.Since(start).Seconds())
				return err
			}
		},
	}
}

// openOne opens the artifact that is the first and only argument.
func openOne(args []string) (*format.Verified, error) {
	if len(args) != 1 {
		return nil, cli.Usagef("", "wants one artifact; found %d arguments", len(args))
	}
	return format.Open(args[0], format.Policy{})
}
