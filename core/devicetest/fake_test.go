package devicetest

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// fake is a backend that runs every op by its definition. It is correct except for one fault.
type fake struct {
	fault string
	not   string // an op or element type that the description lacks
	only  string // the description's only rules, separated by semicolons; empty means a rule for each op
}

func (f fake) Info(context.Context) (device.Info, error) {
	to := &target.Description{Name: "fake", Version: "1"}
	i := device.Info{Name: "fake", Version: "1", Target: to,
		Devices: []device.Device{{ID: "a", Name: "A", Type: "cpu"}}}
	for _, d := range ir.Defs() {
		if d.Eval != nil && !d.Block && d.Name != f.not {
			to.Rules = append(to.Rules, target.RuleOf(d, target.Reference))
		}
	}
	for _, d := range dtype.Known() {
		if d.String() != f.not {
			to.Types = append(to.Types, d)
		}
	}
	if f.fault == "no devices" {
		i.Devices = nil
	}
	if f.only != "" {
		to.Rules = nil
		for rule := range strings.SplitSeq(f.only, ";") {
			to.Rules = append(to.Rules, target.MustRule(strings.TrimSpace(rule)))
		}
	}
	to.Sort()
	return i, nil
}

// oneState is the memory that all states share, for the fault "one state".
var oneState []byte

func (f fake) NewState(_ context.Context, _ string, size int64) (device.State, error) {
	if f.fault == "one state" {
		if oneState == nil {
			oneState = make([]byte, 1<<16)
		}
		return device.NewHostState(oneState[:size], nil), nil
	}
	return device.NewHostState(make([]byte, size), nil), nil
}

func (f fake) Load(_ context.Context, l device.Load) (device.Executable, error) {
	if l.Device != "" && l.Device != "a" && f.fault != "any device" {
		return nil, diag.New(device.ErrUnavailable, "fake", "no device %s", l.Device)
	}
	if info, _ := f.Info(context.Background()); f.only != "" && info.Lacks(l.Program) != "" {
		return nil, diag.New(device.ErrUnsupported, "fake", "%s", info.Lacks(l.Program))
	}
	x := &fakeExecutable{fake: f, l: l, arena: make([]byte, l.Program.ArenaSize+64)}
	for _, n := range l.Program.Graph.Nodes {
		if f.not != "" && (program.IsStep(n) && n.Op.Name == f.not || n.Type.DType.String() == f.not) &&
			f.fault != "takes all" {
			code := device.ErrUnsupported
			if f.fault == "wrong refusal" {
				code = device.ErrDevice
			}
			return nil, diag.New(code, "fake", "no %s", f.not)
		}
		if program.IsStep(n) && !slices.ContainsFunc(x.list, func(k device.Kernel) bool { return k.Op == n.Op.Name }) {
			x.list = append(x.list, device.Kernel{Op: n.Op.Name, Native: true})
		}
	}
	return x, nil
}

type fakeExecutable struct {
	fake
	l      device.Load
	arena  []byte
	list   []device.Kernel
	runs   int
	io     []byte         // of the first run
	values map[int][]byte // of the first run, by node
}

func (x *fakeExecutable) Kernels() []device.Kernel {
	if x.fault == "no kernels" {
		return nil
	}
	return x.list
}

func (x *fakeExecutable) Memory() int64 { return 0 }

func (x *fakeExecutable) Close() error { return nil }

