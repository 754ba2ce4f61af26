package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/plugins/rpc"
)

const defaultBackend = "cpu"

// backendName is what a backend may be called, unlike the ids of most devices (0000:3b:00.0).
var backendName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// hostFlags choose the backend and the terms on which it works.
type hostFlags struct {
	backend, device, threads   string
	plugins                    cli.List
	timeout                    time.Duration
	verify, log, sandbox       cli.Choice
	precision, memory          string
	parsedThreads              int
	parsedMemory               int64
	backendName, deviceOfFlags string // what backend and device come to
}

const (
	verifyFull = "full"
	verifyLazy = "lazy"
)

func (f *hostFlags) declare(fs *cli.FlagSet) {
	fs.Group("Where it runs")
	fs.StringVarP(&f.backend, "backend", "b", "", "`NAME` the backend (default "+defaultBackend+", or that of --device)")
	fs.StringVar(&f.device, "device", "", "`[BACKEND:]ID` the device, as \"rlxrun devices\" lists them (default the backend's first)")
	fs.StringVar(&f.threads, "threads", "auto", "`N|auto` threads of the backend")
	f.declarePlugins(fs)
	fs.DurationVar(&f.timeout, "timeout", 0, "`TIME` give up after so long, such as 90s or 5m (default never)")
	fs.StringVar(&f.memory, "memory", "", "`SIZE` refuse to run where more is needed, such as 300M or 2Gi (default what is free)")
	fs.StringVar(&f.precision, "precision", "", "`NAME` what the operands of products are rounded to, f32 or bf16; one of those the artifact allows (default the first of them)")
	fs.ChoiceVar(&f.verify, "verify", "when the digests of the weights are checked: before the run, or as they are used", verifyFull, verifyLazy)
}

// declarePlugins declares the flags of every command that starts backends.
func (f *hostFlags) declarePlugins(fs *cli.FlagSet) {
	fs.ListVarP(&f.plugins, "plugin", "", "`NAME=PATH` a backend that is elsewhere, by its executable (repeatable)")
	fs.ChoiceVar(&f.sandbox, "sandbox", "keep backends from the network, other processes and your files (Linux): by what the system has, not at all, or fail where a part is missing", string(rpc.SandboxOn), string(rpc.SandboxOff), string(rpc.SandboxRequire))
	fs.ChoiceVar(&f.log, "log", "what to show of the backend's log on stderr", "warn", "off", "error", "info", "debug")
}

// check parses what pflag does not.
func (f *hostFlags) check() error {
	if f.threads != "auto" {
		n, err := strconv.Atoi(f.threads)
		if err != nil || n < 1 || n > 1<<16 {
			return cli.Usagef("--threads "+f.threads, "is neither auto nor a number from 1 to %d", 1<<16)
		}
		f.parsedThreads = n
	}
	if f.timeout < 0 {
		return cli.Usagef("--timeout", "%v is negative", f.timeout)
	}
	var err error
	if f.memory != "" {
		if f.parsedMemory, err = parseSize(f.memory); err != nil {
			return err
		}
	}
	return nil
}

// choosePrecision settles --precision: one of those that the artifact allows, or its first.
func (f *hostFlags) choosePrecision(m *model, debug debugFlags) error {
	allowed := m.allowedPrecisions()
	f.precision = cmp.Or(f.precision, allowed[0])
	if !slices.Contains(allowed, f.precision) {
		return cli.Usagef("--precision "+f.precision, "%s does not allow it; allowed are %s", m.path, strings.Join(allowed, ", "))
	}
	if debug.check && f.precision != device.DefaultPrecision {
		return cli.Usagef("--check", "does not go together with precision %s: it compares with the tolerances of %s", f.precision, device.DefaultPrecision)
	}
	return nil
}

// resolve decides on backend and device: --device may name the backend in front of a colon.
func (f *hostFlags) resolve(r *registry) (found, error) {
	f.backendName, f.deviceOfFlags = f.backend, f.device
	if name, id, ok := strings.Cut(f.device, ":"); ok {
		for _, b := range r.first() {
			if b.name != name {
				continue
			}
			if f.backend != "" && f.backend != name {
				return found{}, cli.Usagef("--device "+f.device, "is one of backend %s, and --backend is %s", name, f.backend)
			}
			f.backendName, f.deviceOfFlags = name, id
		}
	}
	if name, _, ok := strings.Cut(f.device, ":"); ok && f.backendName == "" && backendName.MatchString(name) {
		return r.find(name) // not found: the error lists those that are
	}
	if f.backendName == "" {
		f.backendName = defaultBackend
	}
	return r.find(f.backendName)
}

// deadline applies --timeout.
func (f *hostFlags) deadline(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	if f.timeout == 0 {
		ctx, cancel := context.WithCancel(ctx)
		return ctx, cancel, nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	return ctx, cancel, nil
}

// explain turns whatever followed from a deadline that passed into the error of --timeout.
func (f *hostFlags) explain(ctx context.Context, err error) error {
	if err == nil || f.timeout == 0 || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return err
	}
	e := diag.New(diag.Timeout, "--timeout "+f.timeout.String(), "was over before the run was")
	if err != context.DeadlineExceeded {
		e.Msg += ": " + err.Error()
	}
	e.Err = err
	return e
}

// logger is the destination of the backend's log.
func (f *hostFlags) logger(env *cli.Env) *slog.Logger {
	levels := map[string]slog.Level{"error": slog.LevelError, "warn": slog.LevelWarn, "info": slog.LevelInfo, "debug": slog.LevelDebug}
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
