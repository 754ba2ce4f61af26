package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/plugins/rpc"
)

// host runs methods of one artifact on one device of one backend.
type host struct {
	env     *cli.Env
	model   *model
	backend string // name
	info    device.Info
	device  device.Device

	sandbox   rpc.Confinement
	precision string // of products; empty: f32

	load      func(context.Context, *program.Program) (executable, error)
	unchanged func() error // see model
	peakRSS   func() int64 // of the backend's process
	memory    *memory
	debug     debugFlags
	trace     *trace

	runs []runRecord
}

// runRecord is what is known about one run of a method.
type runRecord struct {
	prog  *program.Program
	syms  map[string]int64
	begin time.Time
	wall  time.Duration // inputs handed in to outputs readable
	stats device.Stats
}

// executable is a loaded program that takes inputs from where they lie and gives outputs of its own.
type executable interface {
	device.Executable
	RunTensors(ctx context.Context, r device.Run, in [][]byte) (out [][]byte, st device.Stats, err error)
}

// loaded is a method ready to run.
type loaded struct {
	h       *host
	prog    *program.Program
	exe     executable
	kernels []device.Kernel
	memory  int64 // that these compute in, at most
}

// chooseDevice sets the device: the one asked for, or the backend's first.
func (h *host) chooseDevice(id string) error {
	if len(h.info.Devices) == 0 {
		return diag.New(device.ErrUnavailable, "backend "+h.backend, "has no device on this machine")
	}
	var ids []string
	for _, d := range h.info.Devices {
		if d.ID == id || id == "" {
			h.device = d
			return nil
		}
		ids = append(ids, h.backend+":"+d.ID)
	}
	return diag.New(device.ErrUnavailable, "device "+h.backend+":"+id, "is not there; allowed are %s", strings.Join(ids, ", "))
}

// pick is the program of a method that suits the backend best.
func (h *host) pick(method string) (*program.Program, error) {
	progs := h.model.targets(method)
	if len(progs) == 0 {
		return nil, cli.Usagef("--method "+method, "is not a method of %s; methods are %s", h.model.path, strings.Join(h.model.methods(), ", "))
	}
	return h.info.Choose(progs)
}

// loadAll makes methods ready, after a check that memory suffices for all of them together. The one with the largest IO
// space comes first: it fixes the size of the region that host and backend share.
func (h *host) loadAll(ctx context.Context, methods ...string) (map[string]*loaded, error) {
	var progs []*program.Program
	for _, m := range methods {
		p, err := h.pick(m)
		if err != nil {
			return nil, err
		}
		progs = append(progs, p)
	}
	if err := h.checkMemory(progs); err != nil {
		return nil, err
	}
	slices.SortStableFunc(progs, func(a, b *program.Program) int { return cmp.Compare(b.IOSize, a.IOSize) })
	out := map[string]*loaded{}
	for _, p := range progs {
		done := h.trace.span("load " + p.Method)
		exe, err := h.load(ctx, p)
		done()
		if err != nil {
			for _, l := range out {
				l.exe.Close()
			}
			return nil, err
		}
		out[p.Method] = &loaded{h, p, exe, exe.Kernels(), exe.Memory()}
		// Nothing of it is used before the first run.
		if err := h.memory.need(part{"kernels", exe.Memory()}); err != nil {
			for _, l := range out {
				l.exe.Close()
			}
			return nil, err
		}
	}
	return out, nil
}

// run executes a method once.
func (l *loaded) run(ctx context.Context, in map[string]tensor.Tensor) (map[string]tensor.Tensor, error) {
	g := l.prog.Graph
	syms, err := checkInputs(g, in)
	if err != nil {
		return nil, err
	}
	bound, err := l.prog.Bind(syms)
	if err != nil {
		return nil, diag.New(device.ErrInput, g.Name, "%w", err)
	}
	watch, err := l.h.debug.watch(ctx, l, bound, in)
	if err != nil {
		return nil, err
	}
	bar := l.h.env.Progress(l.prog.Method, int64(len(l.prog.Steps)))
	defer bar.Clear()
	done := l.h.trace.span("run " + l.prog.Method)
	rec := runRecord{prog: l.prog, syms: syms, begin: time.Now()}
	var data, results [][]byte
	for _, n := range g.Inputs() {
		data = append(data, in[n.Name].Data)
	}
	results, rec.stats, err = l.exe.RunTensors(ctx, device.Run{Syms: syms, Opts: watch.options,
		Progress: func(step int) { bar.Set(int64(step)) }}, data)
	if err == nil {
		err = l.h.unchanged() // the backend reads the weights where they lie
	}
	if err == nil {
		err = watch.verdict(rec.stats)
	}
	if err != nil {
		return nil, err
	}
	out := map[string]tensor.Tensor{}
	for i, o := range bound.Outputs {
		out[g.Outputs[i].Name] = tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: results[i]}
	}
	rec.wall = time.Since(rec.begin)
	done()
	l.h.runs = append(l.h.runs, rec)
	return out, nil
}

// staticTypes are the operands' types under the values of the symbols they were bound with.
func staticTypes(list []program.Operand) []ir.Type {
	types := make([]ir.Type, len(list))
	for i, o := range list {
		types[i].DType = o.DType
		for _, d := range o.Shape {
			types[i].Shape = append(types[i].Shape, ir.Static(int64(d)))
		}
	}
	return types
}

// flops counts the arithmetic of one step, a multiply-add as two.
func flops(s program.BoundStep) int64 {
	return s.Node.Op.FLOPs(s.Node.Attrs, staticTypes(s.In), staticTypes(s.Outs)...)
}

// traffic is the bytes that one step reads and writes at least.
func traffic(s program.BoundStep) int64 {
	var n int64
	for _, list := range [][]program.Operand{s.In, s.Outs} {
		for _, o := range list {
			n += o.Bytes
		}
	}
	return n
}
