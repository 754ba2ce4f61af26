package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/plugins/rpc/host"
	"github.com/rlx-go/rlx/plugins/rpc/protocoltest"
)

// conformanceFlags are the flags of `plugins test`.
type conformanceFlags struct {
	hostFlags
	ops, define     cli.List
	seed            string
	quick, all      bool
	transport, mode cli.Choice
	announced       bool // whether the device was printed
}

// Values of --transport and --mode.
const (
	transportShared, transportChunks, transportBoth = "shm", "chunks", "both"
	modeTest, modeSupport, modePerf                 = "test", "support", "perf"
)

// partProtocol is the part of the suite that package rpc makes. The others are those of package devicetest.
const partProtocol = "protocol"

func testCommand() *cli.Command {
	return &cli.Command{
		Name: "plugins test", Args: "NAME|PATH [flags]", Short: "run the conformance suite on a backend",
		Long: `Runs the conformance suite on a backend, given by its name or by the path of an executable. The suite checks what the backend reports, how it loads and
runs programs, answers wrong requests, cancels and ends. For this it makes programs from whatever ops the backend claims. It runs programs of many ops, and every case of
every op that the backend claims, in each of its element types, with guards around the results. Results must agree with spec/ops.md within its tolerances. The backend must
refuse an op that it does not claim; such checks count as "not claimed". Checks that need an op which the backend lacks are "skipped", with the reason. The command ends with
the totals, and with status 1 if a check failed or a check of the protocol was skipped.

--mode support lists what the backend claims. --mode perf times one step of each op that it claims, beside the cpu backend.`,
		Examples: []cli.Example{
			{About: "test a backend", Line: "rlxrun plugins test ./rlx-backend-mine"},
			{About: "all checks of one op", Line: "rlxrun plugins test ./rlx-backend-mine -o matmul --full"},
			{About: "a kernel for an op of your own", Line: "rlxrun plugins test ./rlx-backend-mine --define wave.rlxop -o acme.wave --full"},
			{About: "another sample of the checks", Line: "rlxrun plugins test cpu --seed 7"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f conformanceFlags
			fs.ListVarP(&f.ops, "op", "o", "`OP` only the checks of this op (repeatable)")
			fs.ListVarP(&f.define, "define", "",
				"`FILE` definitions of custom ops; their cases are tested like those of other ops (repeatable)")
			fs.BoolVar(&f.quick, "quick", false, "fewer cases, shapes and values")
			fs.BoolVar(&f.all, "full", false, "every check (default a sample of about an eighth of each op's checks)")
			fs.StringVar(&f.seed, "seed", "1", "`N|random` seed of the sample")
			fs.ChoiceVar(&f.transport, "transport",
				"how to send tensors: in shared memory, in messages, or both, one after the other", transportShared,
				transportChunks, transportBoth)
			fs.ChoiceVar(&f.mode, "mode", "run checks, list what the backend claims, or time it", modeTest, modeSupport,
				modePerf)
			f.declareStep(fs, time.Minute)
			f.declarePlugins(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) != 1 {
					return cli.Usagef("plugins test", "takes one backend, by its name or path; found %d arguments",
						len(args)).WithHint("rlxrun plugins list shows them")
				}
				return f.run(ctx, env, args[0])
			}
		},
	}
}

func (f *conformanceFlags) run(ctx context.Context, env *cli.Env, name string) error {
	c := devicetest.Config{Ops: f.ops.Values, Brief: f.quick, All: f.all}
	if f.quick && f.all {
		return cli.Usagef("--quick", "cannot be combined with --full")
	}
	if f.step < 0 {
		return cli.Usagef("--step-timeout", "%v is negative", f.step)
	}
	if f.seed == "random" {
		c.Seed = rand.Uint64()
	} else if _, err := fmt.Sscan(f.seed, &c.Seed); err != nil {
		return cli.Usagef("--seed "+f.seed, "is neither a number nor random")
	}
	if err := f.defineOps(); err != nil {
		return err
	}
	if err := devicetest.CheckOps(c.Ops); err != nil {
		return cli.Usagef("-o", "%w", err)
	}
	reg, err := findBackends(f.plugins.Values)
	if err != nil {
		return err
	}
	b, err := reg.findOrOpen(name)
	if err != nil {
		return err
	}
	b.warn(env)
	switch f.mode.Value {
	case modeSupport:
		return f.support(ctx, env, b, c)
	case modePerf:
		return f.perf(ctx, env, reg, b, c)
	}
	return f.test(ctx, env, b, c)
}

