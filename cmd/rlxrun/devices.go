package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
)

// A probed is a backend with its description of itself, or the error.
type probed struct {
	found
	hidden string // path of the backend that is used in its place; this one is then not started
	info   rlx.BackendInfo
	err    error
}

// probeAll starts every backend, a few at a time, and asks for its description.
func probeAll(ctx context.Context, env *cli.Env, f *hostFlags) ([]probed, *registry, error) {
	reg, err := findBackends(f.plugins.Values)
	if err != nil {
		return nil, nil, err
	}
	out := make([]probed, len(reg.all))
	var g errgroup.Group
	g.SetLimit(4)
	for i, b := range reg.all {
		out[i].found = b
		if b.skip != nil {
			out[i].err = b.skip
			continue
		}
		if used, err := reg.find(b.Name); err == nil && used.Path != b.Path {
			out[i].hidden = used.Path
			continue
		}
		b.warn(env)
		g.Go(func() error {
			out[i].info, out[i].err = b.Describe(ctx, f.describing(env))
			return nil
		})
	}
	g.Wait()
	return out, reg, ctx.Err()
}

func devicesCommand() *cli.Command {
	return &cli.Command{
		Name: "devices", Args: "[flags]", Short: "list the devices of all backends",
		Examples: []cli.Example{{About: "list devices, each with the flag that selects it", Line: "rlxrun devices"}},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f hostFlags
			fs.StringVarP(&f.backend, "backend", "b", "", "`NAME` only the devices of this backend")
			f.declarePlugins(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) > 0 {
					return cli.Usagef("devices", "takes no arguments; found %q", args[0])
				}
				return devices(ctx, env, &f)
			}
		},
	}
}

// deviceRow is one device, for JSON.
type deviceRow struct {
	Flag     string   `json:"flag"` // the flag that chooses it, ready to paste
	Backend  string   `json:"backend"`
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Memory   int64    `json:"memory"`
	Features []string `json:"features"`

	Sandbox rlx.Confinement `json:"sandbox"` // of the backend's process
}

func devices(ctx context.Context, env *cli.Env, f *hostFlags) error {
	all, reg, err := probeAll(ctx, env, f)
	if err != nil {
		return err
	}
	if f.backend != "" {
		if _, err := reg.find(f.backend); err != nil {
			return err
		}
	}
	rows := []deviceRow{}
	var failed error
	for _, p := range all {
		if p.hidden != "" || f.backend != "" && p.Name != f.backend {
			continue
		}
		if p.err != nil {
			failed = p.err
			if f.backend == "" && !env.JSON {
				env.Notef("%v", p.err)
			}
			continue
		}
		_, why := usable(p.info)
		rememberLack(p.Path, why)
		for _, d := range p.info.Devices {
			rows = append(
				rows, deviceRow{"--device " + p.Name + ":" + d.ID, p.Name, d.ID, d.Name, d.Type, d.Memory,
					append([]string{}, d.Features...), p.info.Sandbox})
		}
	}
	if f.backend == "" && !env.JSON {
		for _, name := range shipped {
			if why := elsewhere(name, runtime.GOOS, runtime.GOARCH); why != "" &&
				!slices.ContainsFunc(all, func(p probed) bool { return p.Name == name }) {
				env.Notef("backend %s: %s", name, why)
			}
		}
	}
	if len(rows) == 0 {
		if failed != nil {
			return failed
		}
		return diag.New(code.Backend, "", "no backend was found; looked in %s", reg.Places()).
			WithHint("put rlx-backend-NAME beside rlxrun, or give --plugin NAME=PATH")
	}
	if env.JSON {
		return env.WriteJSON(rows)
	}
	table := [][]string{{"DEVICE", "TYPE", "MEMORY", "NAME", "SANDBOX", "FEATURES"}}
	for _, r := range rows {
		mem := "-"
		if r.Memory > 0 {
			mem = cli.Size(r.Memory)
		}
		table = append(table, []string{r.Flag, r.Type, mem, r.Name, r.Sandbox.String(), strings.Join(r.Features, ", ")})
	}
	return env.Table(table)
}

func pluginsCommand() *cli.Command {
	return &cli.Command{
		Name: "plugins list", Args: "[flags]", Short: "list the backends found, and whether they work",
		Long: `Lists the backends in the order in which they are searched: those given with --plugin; plugins installed with --hide-built-in; executables called
rlx-backend-NAME beside rlxrun; those in the directories of RLX_PLUGIN_PATH; the other installed plugins. The first of a name is used. Each backend is started and asked
what it is. A backend is skipped if every user can write to it or its directory, if it was installed and is for another platform or protocol, or if RLX_PLUGIN_PATH
names its directory relative to the current one.`,
		Examples: []cli.Example{
			{About: "does my backend start?", Line: "rlxrun plugins list --plugin mine=./my-backend"}},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f hostFlags
			f.declarePlugins(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) > 0 {
					return cli.Usagef("plugins list", "takes no arguments; found %q", args[0])
				}
				return plugins(ctx, env, &f)
			}
		},
	}
}

// pluginRow is one backend, for JSON.
type pluginRow struct {
	Name    string   `json:"name"`
	Path    string   `json:"path"`
	From    string   `json:"from"`
	Status  string   `json:"status"` // ok, failed, hidden, skipped
	Version string   `json:"version,omitempty"`
	Levels  []string `json:"levels,omitempty"`
	Devices int      `json:"devices"`
	Code    string   `json:"code,omitempty"`
	Message string   `json:"message,omitempty"`
}

func plugins(ctx context.Context, env *cli.Env, f *hostFlags) error {
	all, reg, err := probeAll(ctx, env, f)
	if err != nil {
		return err
	}
	rows := []pluginRow{}
	table := [][]string{{"NAME", "FOUND", "PATH", "STATUS"}}
	for _, p := range all {
		r := pluginRow{Name: p.Name, Path: p.Path, From: p.from, Status: "ok", Version: p.info.Version,
			Levels: p.info.Levels, Devices: len(p.info.Devices)}
		noun := "devices"
		if r.Devices == 1 {
			noun = "device"
		}
		text := fmt.Sprintf("ok, %d %s, version %s", r.Devices, noun, r.Version)
		if len(r.Levels) > 0 {
			text += ", levels " + strings.Join(r.Levels, " ")
		}
		switch {
		case p.hidden != "":
			r.Status, r.Message = "hidden", "hidden by "+p.hidden
			text = r.Message
		case p.err != nil:
			status, _ := diag.CodeOf(p.err)
			r.Status, r.Code, r.Message = "failed", string(status), p.err.Error()
			text = r.Code + " " + p.err.Error()
			if p.skip != nil {
				r.Status, text = "skipped", "skipped: "+text
			}
		}
		rows = append(rows, r)
		table = append(table, []string{p.Name, p.from, p.Path, text})
	}
	if env.JSON {
		return env.WriteJSON(rows)
	}
	if len(rows) == 0 {
		env.Notef("no backend was found; looked in %s", reg.Places())
		return nil
	}
	return env.Table(table)
}
