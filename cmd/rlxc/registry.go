package main

import (
	"context"
	"fmt"
	"path"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/registry"
)

// registryHelp says what push and pull have in common.
const registryHelp = `Passwords come from "docker login" or "podman login". Connections use TLS, except to a registry on this machine.`

const plainHTTPHelp = "connect without TLS"

func pushCommand() *cli.Command {
	return &cli.Command{
		Name: "push", Args: "FILE.rlx REGISTRY/NAME:TAG", Short: "store an artifact in an OCI registry",
		Long: "Verifies an artifact and stores it in a registry for container images. Prints a reference with the\n" +
			"digest, which always means these bytes. " + registryHelp,
		Examples: []cli.Example{{About: "store a model", Line: "rlxc push sam.rlx ghcr.io/me/sam:v1"}},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var r reading
			r.declare(fs)
			plain := fs.Bool("plain-http", false, plainHTTPHelp)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) != 2 {
					return cli.Usagef("push", "takes an artifact and a reference; found %d arguments", len(args))
				}
				to, err := registry.Open(args[1], *plain)
				if err != nil {
					return err
				}
				v, err := r.openOne(ctx, args[:1])
				if err != nil {
					return err
				}
				defer v.Close()
				bar := env.Progress("push", v.Size())
				pinned, err := to.Push(ctx, v.File(), v.Size(), bar.Set)
				bar.Clear()
				if err != nil {
					return err
				}
				if env.JSON {
					return env.WriteJSON(map[string]any{"file": args[0], "bytes": v.Size(), "reference": pinned})
				}
				_, err = fmt.Fprintln(env.Stdout, pinned)
				return err
			}
		},
	}
}

func pullCommand() *cli.Command {
	return &cli.Command{
		Name: "pull", Args: "REGISTRY/NAME:TAG [flags]", Short: "fetch an artifact from an OCI registry",
		Long: "Fetches an artifact that push has stored, verifies it in full, and writes it to a file. After an\n" +
			"interruption, the same command continues where it ended. REGISTRY/NAME@sha256:DIGEST always fetches\n" +
			"the same bytes. " + registryHelp,
		Examples: []cli.Example{
			{About: "fetch a model", Line: "rlxc pull ghcr.io/me/sam:v1 -o sam.rlx"}},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var r reading
			r.declare(fs)
			output := fs.StringP("output", "o", "", "`FILE` to write; default NAME.rlx in the current folder")
			plain := fs.Bool("plain-http", false, plainHTTPHelp)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) != 1 {
					return cli.Usagef("pull", "takes one reference; found %d arguments", len(args))
				}
				from, err := registry.Open(args[0], *plain)
				if err != nil {
					return err
				}
				if *output == "" {
					*output = path.Base(from.Name()) + ".rlx"
				}
				var bar *cli.Progress
				pinned, err := from.Pull(ctx, *output, func(done, size int64) {
					if bar == nil {
						bar = env.Progress("pull", size)
					}
					bar.Set(done)
				}, func(part string) error {
					bar.Clear()
					v, err := r.openOne(ctx, []string{part})
					if err != nil {
						return diag.New(code.Registry, args[0], "is not a valid artifact: %w", err)
					}
					v.Close()
					return nil
				})
				bar.Clear()
				if err != nil {
					return err
				}
				if env.JSON {
					return env.WriteJSON(map[string]any{"file": *output, "reference": pinned})
				}
				_, err = fmt.Fprintf(env.Stdout, "%s: %s\n", diag.Printable(*output), pinned)
				return err
			}
		},
	}
}