func (x *fakeExecutable) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	start, stats := time.Now(), device.Stats{FirstNaN: -1}
	if x.fault == "clamps sizes" {
		r.Syms = x.l.Program.Graph.Syms.Max()
	}
	b, err := x.l.Program.Bind(r.Syms)
	if err != nil || int64(len(r.IO)) < x.l.Program.IOSize {
		code := device.ErrInput
		if x.fault == "no code" {
			code = diag.Internal
		}
		return stats, diag.New(code, "fake", "sizes %v, io %d: %w", r.Syms, len(r.IO), err)
	}
	if err := r.CheckState(x.l.Program, b.Inputs, b.Outputs); err != nil {
		if x.fault == "takes any state" {
			return stats, nil
		}
		return stats, err
	}
	if x.fault != "feeds nothing" {
		if err := r.CopyFeeds(func(i int) []byte { return x.view(b.Inputs[i], r).Data }); err != nil {
			return stats, err
		}
	}
	needed := x.l.Program.Needed(r.Computed(), r.Opts.Dump)
	if x.fault == "forgets an update" {
		needed = x.l.Program.Needed(r.Outputs, r.Opts.Dump)
		for i, st := range x.l.Program.Steps {
			if needed != nil && x.l.Program.Graph.Nodes[st.Node].Op.Updates {
				needed[i] = false
			}
		}
	}
	if x.runs++; x.runs == 1 {
		x.io, x.values = r.IO, map[int][]byte{}
	}
	if x.fault == "keeps io" {
		r.IO = x.io
	}
	for i, s := range b.Steps {
		if ctx.Err() != nil && x.fault != "never cancels" {
			if x.fault == "own cancel error" {
				return stats, diag.New(device.ErrDevice, "fake", "stopped")
			}
			return stats, ctx.Err()
		}
		if needed != nil && !needed[i] && x.fault != "runs all steps" {
			continue
		}
		if r.Progress != nil && x.fault == "progress goes back" {
			r.Progress(len(b.Steps) - 1 - i)
		} else if r.Progress != nil {
			r.Progress(i)
		}
		if err := x.step(s, r); err != nil {
			return stats, err
		}
		for k, o := range s.Outs {
			if k > 0 && x.fault == "observes one result" {
				break
			}
			out := x.view(o, r)
			if x.fault == "nan in the tail" {
				out.Data = out.Data[:cap(out.Data)]
			}
			if slices.Contains(r.Opts.Dump, o.Node) != (x.fault == "observes others" && len(b.Steps) == 6) &&
				r.Opts.Observe != nil {
				if err := r.Opts.Observe(o.Node, o.Shape, x.view(o, r).Data); err != nil && x.fault != "observes on" {
					return stats, err
				}
			}
			if n := x.l.Program.Graph.Nodes[o.Node]; r.Opts.CheckNaN && hasNaN(out) &&
				(x.fault != "nan late" || n.Name == "later") {
				if x.fault == "names the op" {
					n = s.Node
				}
				stats.FirstNaN = n.ID
				return stats, diag.New(device.ErrNaN, n.Label(), "NaN")
			}
		}
		if r.Opts.Profile && !(x.fault == "profile lacks a step" && i == 3) {
			st := device.Step{Node: s.Node.ID, Start: time.Since(start)}
			if x.fault == "profile is long" {
				st.Time = time.Hour
			}
			stats.Steps = append(stats.Steps, st)
		}
	}
	if x.fault != "keeps nothing" {
		if err := r.CopyKeeps(func(i int) []byte { return x.view(b.Outputs[i], r).Data }); err != nil {
			return stats, err
		}
	}
	if r.Progress != nil && x.fault != "progress lacks the end" {
		r.Progress(len(b.Steps))
	}
	switch x.fault {
	case "writes an input":
		for _, o := range b.Inputs {
			flip(x.view(o, r).Data)
		}
	case "writes a weight":
		flip(x.l.Weights)
	}
	stats.Total = max(time.Since(start), 1)
	return stats, nil
}

func flip(b []byte) {
	if len(b) > 0 {
		b[0] ^= 1
	}
}

func (x *fakeExecutable) view(o program.Operand, r device.Run) tensor.Tensor {
	space := [...][]byte{program.Weights: x.l.Weights, program.Arena: x.arena, program.IO: r.IO,
		program.State: device.HostBytes(r.State)}[o.Space]
	room := min(o.Offset+program.AlignUp(o.Bytes+1), int64(len(space)))
	return tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: space[o.Offset:][:o.Bytes:max(room-o.Offset, o.Bytes)]}
}

// overwritten reports whether a result of n may overwrite operand k.
func overwritten(n *ir.Node, k int) bool {
	return slices.ContainsFunc(n.Values(), func(v *ir.Node) bool { return slices.Contains(v.Overwrites(), k) })
}

