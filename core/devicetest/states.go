package devicetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// cache returns a program that appends T rows to a cache. It returns the sums of the cache before and after, and the
// rows doubled. It also counts its runs, and reads the old value of the counter after its update. For a backend that
// lacks an op of it, the program only returns the cache after the rows were appended, in a type that the backend
// claims. If there is no such program, why is the reason.
func (s *suite) cache() (p *program.Program, why string) {
	g := ir.NewGraph("cache", ir.Sym{Name: "T", Min: 1, Max: 3})
	rows := op.Input(g, "rows", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Static(2), ir.Named("T"), ir.Static(5)}})
	pos := op.Input(g, "pos", ir.TypeOf(dtype.I32))
	zero := op.Input(g, "zero", ir.TypeOf(dtype.I32))
	one := op.Input(g, "one", ir.TypeOf(dtype.F32, 1))
	old := op.State(g, "cache", ir.TypeOf(dtype.F32, 2, 8, 5), 0.5)
	runs := op.State(g, "runs", ir.TypeOf(dtype.F32, 1), 0)
	g.Return("doubled", op.Add(rows, rows))
	now := op.KVAppend(old, rows, pos, 1)
	next := op.KVAppend(runs, op.Add(runs, one), zero, 0)
	g.Return("before", op.ReduceSum(old, false, 0, 1, 2))
	g.Return("after", op.ReduceSum(now, false, 0, 1, 2))
	g.Return("runs", op.Add(next, runs)) // 2n - 1 in the n-th run
	p = mustBuild(g, nil)
	if s.info.Lacks(p) == "" {
		return p, ""
	}
	for _, d := range slices.Concat([]dtype.DType{dtype.F32}, s.info.Target.Types) {
		for _, at := range []dtype.DType{dtype.I32, dtype.I64} {
			for _, t := range []ir.Dim{ir.Named("T"), ir.Static(2)} {
				p, err := plainCache(d, at, t)
				if err != nil {
					continue
				}
				if s.info.Lacks(p) == "" {
					return p, ""
				}
				if _, lacks := takes(s.info.Target, p.Graph); why == "" {
					why = lacks
				}
			}
		}
	}
	return nil, why
}

// plainCache returns a program that appends t rows to a cache of type d and returns the cache. at is the type of the
// position.
func plainCache(d, at dtype.DType, t ir.Dim) (*program.Program, error) {
	var syms ir.Syms
	if !t.IsStatic() {
		syms = ir.Syms{{Name: "T", Min: 1, Max: 3}}
	}
	g := ir.NewGraph("cache", syms...)
	err := g.Build(func() {
		rows := op.Input(g, "rows", ir.Type{DType: d, Shape: ir.Shape{ir.Static(2), t, ir.Static(5)}})
		g.Return(
			"after",
			op.KVAppend(op.State(g, "cache", ir.TypeOf(d, 2, 8, 5), 0), rows, op.Input(g, "pos", ir.TypeOf(at)), 1))
	})
	if err != nil {
		return nil, err
	}
	return build(g, nil)
}

// appends returns the values of the symbols for a run of the cache that appends about t rows, and how many rows these
// are.
func appends(p *program.Program, t int) (syms map[string]int64, rows int) {
	if len(p.Graph.Syms) == 0 {
		return nil, 2
	}
	return map[string]int64{"T": int64(t)}, t
}

// cacheInputs returns inputs for one run: t rows that go to position pos.
func cacheInputs(rng *rand.Rand, p *program.Program, t, pos int) values {
	syms, _ := appends(p, t)
	in := values{}
	for _, n := range p.Graph.Inputs() {
		in[n.Name] = interp.Random(rng, n.Type, syms, ir.Range{})
	}
	for i := range in["rows"].Floats {
		in["rows"].Floats[i] = float64(rng.IntN(17)) / 4
	}
	for i := range in["rows"].Ints {
		in["rows"].Ints[i] = int64(rng.IntN(2))
	}
	in["pos"].Ints[0] = int64(pos)
	if in["one"] != nil {
		in["one"].Floats[0] = 1
	}
	return in
}

