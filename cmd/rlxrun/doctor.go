package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/owned"
	"github.com/rlx-go/rlx/internal/release"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

// A finding is a result of doctor about one part of a machine.
type finding struct {
	What  string `json:"what"`
	State string `json:"state"` // stateOK, stateNote or stateProblem
	Found string `json:"found"`
	Do    string `json:"do,omitempty"` // what the user can do
}

const (
	stateOK      = "ok"
	stateNote    = "note"    // works, but slower or less confined than it could
	stateProblem = "problem" // models cannot run
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Args: "[flags]", Short: "look at this machine: drivers, sandbox, memory, backends, and what to do",
		Long: `Looks at what models need to run here, starts each backend, and says what to do where something is missing. A note is about speed or protection; a
problem means that nothing can run (status 1). Reports of bugs should contain the output. It has names and paths of this machine and sends nothing.`,
		Examples: []cli.Example{{About: "look", Line: "rlxrun doctor"},
			{About: "for a bug report", Line: "rlxrun doctor --json > doctor.json"}},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f hostFlags
			f.declarePlugins(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) > 0 {
					return cli.Usagef("doctor", "takes no arguments; found %q", args[0])
				}
				return doctor(ctx, env, &f)
			}
		},
	}
}

func doctor(ctx context.Context, env *cli.Env, f *hostFlags) error {
	list := []finding{
		{"version", stateOK,
			fmt.Sprintf("rlxrun %s, protocol %d, %s", release.Own(), host.Version, runtime.Version()), ""},
	}
	list = append(list, machineFindings()...)
	all, reg, err := probeAll(ctx, env, f)
	if err != nil {
		return err
	}
	list = append(list, sandboxFinding(all), cacheFinding())
	backends, works := backendFindings(all)
	list = append(list, backends...)
	list = append(list, gpuFinding(all))
	if !works {
		list = append(list, finding{"backends", stateProblem, "none works; looked in " + reg.Places(),
			"put rlx-backend-cpu beside rlxrun, or name it with --plugin cpu=PATH"})
	}
	if err := printFindings(env, list); err != nil {
		return err
	}
	if !works {
		return diag.New(code.Doctor, "", "no backend works on this machine").WithHint("see the problems above")
	}
	return nil
}

func printFindings(env *cli.Env, list []finding) error {
	if env.JSON {
		return env.WriteJSON(list)
	}
	for _, x := range list {
		mark := ""
		if x.State != stateOK {
			mark = " (" + x.State + ")"
		}
		if _, err := fmt.Fprintf(env.Stdout, "%s%s: %s\n", x.What, mark, diag.Printable(x.Found)); err != nil {
			return err
		}
		if x.Do != "" {
			if _, err := fmt.Fprintf(env.Stdout, "    -> %s\n", diag.Printable(x.Do)); err != nil {
				return err
			}
		}
	}
	return nil
}

// backendFindings describes the backends. works reports whether one has a device that is not emulated.
func backendFindings(all []probed) (out []finding, works bool) {
	for _, p := range all {
		x := finding{What: "backend " + p.Name, State: stateOK}
		switch {
		case p.hidden != "":
			continue
		case p.err != nil:
			x.State, x.Found = stateNote, p.err.Error()
			if c, ok := diag.CodeOf(p.err); ok {
				x.Do = "rlxrun explain " + string(c)
			}
		default:
			var names []string
			for _, d := range p.info.Devices {
				names = append(names, deviceName(p.Name, d))
			}
			x.Found = fmt.Sprintf("version %s, %s: %s", p.info.Version, p.from, strings.Join(names, "; "))
			_, why := usable(p.info)
			rememberLack(p.Path, why)
			if why != "" {
				x.State, x.Do = stateNote, "runs use it only on request, because it "+why
			}
			works = works || why == ""
		}
		out = append(out, x)
	}
	return out, works
}

// sandboxFinding says how the processes of backends are confined.
func sandboxFinding(all []probed) finding {
	x := finding{What: "sandbox", State: stateNote, Found: "unknown, because no backend works"}
	for _, p := range all {
		if p.hidden != "" || p.err != nil {
			continue
		}
		x.Found = p.info.Sandbox.String()
		if p.info.Sandbox.Landlock > 0 && p.info.Sandbox.Seccomp {
			return finding{x.What, stateOK, x.Found, ""}
		}
		x.Do = unconfined
		return x
	}
	return x
}

// cacheFinding reports whether results of verifying and measuring can be remembered.
func cacheFinding() finding {
	x := finding{What: "cache", State: stateNote}
	dir, err := os.UserCacheDir()
	if err != nil {
		x.Found, x.Do = err.Error(), "set HOME or XDG_CACHE_HOME; without a cache each run verifies all weights"
		return x
	}
	x.Found = filepath.Join(dir, "rlx")
	if err := os.MkdirAll(x.Found, 0o700); err != nil {
		x.Found, x.Do = err.Error(), "make the folder writable; without a cache each run verifies all weights"
		return x
	}
	if who := owned.Private(x.Found); who != nil {
		x.Found, x.Do = who.Error(), who.Fix()+"; until then each run verifies all weights"
		return x
	}
	x.State = stateOK
	return x
}

// gpuFinding says why no backend has a GPU.
func gpuFinding(all []probed) finding {
	x := finding{What: "gpu", State: stateNote}
	for _, p := range all {
		if p.hidden == "" && p.err == nil {
			for _, d := range p.info.Devices {
				if d.Type == "gpu" {
					return finding{x.What, stateOK, deviceName(p.Name, rlx.Device{ID: d.ID, Name: d.Name}), ""}
				}
			}
		}
	}
	x.Found, x.Do = driverState()
	return x
}