func (x *fakeExecutable) step(s program.BoundStep, r device.Run) error {
	in := make([]*tensor.Array, len(s.In))
	// A plan must be correct for any kernel. So this one overwrites the places of its results before it reads the
	// operands that the op may not overwrite.
	spared := func(k int) bool { return s.Node.Op.Elementwise || overwritten(s.Node, k) }
	for k, o := range s.Operands() {
		if spared(k) {
			in[k] = x.view(o, r).Array()
		}
	}
	for _, o := range s.Outs {
		for i := range x.view(o, r).Data {
			x.view(o, r).Data[i] = pattern
		}
	}
	for k, o := range s.Operands() {
		if !spared(k) {
			in[k] = x.view(o, r).Array()
		}
		if s.Node.Op.Name == "copy" { // moves bytes
			continue
		}
		if x.fault == "flushes denormals" || x.fault == "flushes sometimes" && x.runs%3 == 0 ||
			x.fault == "flushes signs" {
			for i, v := range in[k].Floats {
				if denormal(v, in[k].DType) && x.fault == "flushes signs" {
					in[k].Floats[i] = 0
				} else if denormal(v, in[k].DType) {
					in[k].Floats[i] = math.Copysign(0, v)
				}
			}
		}
		if x.fault == "clamps an index" && s.Node.Op.Name == "gather" && k == 1 {
			for i := range in[k].Ints {
				in[k].Ints[i] = 0
			}
		}
	}
	results := make([]*tensor.Array, len(s.Outs))
	for k, o := range s.Outs {
		results[k] = tensor.NewArray(o.DType, o.Shape...)
	}
	if err := s.Node.Op.Eval(s.Node.Attrs, in, results...); err != nil {
		if x.fault == "wrong value error" {
			return diag.New(device.ErrDevice, s.Node.Label(), "%w", err)
		}
		return diag.New(device.ErrInput, s.Node.Label(), "%w", err)
	}
	for k, o := range s.Outs {
		if k == 0 || x.fault != "only the first result" {
			x.store(s, o, results[k], r)
		}
	}
	return nil
}

// store writes a result of a step, changed by the fault.
func (x *fakeExecutable) store(s program.BoundStep, o program.Operand, out *tensor.Array, r device.Run) {
	copies := s.Node.Op.Name == "copy"
	last := len(out.Floats) - 1
	switch {
	case x.fault == "last element" && last >= 16 && !copies:
		out.Floats[last] += 0.01
	case x.fault == "loses NaN" && !copies:
		for i, v := range out.Floats {
			if v != v {
				out.Floats[i] = 0
			}
		}
	case x.fault == "spreads NaN" && slices.ContainsFunc(out.Floats, math.IsNaN) && s.Node.Op.Name == "softmax":
		for i := range out.Floats {
			out.Floats[i] = math.NaN()
		}
	}
	t, data := x.view(o, r), out.Tensor().Data
	if old, ok := x.values[o.Node]; ok && x.fault == "keeps results" && len(old) == len(data) {
		data = old
	}
	x.values[o.Node] = slices.Clone(data)
	if len(data) > 0 && out.Floats != nil {
		if x.fault == "three threads" && x.l.Threads == 3 || x.fault == "many threads" && x.l.Threads > 3 &&
			out.Len() > 100_000 || x.fault == "changes its mind" && x.runs == 3 {
			data[0] ^= 1
		}
	}
	copy(t.Data, data)
	switch {
	case x.fault == "writes behind" && o.Space == program.IO && cap(t.Data) > len(t.Data):
		t.Data[:len(t.Data)+1][len(t.Data)] = 7
	case x.fault == "writes behind in the arena" && o.Space == program.Arena && !copies && len(x.arena) > 0:
		end := int(program.AlignUp(o.Offset + max(o.Bytes, 1)))
		flip(x.arena[min(end, len(x.arena)-1):])
	case x.fault == "moves values in the arena" && o.Space == program.Arena && !copies:
		copy(x.arena, t.Data[:len(t.Data)/2])
	}
}

func hasNaN(t tensor.Tensor) bool {
	t.Shape = []int{len(t.Data) / t.DType.Size()}
	return slices.ContainsFunc(t.Array().Floats, math.IsNaN)
}