// defineOps adds the ops of --define to the suite.
func (f *conformanceFlags) defineOps() error {
	var l custom.Library
	for _, path := range f.define.Values {
		text, err := regular.ReadFile(path, custom.MaxText)
		if err != nil {
			return diag.New(code.OpFile, path, "cannot be read: %w", err)
		}
		if err := l.Parse(path, string(text)); err != nil {
			return err
		}
	}
	return devicetest.Define(&l)
}

// findOrOpen finds a backend by name or by path. A path has a separator or is an existing file.
func (r *registry) findOrOpen(name string) (found, error) {
	st, err := os.Stat(name)
	if !strings.ContainsRune(name, filepath.Separator) && (err != nil || !st.Mode().IsRegular()) {
		return r.find(name)
	}
	base := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(name), ".exe"), "rlx-backend-")
	return found{Backend: rlx.Backend{Name: base, Path: name}, from: "argument"}, nil
}

// argument names the backend on a command line: by name if it is an installed plugin, because it can be started only
// so, otherwise by path.
func (f found) argument() string {
	if f.Folder != nil {
		return f.Name
	}
	return f.Path
}

// rpcOptions returns options to start a backend for the suite. There is no artifact, so weights are sent in chunks.
func (f *conformanceFlags) rpcOptions(env *cli.Env, b found, chunks bool) host.Options {
	return host.Options{Path: b.Path, Name: b.Name, SHA256: b.SHA256, Folder: (*host.Folder)(b.Folder),
		Log: f.logger(env), Sandbox: host.Sandbox(f.sandbox.Value), IOSize: devicetest.MaxIO, NoSharedMemory: chunks,
		Encode:   format.EncodeProgram,
		Timeouts: host.Timeouts{Step: f.stepLimit()}}
}

func (f *conformanceFlags) test(ctx context.Context, env *cli.Env, b found, c devicetest.Config) error {
	out := &conformance{Path: b.Path, Seed: c.Seed, All: c.All}
	transports := []string{f.transport.Value}
	if f.transport.Value == transportBoth {
		transports = []string{transportShared, transportChunks}
	}
	var stopped error // the results so far are still printed
	for _, transport := range transports {
		if stopped = f.testOver(ctx, env, b, c, transport, out); stopped != nil {
			break
		}
	}
	if stopped != nil && len(out.Sections) == 0 {
		return stopped
	}
	verdict := out.finish(b)
	if stopped != nil {
		out.Result, verdict = resultIncomplete, stopped
	}
	if env.JSON {
		if err := env.WriteJSON(out); err != nil {
			return err
		}
	} else if err := out.print(env); err != nil {
		return err
	}
	if n := out.Skipped - out.unchecked(); n > 0 && stopped == nil {
		env.Notef("warning: %s lacks the ops for some checks of runs (skipped: %d); the output names them", b.Name, n)
	}
	return verdict
}

// testOver runs the checks over one transport.
func (f *conformanceFlags) testOver(ctx context.Context, env *cli.Env, b found, c devicetest.Config, transport string,
	out *conformance) error {
	opts := f.rpcOptions(env, b, transport == transportChunks)
	progress := env.Progress("checks", 0)
	defer progress.Clear()
	done := int64(0)
	note := func(part, section, check string, outcome devicetest.Outcome, err error) {
		done++
		progress.Set(done)
		out.add(part, section, check, transport, outcome, err)
	}
	var session *host.Session
	defer func() {
		if session != nil {
			session.Close()
		}
	}()
	open := func(ctx context.Context) (device.Backend, error) {
		if session != nil {
			session.Close()
		}
		var err error
		if session, err = host.Start(ctx, opts); err != nil {
			return nil, err
		}
		out.Sandbox = rlx.Confinement(session.Sandbox())
		f.announceDevice(ctx, env, b, session)
		return session, nil
	}
	if c.Ops == nil {
		s, err := host.Start(ctx, opts)
		if err != nil {
			return err
		}
		info, err := s.Info(ctx)
		s.Close()
		if err != nil {
			return err
		}
		out.Backend, out.Version = info.Name, info.Version
		var x *protocoltest.Sample
		claimed, why := devicetest.Claimed(info)
		if claimed != nil {
			x = &protocoltest.Sample{Program: claimed.Program, Weights: claimed.Weights, Inputs: claimed.Inputs,
				Equal: claimed.Equal, Param: claimed.Param, ParamWeights: claimed.ParamWeights}
		}
		err = protocoltest.Run(ctx, opts, x, why, func(name string, err error) {
			outcome := devicetest.Passed
			switch {
			case errors.Is(err, protocoltest.ErrNotServed):
				outcome = devicetest.NotClaimed
			case errors.Is(err, protocoltest.ErrSkipped):
				outcome = devicetest.Skipped
			case err != nil:
				outcome = devicetest.Failed
			}
			if outcome == devicetest.Skipped {
				err = errors.New(why)
			}
			note(partProtocol, partProtocol, name, outcome, err)
		})
		if err != nil {
			return err
		}
	}
	err := devicetest.Test(ctx, c, open, func(r devicetest.Result) {
		note(string(r.Part), r.Section, r.Check, r.Outcome, r.Err)
		out.note(r.Note)
	})
	if err == nil && session != nil {
		var info device.Info
		if info, err = session.Info(ctx); err == nil {
			out.Backend, out.Version = info.Name, info.Version
		}
	}
	return err
}

