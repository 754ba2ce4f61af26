package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/budget"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/units"
)

const defaultBackend = "cpu"

// backendName matches names of backends, but not the IDs of most devices (such as 0000:3b:00.0).
var backendName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// hostFlags choose the backend and its options.
type hostFlags struct {
	backend, device, threads string
	plugins                  cli.List
	timeout, step            time.Duration
	verify, log, sandbox     cli.Choice
	precision, memory        string
	weights                  cli.List
	devices                  []string
	lora                     string
	strict                   bool
}

const (
	verifyCached    = "cached"
	verifyFull      = "full"
	verifyLazy      = "lazy"
	verifyStructure = "structure"
)

// openOptions returns the options that --verify selects.
func (f *hostFlags) openOptions(memory *rlx.Budget) rlx.OpenOptions {
	o := rlx.OpenOptions{Lazy: true, Memory: memory, Unverified: f.verify.Value == verifyStructure}
	if f.verify.Value == verifyCached {
		o.Remember = verifiedFolder()
	}
	return o
}

// verifiedFolder returns the folder that records verified files, or "" if the user has no cache.
func verifiedFolder() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "rlx", "verified")
}

func (f *hostFlags) declare(fs *cli.FlagSet) {
	fs.Group("Where it runs")
	fs.StringVarP(&f.backend, "backend", "b", "",
		"`NAME` the backend, or auto: the fastest of the artifact that has a device here, as rlxrun bench has measured or by the kind of device; never a device that the processor emulates (default auto, or the backend in --device)")
	fs.BoolVar(&f.strict, "strict", false,
		"fail instead of any substitution: of a backend without a device by another, of a part by --fallback, of a missing kernel by the reference")
	fs.StringVar(
		&f.device, "device", "",
		"`[BACKEND:]ID` the device, as \"rlxrun devices\" lists it, or software for a device that the processor emulates (default the backend's first device that is not emulated)")
	fs.StringSliceVar(&f.devices, "devices", nil,
		"`[BACKEND:]ID,...` several devices of one backend that divide the work, for a model that was compiled with rlxc --stages; a device may be named twice, such as 0,0 for two processes that share the cores")
	fs.StringVar(&f.threads, "threads", "auto", "`N|auto` number of threads")
	f.declarePlugins(fs)
	fs.DurationVar(&f.timeout, "timeout", 0, "`TIME` give up after this time, such as 90s or 5m (default never)")
	f.declareStep(fs, 10*time.Minute)
	fs.StringVar(
		&f.memory, "memory", "",
		"`SIZE` refuse to run if more memory is needed, such as 300M or 2Gi (default what is free)")
	fs.StringVar(&f.precision, "precision", "",
		"`NAME` round the operands of products to f32, bf16, f16 or tf32; the artifact must allow it (default its first)")
	fs.ListVarP(&f.weights, "weights", "",
		"`FILE` a safetensors file with other values for weights, by name and in their types (repeatable; rlxc inspect lists the weights that can be replaced)")
	fs.StringVar(&f.lora, "lora", "",
		"`DIR` a LoRA adapter as PEFT saves it, a folder or its .safetensors file, for a language model that was compiled with rlxc --lora")
	fs.ChoiceVar(
		&f.verify, "verify",
		"when to check the digests of the weights: before the run unless the file passed before and has not changed; before every run; as they are used; never",
		verifyCached, verifyFull, verifyLazy, verifyStructure)
}

// declareStep declares the limit on one step.
func (f *hostFlags) declareStep(fs *cli.FlagSet, limit time.Duration) {
	fs.DurationVar(&f.step, "step-timeout", limit,
		"`TIME` stop the backend if one step of a run takes longer than this; 0 means no limit")
}

// stepLimit returns the value of --step-timeout for package rlx and package rpc, where 0 means the default.
func (f *hostFlags) stepLimit() time.Duration {
	if f.step == 0 {
		return -1
	}
	return f.step
}

// declarePlugins declares the flags of every command that starts backends.
func (f *hostFlags) declarePlugins(fs *cli.FlagSet) {
	fs.ListVarP(&f.plugins, "plugin", "", "`NAME=PATH` use this executable as backend NAME (repeatable)")
	fs.ChoiceVar(
		&f.sandbox, "sandbox",
		"keep backends from the network, other processes and your files (Linux): as far as the system can; not at all; or fail if it cannot",
		string(rlx.SandboxOn), string(rlx.SandboxOff), string(rlx.SandboxRequire))
	fs.ChoiceVar(&f.log, "log", "which messages of the backend's log to show on stderr", "warn", "off", "error", "info",
		"debug")
}

