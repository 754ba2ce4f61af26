//go:build linux

package shim

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
	"github.com/rlx-go/rlx/plugins/metal/msl"
)

// TestMatrixAttention compares the results of attention with matrices to those of the reference. The cases have every
// mask and kind of operand; head dims and numbers of queries and keys that are not multiples of a matrix or a tile; and
// tiles of other shapes than the default.
func TestMatrixAttention(t *testing.T) {
	typ := ir.TypeOf
	f32 := func(n ...int64) ir.Type { return typ(dtype.F32, n...) }
	i32 := func(n ...int64) ir.Type { return typ(dtype.I32, n...) }
	attend := func(a op.AttentionAttrs) func(in []*ir.Node) *ir.Node {
		if a.Mask == "" {
			a.Mask = op.MaskNone
		}
		return func(in []*ir.Node) *ir.Node {
			var o op.AttentionOperands
			switch {
			case len(in) == 3:
			case a.Mask == op.MaskCustom || a.Mask == op.MaskBias:
				o.Mask = in[3]
			default:
				o.Position = in[3]
			}
			return op.Attention(in[0], in[1], in[2], o, a)
		}
	}
	lengths := func(in []*ir.Node) *ir.Node {
		return op.Attention(in[0], in[1], in[2], op.AttentionOperands{KVLen: in[3], Sinks: in[4]},
			op.AttentionAttrs{Heads: 2, Layout: op.BHSD, Mask: op.MaskCausal})
	}
	pages := func(in []*ir.Node) *ir.Node {
		return op.Attention(in[0], in[1], in[2], op.AttentionOperands{Position: in[3], Pages: in[4]},
			op.AttentionAttrs{Heads: 2, KVHeads: 1, Layout: op.BSE, Mask: op.MaskSliding, Window: 50})
	}
	grid := func(heads, window int) func(in []*ir.Node) *ir.Node {
		return func(in []*ir.Node) *ir.Node {
			if len(in) == 2 {
				in = append(in, nil, nil)
			}
			return op.GridAttention(in[0], in[1], in[2], in[3], op.GridAttentionAttrs{Heads: heads, Window: window})
		}
	}
	few := kernels.AttentionMatrices{Blocks: 1, Rows: 1, Keys: 16}
	wide := kernels.AttentionMatrices{Blocks: 2, Rows: 2, Keys: 64}
	// hidden sets an element of the value of each masked key to NaN or Inf, which must not reach the result.
	hidden := func(in map[string]*tensor.Array) {
		v, d := in["c"], len(in["c"].Floats)/len(in["d"].Floats)
		for key, seen := range in["d"].Floats {
			if seen < 0.5 {
				v.Floats[key*d+3] = []float64{math.NaN(), math.Inf(1)}[key%2]
			}
		}
	}
	cases := []struct {
		name string
		tile *kernels.AttentionMatrices
		node func(in []*ir.Node) *ir.Node
		set  func(in map[string]*tensor.Array)
		in   []ir.Type

		program *program.Program
		values  map[string]*tensor.Array
	}{
		{name: "plain", node: attend(op.AttentionAttrs{Heads: 2, Layout: op.BHSD}),
			in: []ir.Type{f32(1, 2, 64, 64), f32(1, 2, 96, 64), f32(1, 2, 96, 64)}},
		{name: "odd", node: attend(op.AttentionAttrs{Heads: 1, Layout: op.BHSD}),
			in: []ir.Type{f32(2, 1, 37, 20), f32(2, 1, 71, 20), f32(2, 1, 71, 20)}},
		{name: "few keys", node: attend(op.AttentionAttrs{Heads: 8, Layout: op.BSE}),
			in: []ir.Type{f32(1, 50, 128), f32(1, 7, 128), f32(1, 7, 128)}},
		{name: "wide heads", node: attend(op.AttentionAttrs{Heads: 1, Layout: op.BSE}),
			in: []ir.Type{f32(1, 33, 192), f32(1, 40, 192), f32(1, 40, 192)}},
		{name: "causal, grouped",
			node: attend(op.AttentionAttrs{Heads: 4, KVHeads: 2, Layout: op.BSHD, Mask: op.MaskCausal}),
			in:   []ir.Type{f32(1, 40, 4, 20), f32(1, 70, 2, 20), f32(1, 70, 2, 20)}},
		{name: "causal, no keys", node: attend(op.AttentionAttrs{Heads: 1, Layout: op.BSE, Mask: op.MaskCausal}),
			in: []ir.Type{f32(1, 70, 16), f32(1, 20, 16), f32(1, 20, 16)}},
		{name: "window",
			node: attend(op.AttentionAttrs{Heads: 2, Layout: op.BSE, Mask: op.MaskSliding, Window: 20, Softcap: 2}),
			in:   []ir.Type{f32(1, 100, 16), f32(1, 100, 16), f32(1, 100, 16)}},
		{name: "lengths, sinks", node: lengths,
			set: func(in map[string]*tensor.Array) { copy(in["d"].Ints, []int64{60, 13}) },
			in:  []ir.Type{f32(2, 2, 33, 16), f32(2, 2, 70, 16), f32(2, 2, 70, 16), i32(2), f32(2)}},
		{name: "position", node: attend(op.AttentionAttrs{Heads: 2, Layout: op.BSE, Mask: op.MaskCausal}),
			set: func(in map[string]*tensor.Array) { in["d"].Ints[0] = 21 },
			in:  []ir.Type{f32(1, 40, 16), typ(dtype.BF16, 1, 80, 16), typ(dtype.BF16, 1, 80, 16), i32()}},
		{name: "pages", node: pages,
			set: func(in map[string]*tensor.Array) {
				copy(in["d"].Ints, []int64{37, 5})
				copy(in["e"].Ints, []int64{5, 1, 3, 0, 4, 2, 6, 2})
			}, in: []ir.Type{f32(2, 33, 40), f32(7, 24, 20), f32(7, 24, 20), i32(2), i32(2, 4)}},
		{name: "halves", node: attend(op.AttentionAttrs{Heads: 2, Layout: op.BSE}),
			in: []ir.Type{typ(dtype.F16, 1, 40, 16), typ(dtype.F16, 1, 40, 16), typ(dtype.F16, 1, 40, 16)}},
		{name: "bias", node: attend(op.AttentionAttrs{Heads: 2, Layout: op.BSE, Mask: op.MaskBias}),
			in: []ir.Type{f32(1, 40, 16), f32(1, 50, 16), f32(1, 50, 16), f32(1, 2, 40, 50)}},
		{name: "packed",
			node: attend(
				op.AttentionAttrs{Heads: 4, KVHeads: 2, Layout: op.BSE, Packed: []int{0, 64, 96}, HeadDim: 16}),
			in: []ir.Type{f32(1, 40, 128), f32(1, 40, 128), f32(1, 40, 128)}},
		{name: "hidden values", node: attend(op.AttentionAttrs{Heads: 1, Layout: op.BSE, Mask: op.MaskCustom}),
			set: hidden,
			in:  []ir.Type{f32(1, 40, 72), f32(1, 100, 72), f32(1, 100, 72), f32(1, 100)}},
		{name: "values that spread", node: attend(op.AttentionAttrs{Heads: 1, Layout: op.BSE, Mask: op.MaskCausal}),
			set: func(in map[string]*tensor.Array) {
				in["c"].Floats[50*16+3], in["c"].Floats[70*16+5], in["a"].Floats[30*16] = math.NaN(), math.Inf(1),
					math.NaN()
			}, in: []ir.Type{f32(1, 80, 16), f32(1, 80, 16), f32(1, 80, 16)}},
		{name: "growing scores", node: attend(op.AttentionAttrs{Heads: 1, Layout: op.BSE, Scale: 1}),
			set: func(in map[string]*tensor.Array) {
				for i := range in["b"].Floats {
					// each tile has larger scores than the one before, so results are rescaled
					in["b"].Floats[i] *= float64(i / (32 * 20) * 20)
				}
			}, in: []ir.Type{f32(1, 40, 20), f32(1, 130, 20), f32(1, 130, 20)}},
		{name: "growing scores, infinite values",
			node: attend(op.AttentionAttrs{Heads: 1, Layout: op.BSE, Scale: 1, Mask: op.MaskCausal}),
			set: func(in map[string]*tensor.Array) {
				for i := range in["b"].Floats {
					in["b"].Floats[i] *= float64(i / (32 * 16) * 20)
				}
				in["c"].Floats[3*16+2], in["c"].Floats[40*16+9] = math.Inf(1), math.Inf(-1)
			}, in: []ir.Type{f32(1, 40, 16), f32(1, 130, 16), f32(1, 130, 16)}},
		{name: "windows past the edge", node: grid(1, 12),
			in: []ir.Type{f32(1, 14, 13, 3*20), f32(3 * 20), f32(12, 12, 20), f32(12, 12, 20)}},
		{name: "one window", node: grid(2, 0),
			in: []ir.Type{f32(1, 5, 16, 3*2*16), f32(3 * 2 * 16), f32(5, 5, 16), f32(16, 16, 16)}},
		{name: "no positions", node: grid(2, 7), in: []ir.Type{f32(1, 14, 7, 3*2*16), f32(3 * 2 * 16)}},
		{name: "a block", tile: &few, node: attend(op.AttentionAttrs{Heads: 1, Layout: op.BSE, Mask: op.MaskCausal}),
			in: []ir.Type{f32(1, 21, 12), f32(1, 45, 12), f32(1, 45, 12)}},
		{name: "a wide tile", tile: &wide, node: grid(1, 12),
			in: []ir.Type{f32(1, 12, 13, 3*24), f32(3 * 24), f32(12, 12, 24), f32(12, 12, 24)}},
		{name: "hidden from a wide tile", tile: &wide,
			node: attend(op.AttentionAttrs{Heads: 1, Layout: op.BSE, Mask: op.MaskCustom}), set: hidden,
			in: []ir.Type{f32(1, 40, 24), f32(1, 100, 24), f32(1, 100, 24), f32(1, 100)}},
	}
	var loads []load
	for i := range cases {
		c := &cases[i]
		g := ir.NewGraph("attention")
		var in []*ir.Node
		var fill []ir.Range
		for i, x := range c.in {
			in, fill = append(in, op.Input(g, string(rune('a'+i)), x)), append(fill, ir.Range{Lo: -1, Hi: 1})
		}
		n := c.node(in)
		g.Return("y", n)
		var err error
		if c.program, _, err = sched.Build(g, sched.Options{Target: "metal"}); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		c.values = map[string]*tensor.Array{}
		for i, v := range interp.CaseInputs(ir.Case[any]{Attrs: n.Attrs, In: c.in, Fill: fill}, 1) {
			c.values[in[i].Name] = v
		}
		if c.set != nil {
			c.set(c.values)
		}
		loads = append(loads, load{c.program, Options{Cache: dir, Level: "-O0", AttentionMatrices: c.tile}})
	}
	prepare(t, loads)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			want, err := interp.RunProgram(c.program, nil, c.values, nil)
			if err != nil {
				t.Fatal(err)
			}
			e, err := New(loads[i].opts).Load(t.Context(), device.Load{Program: c.program})
			if err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprint(gpu.Inspect(e).Texts()); !strings.Contains(text, "rlx_matrix_multiply_add") {
				t.Error("the kernel has no matrices")
			}
			limit := 2e-5
			if want["y"].DType == dtype.F16 {
				limit = 1e-3
			}
			for i, got := range devicetest.Once(t, e, c.program, nil, c.values)["y"].Floats {
				if w := want["y"].Floats[i]; !(math.IsNaN(w) && math.IsNaN(got)) && got != w &&
					!(math.Abs(got-w) <= limit) {
					t.Fatalf("element %d of %v is %v; want %v", i, want["y"].Shape, got, w)
				}
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// load is a program and the options of the backend that loads it.
type load struct {
	program *program.Program
	opts    Options
}

// prepare compiles the kernels of all programs in batches, which is faster than one by one.
func prepare(t *testing.T, loads []load) {
	t.Helper()
	errLater := errors.New("the kernel is compiled later")
	var all []*msl.Kernel
	for _, l := range loads {
		l.opts.Missing = func(k *msl.Kernel) error {
			if !slices.ContainsFunc(all, func(o *msl.Kernel) bool { return *o == *k }) {
				all = append(all, k)
			}
			return errLater
		}
		e, err := New(l.opts).Load(t.Context(), device.Load{Program: l.program})
		switch {
		case errors.Is(err, ErrNoCompiler) && os.Getenv("RLX_REQUIRE_CXX") == "":
			t.Skip(err)
		case err == nil:
			e.Close()
		case !errors.Is(err, errLater):
			t.Fatal(err)
		}
	}
	c, err := adapter{loads[0].opts}.cache()
	if err == nil {
		err = c.add(t.Context(), all)
	}
	if err != nil {
		t.Fatal(err)
	}
}