// checkState checks that a run reads the data that the previous run wrote to a state, that states are independent, that
// Clear, Copy, Read and Write work, and that a run with an invalid input writes nothing.
func (s *suite) checkState() error {
	p, why := s.cache()
	if p == nil {
		return skipped(why)
	}
	ctx := context.Background()
	return s.withRig(p, nil, device.Load{Threads: 2}, func(r *rig) (err error) {
		rng := rand.New(rand.NewPCG(8, 8))
		var handles [2]device.State
		var want [2][]byte
		for i := range handles {
			if handles[i], err = r.newState(); err != nil {
				return err
			}
			defer handles[i].Close()
			want[i] = program.InitState(p.States(), p.StateSize)
		}
		holds := func(i int) error {
			got := make([]byte, p.StateSize)
			if err := handles[i].Read(ctx, 0, got); err != nil {
				return err
			}
			for _, t := range p.States() {
				if b := got[t.Offset : t.Offset+t.Bytes()]; !bytes.Equal(b, want[i][t.Offset:t.Offset+t.Bytes()]) {
					return fmt.Errorf("state %d: %s holds %x; want %x", i, t.Name, b,
						want[i][t.Offset:t.Offset+t.Bytes()])
				}
			}
			return nil
		}
		for k := range 9 {
			i := rng.IntN(2)
			syms, rows := appends(p, 1+rng.IntN(3))
			in := cacheInputs(rng, p, rows, rng.IntN(9-rows))
			r.state = handles[i]
			if k == 4 { // an invalid position; the run must fail before it writes anything
				in["pos"].Ints[0] = []int64{-1, int64(9 - rows)}[i]
				if _, _, err := r.run(ctx, in, device.Run{Syms: syms}); !errors.Is(err, device.ErrInput) {
					return fmt.Errorf("rows at %d of 8: %w; want device.ErrInput", in["pos"].Ints[0], err)
				}
				if err := errors.Join(handles[i].Clear(ctx), handles[i].Write(ctx, 0, want[i])); err != nil {
					return err
				}
				continue
			}
			got, _, err := r.run(ctx, in, device.Run{Syms: syms})
			if err != nil {
				return err
			}
			exact, err := interp.RunProgramFrom(want[i], p, syms, in, nil)
			if err != nil {
				return err
			}
			for name, x := range exact {
				if err := compare(got[name].Array(), x, ir.Tolerance{Abs: 1e-4}); err != nil {
					return fmt.Errorf("run %d: output %s: %w", k, name, err)
				}
			}
			if err := errors.Join(holds(0), holds(1)); err != nil {
				return fmt.Errorf("after run %d: %w", k, err)
			}
		}
		if err := handles[0].Copy(ctx, handles[1]); err != nil {
			return err
		}
		copy(want[0], want[1])
		if err := handles[1].Clear(ctx); err != nil {
			return err
		}
		clear(want[1])
		at := p.States()[0].Offset + 13 // an unaligned offset
		if err := handles[1].Write(ctx, at, []byte{1, 2, 3}); err != nil {
			return err
		}
		copy(want[1][at:], []byte{1, 2, 3})
		if err := errors.Join(holds(0), holds(1)); err != nil {
			return err
		}
		for _, err := range []error{handles[0].Read(ctx, p.StateSize-2, make([]byte, 3)),
			handles[0].Write(ctx, -1, []byte{1})} {
			if !errors.Is(err, device.ErrInput) {
				return fmt.Errorf("bytes outside the state: %w; want device.ErrInput", err)
			}
		}
		return nil
	})
}

// checkStateRefused checks that device.ErrInput reports a missing state, a state that is too small, and transfers that
// do not fit.
func (s *suite) checkStateRefused() error {
	p, why := s.cache()
	if p == nil {
		return skipped(why)
	}
	ctx := context.Background()
	return s.withRig(p, nil, device.Load{}, func(r *rig) error {
		small, err := s.backend.NewState(ctx, "", 256)
		if err != nil {
			return err
		}
		defer small.Close()
		full, err := r.newState()
		if err != nil {
			return err
		}
		defer full.Close()
		bind := func(tensor int, st device.State, at int64) []device.Transfer {
			return []device.Transfer{{Tensor: tensor, State: st, Offset: at}}
		}
		for what, run := range map[string]device.Run{
			"no state":                  {},
			"a small state":             {State: small},
			"a feed of no input":        {State: full, Feeds: bind(4, small, 0)},
			"a feed beyond the state":   {State: full, Feeds: bind(0, small, 256)},
			"a feed at an odd offset":   {State: full, Feeds: bind(1, full, 4)},
			"a feed before the state":   {State: full, Feeds: bind(0, small, -4)},
			"a keep of no output":       {State: full, Keeps: bind(-1, small, 0)},
			"a keep beyond the state":   {State: full, Keeps: bind(0, small, 1<<62)},
			"too few outputs to choose": {State: full, Outputs: make([]bool, len(p.Graph.Outputs)-1)},
		} {
			run.IO = r.io
			run.Syms, _ = appends(p, 1)
			if _, err := r.exe.Run(ctx, run); !errors.Is(err, device.ErrInput) {
				return fmt.Errorf("%s: %v; want device.ErrInput", what, err)
			}
		}
		r.state = full
		syms, rows := appends(p, 1)
		_, _, err = r.run(ctx, cacheInputs(rand.New(rand.NewPCG(1, 1)), p, rows, 8-rows), device.Run{Syms: syms})
		return err
	})
}

