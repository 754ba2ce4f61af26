//go:build linux || darwin

// Package rpctest has backends for tests of the protocol: one that computes by the definitions of the ops, and one that
// misbehaves as a script says. A test starts its own binary as the backend.
package rpctest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// Program computes out = -(gelu(x·w) + x) for x f32[N,4]. It has four steps, a weight and a symbol.
func Program(t testing.TB) *program.Program {
	t.Helper()
	g := ir.NewGraph("encode", ir.Sym{Name: "N", Min: 1, Max: 1 << 16})
	x := op.Input(g, "x", ir.MustType("f32[N,4]"))
	w := op.Param(g, "w", ir.MustType("f32[4,4]"))
	h := op.Gelu(op.MatMul(x, w, op.MatMulAttrs{}).Named("xw")).Named("act")
	g.Return("y", op.Neg(op.Add(h, x).Named("sum")).Named("y"))
	if g.Err() != nil {
		t.Fatal(g.Err())
	}
	p, _, err := sched.Build(g, sched.Options{Method: "encode", Target: "portable",
		Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Weights returns the value of w of Program.
func Weights() []byte {
	w := make([]float32, 16)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range w {
		w[i] = rng.Float32()*2 - 1
	}
	return tensor.Bytes(w)
}

// Input returns n rows of Program's input.
func Input(n int, seed uint64) []byte {
	x := make([]float32, 4*n)
	rng := rand.New(rand.NewPCG(seed, 3))
	for i := range x {
		x[i] = rng.Float32()*4 - 2
	}
	return tensor.Bytes(x)
}

// WantOutput runs the program with the reference executor in this process.
func WantOutput(t testing.TB, p *program.Program, n int, in []byte) []byte {
	t.Helper()
	x := tensor.Tensor{DType: p.Graph.Inputs()[0].Type.DType, Shape: []int{n, 4}, Data: in}
	out, err := interp.RunProgram(p, map[string]int64{"N": int64(n)}, map[string]*tensor.Array{"x": x.Array()},
		Weights())
	if err != nil {
		t.Fatal(err)
	}
	return out["y"].Tensor().Data
}

// programText is the form in which these tests encode programs.
type programText struct {
	Method, Target, Graph string
	Places                []program.Place
	Steps                 []program.Step
	ArenaSize, IOSize     int64
}

// Encode encodes a program as text.
func Encode(p *program.Program) ([]byte, error) {
	return json.Marshal(programText{p.Method, p.Target, p.Graph.String(), p.Places, p.Steps, p.ArenaSize, p.IOSize})
}

// Decode decodes what Encode wrote.
func Decode(b []byte) (*program.Program, error) {
	var t programText
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, err
	}
	g, err := ir.Parse(t.Graph)
	if err != nil {
		return nil, err
	}
	return &program.Program{Method: t.Method, Target: t.Target, Graph: g, Places: t.Places, Steps: t.Steps,
		ArenaSize: t.ArenaSize, IOSize: t.IOSize}, nil
}

// Reference runs each step with the op's reference evaluation. It calls at before each step.
type Reference struct {
	at         func(ctx context.Context, step int) error
	precisions []string
	lazy       bool // if the number of rows is odd, do not write the outputs
}

func refTarget() *target.Description {
	d, err := target.Parse("target ref 1\ntypes f32\nrun matmul(f32...)")
	if err != nil {
		panic(err)
	}
	return d
}

func (b Reference) Info(context.Context) (device.Info, error) {
	return device.Info{Name: "ref", Version: "1", Target: refTarget(),
		Devices: []device.Device{
			{ID: "0", Name: "reference", Type: "software", Memory: 1 << 30, Features: []string{"slow"}}},
		Precisions: b.precisions, SetsWeights: true}, nil
}

func (b Reference) Load(_ context.Context, l device.Load) (device.Executable, error) {
	if err := b.checkDevice(l.Device); err != nil {
		return nil, err
	}
	return &refExecutable{b, l, make([]byte, l.Program.ArenaSize)}, nil
}

// SetWeights replaces weights in a copy of those of Load.
func (e *refExecutable) SetWeights(_ context.Context, w device.NewWeights) error {
	weights := slices.Clone(e.l.Weights)
	for _, id := range w.Params {
		pl := e.l.Program.Places[id]
		copy(weights[pl.Offset:pl.Offset+pl.Size], w.Weights[pl.Offset:])
	}
	e.l.Weights = weights
	return nil
}

func (b Reference) checkDevice(id string) error {
	if id != "" && id != "0" {
		return diag.New(device.ErrUnavailable, "ref", "device %q: have only 0", id).WithHint("leave --device out")
	}
	return nil
}

func (b Reference) NewState(_ context.Context, id string, size int64) (device.State, error) {
	if err := b.checkDevice(id); err != nil {
		return nil, err
	}
	return device.NewHostState(make([]byte, size), nil), nil
}

type refExecutable struct {
	b     Reference
	l     device.Load
	arena []byte
}

func (e *refExecutable) Kernels() []device.Kernel {
	return []device.Kernel{{Op: "matmul" + e.l.Precision, Native: false}}
}

// FakeMemory is the memory that executables report as needed by runs, in bytes.
const FakeMemory = 4321

func (e *refExecutable) Memory() int64 { return FakeMemory }
func (e *refExecutable) Close() error {
	if n := len(e.l.IO); n > 0 { // crashes if the memory is no longer mapped
		e.l.IO[0], e.l.IO[n-1] = 0, 0
	}
	return nil
}

// FakeDeviceMemory is the device memory that runs report, in bytes.
const FakeDeviceMemory = 12345

func (e *refExecutable) Run(ctx context.Context, r device.Run) (st device.Stats, err error) {
	st.FirstNaN = -1
	if len(r.IO) != len(e.l.IO) || &r.IO[0] != &e.l.IO[0] || !tensor.Aligned(r.IO, os.Getpagesize()) {
		return st,
			diag.New(
				device.ErrDevice, "ref",
				"inputs and outputs are not in the memory that Load was given, or not at the start of a page")
	}
	bound, err := e.l.Program.Bind(r.Syms)
	if err != nil {
		return st, err
	}
	at := func(o program.Operand) []byte {
		return map[program.Space][]byte{program.Weights: e.l.Weights, program.Arena: e.arena, program.IO: r.IO,
			program.State: device.HostBytes(r.State)}[o.Space][o.Offset:][:o.Bytes]
	}
	if err := r.CheckState(e.l.Program, bound.Inputs, bound.Outputs); err != nil {
		return st, err
	}
	if err := r.CopyFeeds(func(i int) []byte { return at(bound.Inputs[i]) }); err != nil {
		return st, err
	}
	begun := time.Now()
	for i, s := range bound.Steps {
		r.Progress(i)
		if e.b.at != nil {
			if err := e.b.at(ctx, i); err != nil {
				return st, err
			}
		}
		if err := ctx.Err(); err != nil {
			return st, err
		}
		in := make([]*tensor.Array, len(s.In))
		for k, o := range s.Operands() {
			in[k] = tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: at(o)}.Array()
		}
		out := tensor.NewArray(s.Outs[0].DType, s.Outs[0].Shape...)
		start := time.Since(begun)
		if err := s.Node.Op.Eval(s.Node.Attrs, in, out); err != nil {
			return st, fmt.Errorf("%s: %w", s.Node.Label(), err)
		}
		if !e.b.lazy || r.Syms["N"]%2 == 0 || s.Outs[0].Space != program.IO {
			copy(at(s.Outs[0]), out.Tensor().Data)
		}
		if r.Opts.CheckNaN && slices.ContainsFunc(out.Floats, math.IsNaN) {
			st.FirstNaN = s.Node.ID
			return st, diag.New(device.ErrNaN, s.Node.Label(), "produced a NaN")
		}
		if r.Opts.Profile {
			st.Steps = append(st.Steps, device.Step{Node: s.Node.ID, Start: start, Time: time.Since(begun) - start})
		}
		for _, d := range r.Opts.Dump {
			if d == s.Node.ID {
				if err := r.Opts.Observe(d, s.Outs[0].Shape, at(s.Outs[0])); err != nil {
					return st, err
				}
			}
		}
	}
	if err := r.CopyKeeps(func(i int) []byte { return at(bound.Outputs[i]) }); err != nil {
		return st, err
	}
	r.Progress(len(bound.Steps))
	st.Total, st.DeviceMemory = time.Since(begun), FakeDeviceMemory
	if r.Opts.Profile {
		st.Clock = device.DeviceClock
	}
	return st, nil
}
