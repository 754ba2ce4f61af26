package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/internal/cli"
)

func describeCommand() *cli.Command {
	return &cli.Command{
		Name: "plugins describe", Args: "NAME [-o NAME.target] [flags]",
		Short: "write which ops a backend runs, for rlxc --target",
		Long: `Starts the backend and writes its target description: the ops that it runs on this machine, with their element types and
conditions. The file is text that you can read and edit. rlxc --target ./NAME.target compiles for it.`,
		Examples: []cli.Example{
			{About: "compile for your own backend",
				Line: "rlxrun plugins describe npu -o npu.target && rlxc model.safetensors --target cpu,./npu.target -o model.rlx"},
		},
		Complete: func(context.Context, cli.Line) []string { return backendNames() },
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f hostFlags
			var output, messages string
			fs.StringVarP(&output, "output", "o", "", "`FILE` file to write; - is stdout (default -)")
			fs.StringVar(&messages, "log-protocol", "", logProtocolHelp)
			f.declarePlugins(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) != 1 {
					return cli.Usagef("plugins describe", "takes the name of one backend; found %d arguments",
						len(args)).WithHint("rlxrun plugins list shows them")
				}
				return describe(ctx, env, &f, args[0], cmp.Or(output, "-"), messages)
			}
		},
	}
}

func describe(ctx context.Context, env *cli.Env, f *hostFlags, name, output, messages string) error {
	reg, err := findBackends(f.plugins.Values)
	if err != nil {
		return err
	}
	b, err := reg.find(name)
	if err != nil {
		return err
	}
	b.warn(env)
	o := f.describing(env)
	log, err := newMessageLog(messages)
	if err != nil {
		return err
	}
	if log != nil {
		if err := checkSinks(ctx, nil, []string{log.path}, "", b.Path); err != nil {
			return err
		}
		if err := log.open(); err != nil {
			return err
		}
		o.Protocol = log
	}
	info, err := b.Describe(ctx, o)
	if closing := log.close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	write := func(w io.Writer) error {
		_, err := fmt.Fprint(w, info.Target)
		return err
	}
	switch {
	case env.JSON:
		return env.WriteJSON(map[string]string{"name": info.Name, "version": info.Version, "target": info.Target})
	case output == "-":
		return write(env.Stdout)
	}
	return atomicfile.WriteFile(ctx, output, write)
}