// announceDevice prints the device that the checks run on, once, unless it is the processor.
func (f *conformanceFlags) announceDevice(ctx context.Context, env *cli.Env, b found, s *host.Session) {
	if info, err := s.Info(ctx); err == nil && !f.announced && len(info.Devices) > 0 && info.Devices[0].Type != "cpu" {
		d := info.Devices[0]
		d.Features = nil
		env.Notef("tests %s", deviceName(b.Name, rlx.Device(d)))
	}
	f.announced = true
}

// support prints the ops that the backend's description claims.
func (f *conformanceFlags) support(ctx context.Context, env *cli.Env, b found, c devicetest.Config) error {
	s, err := host.Start(ctx, f.rpcOptions(env, b, false))
	if err != nil {
		return err
	}
	defer s.Close()
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	claims := devicetest.Claims(info.Target)
	if env.JSON {
		return env.WriteJSON(claims)
	}
	rows := [][]string{{"OP", "KERNEL", "REFERENCE", "CASES", "TYPES", "FIRST UNSUPPORTED CASE"}}
	for _, x := range claims {
		if len(c.Ops) > 0 && !slices.Contains(c.Ops, x.Op) {
			continue
		}
		var types []string
		for _, d := range x.Types {
			types = append(types, d.String())
		}
		rows = append(
			rows, []string{x.Op, fmt.Sprint(x.Run), fmt.Sprint(x.Slow), fmt.Sprint(x.Total),
				cmp.Or(strings.Join(types, " "), "-"), cmp.Or(x.Why, "-")})
	}
	return env.Table(rows)
}

// perf times the ops that the backend claims and, unless it is the cpu backend, the same ops on that backend.
func (f *conformanceFlags) perf(ctx context.Context, env *cli.Env, reg *registry, b found, c devicetest.Config) error {
	measure := func(b found) (map[string]devicetest.Timing, []string, error) {
		s, err := host.Start(ctx, f.rpcOptions(env, b, false))
		if err != nil {
			return nil, nil, err
		}
		defer s.Close()
		out, order := map[string]devicetest.Timing{}, []string{}
		err = devicetest.Measure(ctx, s, c.Ops, func(t devicetest.Timing) {
			out[t.Op] = t
			order = append(order, t.Op)
		})
		return out, order, err
	}
	mine, order, err := measure(b)
	if err != nil {
		return err
	}
	var theirs map[string]devicetest.Timing
	if cpu, err := reg.find(defaultBackend); err == nil && cpu.Path != b.Path {
		if theirs, _, err = measure(cpu); err != nil {
			return err
		}
	}
	type row struct {
		devicetest.Timing
		CPU float64 `json:"cpu_seconds,omitempty"`
	}
	var list []row
	table := [][]string{{"OP", "OPERANDS", "TIME", "ON CPU", "RATIO"}}
	for _, op := range order {
		m, ratio, on := mine[op], "-", "-"
		t, ok := theirs[op]
		list = append(list, row{m, t.Seconds})
		if ok && t.Seconds > 0 {
			on, ratio = fmt.Sprintf("%.3f ms", 1e3*t.Seconds), fmt.Sprintf("%.2f", m.Seconds/t.Seconds)
		}
		table = append(table, []string{op, m.Operands, fmt.Sprintf("%.3f ms", 1e3*m.Seconds), on, ratio})
	}
	if env.JSON {
		return env.WriteJSON(list)
	}
	return env.Table(table)
}