// checkTransfers checks runs that keep an output in a state or read an input from a state. The bytes must be those that
// the host would copy. An output may be kept even if the host does not ask for it.
func (s *suite) checkTransfers() error {
	ctx := context.Background()
	return s.withPlain(4, device.Load{}, func(r *rig, x *plain) error {
		const at = 256
		input := r.program.Graph.Inputs()
		whole, err := r.program.Bind(x.at(x.largest))
		if err != nil || len(input) == 0 {
			return errors.Join(
				err, skipped(fmt.Sprintf("the programs of ops that the backend claims (%v) have no input", x.recipe)))
		}
		room := program.AlignUp(max(whole.Outputs[0].Bytes, whole.Inputs[0].Bytes, 1))
		st, err := s.backend.NewState(ctx, "", at+2*room)
		if err != nil {
			return err
		}
		defer st.Close()
		for _, n := range []int64{2, x.largest, 1} {
			in, syms := x.inputs(n), x.at(n)
			out, _, err := r.run(
				ctx, in, device.Run{Syms: syms, Keeps: []device.Transfer{{Tensor: 0, State: st, Offset: at}}})
			if err != nil {
				return err
			}
			first := r.program.Graph.Outputs[0].Name
			kept := make([]byte, len(out[first].Data))
			if err := st.Read(ctx, at, kept); err != nil {
				return err
			}
			if !bytes.Equal(kept, out[first].Data) {
				return fmt.Errorf("kept is %x; want %x", kept, out[first].Data)
			}
			// Run the program again, with the first input from the state: its own output if the steps are chained, or
			// else the same input.
			if x.chained {
				in[input[0].Name] = out[first].Array()
			} else if err := st.Write(ctx, at, in[input[0].Name].Tensor().Data); err != nil {
				return err
			}
			b, err := r.program.Bind(syms)
			if err != nil {
				return err
			}
			copy(r.io, bytes.Repeat([]byte{pattern}, len(r.io)))
			for i, n := range input[1:] {
				copy(r.io[b.Inputs[i+1].Offset:], in[n.Name].Tensor().Data)
			}
			again := device.Run{Syms: syms, IO: r.io, Outputs: make([]bool, len(b.Outputs)),
				Feeds: []device.Transfer{{Tensor: 0, State: st, Offset: at}},
				Keeps: []device.Transfer{{Tensor: 0, State: st, Offset: at + room}},
				Opts:  device.RunOptions{Profile: true}}
			stats, err := r.exe.Run(ctx, again)
			if err != nil {
				return err
			}
			steps := len(r.program.Steps)
			if needed := r.program.Needed(again.Computed(), nil); needed != nil {
				steps = len(slices.DeleteFunc(needed, func(need bool) bool { return !need }))
			}
			if len(stats.Steps) != steps {
				return fmt.Errorf("%d steps ran for an output that is kept; want %d", len(stats.Steps), steps)
			}
			fed := make([]byte, len(kept))
			if err := st.Read(ctx, at+room, fed); err != nil {
				return err
			}
			want, _, err := r.run(ctx, in, device.Run{Syms: syms})
			if err != nil {
				return err
			}
			if !bytes.Equal(fed, want[first].Data) {
				return fmt.Errorf("a run that is fed gives %x; want %x", fed, want[first].Data)
			}
		}
		return nil
	})
}

