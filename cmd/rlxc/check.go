package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/units"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name: "check", Args: "FILE.rlx", Short: "verify an artifact in full, without running it",
		Long:     "Runs every check of the verifier, including the weights. Exits with status 4 at the first check that fails.",
		Examples: []cli.Example{{About: "verify a file", Line: "rlxc check sam.rlx"}},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var r reading
			r.declare(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				start := time.Now()
				v, err := r.openOne(ctx, args)
				if err != nil {
					return err
				}
				defer v.Close()
				if env.JSON {
					return env.WriteJSON(
						map[string]any{"file": args[0], "ok": true, "bytes": v.Size(), "root": v.Identity(),
							"programs": len(v.All()), "seconds": time.Since(start).Seconds()})
				}
				_, err = fmt.Fprintf(env.Stdout, "%s: ok, %s, %s, %s, %s, %.2f s\n", diag.Printable(args[0]),
					cli.Size(v.Size()), cli.Count(len(v.All()), "program", "programs"),
					cli.Count(len(v.Weights().Tensors()), "weight", "weights"),
					v.Identity(), time.Since(start).Seconds())
				return err
			}
		},
	}
}

// reading has the flags of commands that read an artifact without running it.
type reading struct{ memory string }

// readingMemory is the default of --memory: far more than the structure of any model needs, and less than most machines
// have.
const readingMemory = "2G"

func (r *reading) declare(fs *cli.FlagSet) {
	fs.StringVar(&r.memory, "memory", readingMemory, "`SIZE` memory limit for reading the artifact's structure")
}

// openOne opens the artifact that is the only argument.
func (r *reading) openOne(ctx context.Context, args []string) (*format.Verified, error) {
	if len(args) != 1 {
		return nil, cli.Usagef("", "takes one artifact; found %d arguments", len(args))
	}
	most, ok := units.ParseBytes(r.memory)
	if !ok {
		return nil, cli.Usagef("--memory "+r.memory, "is not a size such as 300M, 1.5G or 2Gi")
	}
	v, err := ctxio.Do(ctx, "open", func() (*format.Verified, error) {
		return format.Open(args[0], format.Policy{MaxStructure: most})
	}, func(v *format.Verified) { v.Close() })
	if errors.Is(err, code.Verifier(38)) {
		return nil, diag.New(device.ErrMemory, args[0], "%w", err).WithHint("--memory SIZE allows more")
	}
	return v, err
}