// options converts the flags to options of a session. The backend is not yet chosen.
func (f *hostFlags) options(env *cli.Env) (rlx.Options, error) {
	o := f.describing(env)
	o.Precision = f.precision
	if f.threads != "auto" {
		n, err := strconv.Atoi(f.threads)
		if err != nil || n < 1 || n > 1<<16 {
			return o, cli.Usagef("--threads "+f.threads, "is neither auto nor a number from 1 to %d", 1<<16)
		}
		o.Threads = n
	}
	if f.timeout < 0 {
		return o, cli.Usagef("--timeout", "%v is negative", f.timeout)
	}
	if f.step < 0 {
		return o, cli.Usagef("--step-timeout", "%v is negative", f.step)
	}
	o.Timeouts.Step = f.stepLimit()
	limit := int64(0)
	if f.memory != "" {
		var ok bool
		if limit, ok = units.ParseBytes(f.memory); !ok {
			return o, cli.Usagef("--memory "+f.memory, "is not a size such as 300M, 1.5G or 2Gi")
		}
	}
	o.Memory = rlx.NewBudget(limit)
	return o, nil
}

// describing returns options for a session that only asks for the backend's description.
func (f *hostFlags) describing(env *cli.Env) rlx.Options {
	return rlx.Options{Sandbox: rlx.Sandbox(f.sandbox.Value), Log: f.logger(env)}
}

// chooseSeveral selects the backend, and the devices of --devices. Each may name the backend before a colon.
func (f *hostFlags) chooseSeveral(r *registry) (b found, ids []string, err error) {
	if f.device != "" {
		return found{}, nil, cli.Usagef("--devices", "cannot be combined with --device")
	}
	for i, text := range f.devices {
		x, id, err := (&hostFlags{backend: f.backend, device: text}).choose(r)
		switch {
		case err != nil:
			return found{}, nil, err
		case i > 0 && x.Name != b.Name:
			return found{}, nil, cli.Usagef("--devices", "%s is one of backend %s, and %s of %s; want devices of one backend",
				f.devices[0], b.Name, text, x.Name)
		case id == "":
			return found{}, nil, cli.Usagef("--devices", "device %d has no ID", i+1).WithHint(
				"rlxrun devices lists them")
		}
		b, ids = x, append(ids, id)
	}
	return b, ids, nil
}

// choose selects backend and device. --device may name the backend before a colon.
func (f *hostFlags) choose(r *registry) (b found, device string, err error) {
	name := f.backend
	device = f.device
	prefix, id, ok := strings.Cut(f.device, ":")
	if ok && slices.ContainsFunc(r.all, func(b found) bool { return b.Name == prefix }) {
		if f.backend != "" && f.backend != autoBackend && f.backend != prefix {
			return found{}, "", cli.Usagef("--device "+f.device, "is one of backend %s, and --backend is %s", prefix,
				f.backend)
		}
		name, device = prefix, id
	} else if ok && (f.backend == "" || f.backend == autoBackend) && backendName.MatchString(prefix) {
		name = prefix // not found; the error then lists the backends that exist
	}
	if name == autoBackend {
		name = ""
	}
	b, err = r.find(cmp.Or(name, defaultBackend))
	return b, device, err
}

// deadline applies --timeout to ctx.
func (f *hostFlags) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, f.timeout)
}

// explain rewrites an error to name flags. If the deadline has passed, it returns the error for --timeout instead.
func (f *hostFlags) explain(ctx context.Context, err error) error {
	err = inFlags(err)
	if err == nil || f.timeout == 0 || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return err
	}
	e := diag.New(diag.Timeout, "--timeout "+f.timeout.String(), "passed before the run ended")
	if err != context.DeadlineExceeded {
		e.Msg += ": " + err.Error()
	}
	e.Err = err
	return e
}

// flagOf returns the flag that stands for an option of package rlx. Some options are named with a value, such as
// "method encode".
func flagOf(option string) string {
	switch option {
	case budget.Option:
		return "--memory"
	case budget.AnyOption:
		return "--memory SIZE"
	case "Options.Device":
		return "--device"
	case "Options.Devices":
		return "--devices"
	case "Options.Fallbacks":
		return "--plugin NAME=PATH"
	case "Request.Check":
		return "--check"
	case "SandboxRequire":
		return "--sandbox=require"
	case "Timeouts.Step":
		return "--step-timeout"
	}
	for _, name := range []string{"backend", "method", "precision"} {
		if value, ok := strings.CutPrefix(option, name+" "); ok {
			return "--" + name + " " + value
		}
	}
	return option
}

// inFlags returns an error of package rlx with flags in place of options.
func inFlags(err error) error {
	if e, ok := errors.AsType[*rlx.Error](err); ok {
		e.Rename(flagOf)
	}
	return err
}

// logger returns a logger that writes the log of the backend to stderr, or nil if the flags switch it off.
func (f *hostFlags) logger(env *cli.Env) *slog.Logger {
	levels := map[string]slog.Level{"error": slog.LevelError, "warn": slog.LevelWarn, "info": slog.LevelInfo,
		"debug": slog.LevelDebug}
	level, ok := levels[f.log.Value]
	if !ok || env.Quiet && level > slog.LevelDebug && level < slog.LevelError {
		return nil
	}
	opts := &slog.HandlerOptions{Level: level}
	if env.JSON {
		return slog.New(slog.NewJSONHandler(env.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(env.Stderr, opts))
}