// checkWanted checks runs that ask for some of the outputs. They must run the steps that those outputs need, and all
// that update a state.
func (s *suite) checkWanted() error {
	p, why := s.cache()
	if p == nil {
		return skipped(why)
	}
	return s.withRig(p, nil, device.Load{}, func(r *rig) error {
		names := make([]string, len(p.Graph.Outputs))
		for i, o := range p.Graph.Outputs {
			names[i] = o.Name
		}
		rng := rand.New(rand.NewPCG(4, 4))
		ctx := context.Background()
		syms, _ := appends(p, 2)
		st, err := r.newState()
		if err != nil {
			return err
		}
		defer st.Close()
		want, r0 := program.InitState(p.States(), p.StateSize), r.state
		r.state = st
		defer func() { r.state = r0 }()
		for mask := range 1 << len(names) {
			outputs := make([]bool, len(names))
			for i := range outputs {
				outputs[i] = mask>>i&1 == 1
			}
			in := cacheInputs(rng, p, 2, mask%7)
			exact, err := interp.RunProgramFrom(want, p, syms, in, nil)
			if err != nil {
				return err
			}
			got, stats, err := r.run(
				ctx, in, device.Run{Syms: syms, Outputs: outputs, Opts: device.RunOptions{Profile: true}})
			if err != nil {
				return err
			}
			var nodes []int
			needed := p.Needed(outputs, nil)
			for i, st := range p.Steps {
				if needed == nil || needed[i] {
					nodes = append(nodes, st.Node)
				}
			}
			if !slices.EqualFunc(stats.Steps, nodes, func(st device.Step, n int) bool { return st.Node == n }) {
				return fmt.Errorf("outputs %v: steps %+v ran; want those of nodes %v", outputs, stats.Steps, nodes)
			}
			for i, name := range names {
				if !outputs[i] {
					continue
				}
				if err := compare(got[name].Array(), exact[name], ir.Tolerance{Abs: 1e-4}); err != nil {
					return fmt.Errorf("outputs %v: %s: %w", outputs, name, err)
				}
			}
		}
		return nil
	})
}

// checkGenerate appends a few rows at a time to a cache and applies causal attention to it. The results must be those
// of attention over all rows at once. The position is an input, so one executable serves all positions.
func (s *suite) checkGenerate() error {
	const heads, dim, most = 2, 8, 24
	typ := func(t ir.Dim) ir.Type {
		return ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Static(1), ir.Static(heads), t, ir.Static(dim)}}
	}
	attrs := op.AttentionAttrs{Heads: heads, Layout: op.BHSD, Mask: op.MaskCausal}
	g := ir.NewGraph("step", ir.Sym{Name: "T", Min: 1, Max: 5})
	var in [3]*ir.Node
	for i, name := range []string{"q", "k", "v"} {
		in[i] = op.Input(g, name, typ(ir.Named("T")))
	}
	pos := op.Input(g, "pos", ir.TypeOf(dtype.I32))
	ks := op.KVAppend(op.State(g, "keys", typ(ir.Static(most)), 0), in[1], pos, 2)
	vs := op.KVAppend(op.State(g, "values", typ(ir.Static(most)), 0), in[2], pos, 2)
	g.Return("y", op.Attention(in[0], ks, vs, op.AttentionOperands{Position: pos}, attrs))
	rng := rand.New(rand.NewPCG(6, 6))
	var rows [3]*tensor.Array
	for i := range rows {
		rows[i] = interp.Random(rng, typ(ir.Static(most)), nil, ir.Range{Lo: -2, Hi: 2})
	}
	want := tensor.NewArray(dtype.F32, 1, heads, most, dim)
	if err := op.AttentionDef.Eval(attrs, rows[:], want); err != nil {
		return err
	}
	part := func(x *tensor.Array, at, n int) *tensor.Array {
		out := tensor.NewArray(dtype.F32, 1, heads, n, dim)
		for h := range heads {
			copy(out.Floats[h*n*dim:(h+1)*n*dim], x.Floats[(h*most+at)*dim:])
		}
		return out
	}
	return s.withRig(mustBuild(g, nil), nil, device.Load{Threads: 2}, func(r *rig) error {
		st, err := r.newState()
		if err != nil {
			return err
		}
		defer st.Close()
		stale := bytes.Repeat([]byte{0xFF}, int(st.Size())) // NaN, because rows after the position must not be read
		if err := st.Write(context.Background(), 0, stale); err != nil {
			return err
		}
		r.state = st
		for at := 0; at < most; {
			n := min(1+rng.IntN(5), most-at)
			given := values{"q": part(rows[0], at, n), "k": part(rows[1], at, n), "v": part(rows[2], at, n),
				"pos": tensor.NewArray(dtype.I32)}
			given["pos"].Ints[0] = int64(at)
			got, _, err := r.run(context.Background(), given, device.Run{Syms: map[string]int64{"T": int64(n)}})
			if err != nil {
				return err
			}
			if err := compare(got["y"].Array(), part(want, at, n), ir.Tolerance{Abs: 1e-5, Rel: 1e-5}); err != nil {
				return fmt.Errorf("rows %d to %d: %w", at, at+n-1, err)
			}
			at += n
		}
		return nil
	})
}
