package devicetest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// PagedAttention is an attention whose keys and values are in pages, in layout bse. It has the operand position with
// mask kinds that compare positions, and otherwise kv_len.
type PagedAttention struct {
	B, Queries, Page, Pages, D int // Pages is the number of pages of each batch element
	Keys                       dtype.DType
	Attrs                      op.AttentionAttrs
}

// PagedAttentions are cases for few and many queries, for each kind of mask that a language model has, for groups of
// heads, and for pages of which a tile has a part, one or several.
func PagedAttentions() []PagedAttention {
	causal := op.AttentionAttrs{Heads: 4, KVHeads: 2, Layout: op.BSE, Mask: op.MaskCausal}
	one := op.AttentionAttrs{Heads: 1, Layout: op.BSE, Mask: op.MaskCausal}
	sliding := op.AttentionAttrs{Heads: 4, KVHeads: 2, Layout: op.BSE, Mask: op.MaskSliding, Window: 40}
	none := op.AttentionAttrs{Heads: 2, Layout: op.BSE, Mask: op.MaskNone}
	capped := causal
	capped.Softcap = 3
	return []PagedAttention{
		{3, 1, 64, 5, 32, dtype.F32, causal},
		{2, 1, 16, 20, 32, dtype.F32, sliding},
		{2, 3, 7, 30, 16, dtype.BF16, one},
		{2, 40, 64, 3, 32, dtype.F32, causal},
		{2, 35, 5, 40, 16, dtype.F32, sliding},
		{1, 33, 128, 2, 16, dtype.F16, capped},
		{3, 20, 9, 7, 5, dtype.F32, none},
	}
}

// Test compares the attention with its definition, and bit for bit with that of keys and values in one piece. Keys and
// values that no query sees are NaN. It also checks that page numbers out of range are device.ErrInput. load loads a
// program.
func (c PagedAttention) Test(t *testing.T, load func(p *program.Program) device.Executable, tol ir.Tolerance) {
	rng := rand.New(rand.NewPCG(uint64(c.Page), uint64(c.D)))
	in := c.inputs(rng)
	var got [2]*tensor.Array
	for i, paged := range []bool{true, false} {
		g, y := c.graph(paged)
		p, _, err := sched.Build(g, sched.Options{Target: "portable"})
		if err != nil {
			t.Fatal(err)
		}
		x, named := load(p), in
		if !paged {
			named = c.whole(in)
		}
		got[i] = Once(t, x, p, nil, named)["y"]
		operands := make([]*tensor.Array, len(y.In))
		for k, n := range y.In {
			if n != nil {
				operands[k] = named[n.Name]
			}
		}
		want := tensor.NewArray(dtype.F32, y.Type.Shape.Eval(nil)...)
		if err := y.Op.Eval(y.Attrs, operands, want); err != nil {
			t.Fatal(err)
		}
		if err := compare(got[i], want, tol); err != nil {
			t.Errorf("in pages: %v: %v", paged, err)
		}
		if !paged {
			break
		}
		for _, wrong := range []int64{-1, int64(in["k"].Shape[0])} {
			pages := in["pages"].Ints
			at := rng.IntN(len(pages))
			was := pages[at]
			pages[at] = wrong
			if _, err := once(x, p, nil, in); !errors.Is(err, device.ErrInput) {
				t.Errorf("page %d of %d: error %v; want device.ErrInput", wrong, in["k"].Shape[0], err)
			}
			pages[at] = was
		}
	}
	for i, x := range got[0].Floats {
		if y := got[1].Floats[i]; math.Float32bits(float32(x)) != math.Float32bits(float32(y)) {
			t.Fatalf("y[%d] is %v in pages and %v in one piece", i, x, y)
		}
	}
}

// String names the case.
func (c PagedAttention) String() string {
	return fmt.Sprintf("%dx%d queries, %dx%d keys of %v and %d, %s", c.B, c.Queries, c.Pages, c.Page, c.Keys, c.D,
		c.Attrs.Mask)
}

func (c PagedAttention) graph(paged bool) (g *ir.Graph, y *ir.Node) {
	g = ir.NewGraph("pages")
	typ := func(d dtype.DType, shape ...int) ir.Type {
		out := ir.Type{DType: d}
		for _, n := range shape {
			out.Shape = append(out.Shape, ir.Static(int64(n)))
		}
		return out
	}
	a := c.Attrs
	kv := max(a.KVHeads, 1)
	if a.KVHeads == 0 {
		kv = a.Heads
	}
	keys := typ(c.Keys, c.B, c.Pages*c.Page, kv*c.D)
	if paged {
		keys = typ(c.Keys, c.count(), c.Page, kv*c.D)
	}
	q := op.Input(g, "q", typ(dtype.F32, c.B, c.Queries, a.Heads*c.D))
	k, v := op.Input(g, "k", keys), op.Input(g, "v", keys)
	var o op.AttentionOperands
	at := op.Input(g, "at", typ(dtype.I32, c.B))
	if a.Mask == op.MaskNone {
		o.KVLen = at
	} else {
		o.Position = at
	}
	if paged {
		o.Pages = op.Input(g, "pages", typ(dtype.I32, c.B, c.Pages))
	}
	y = op.Attention(q, k, v, o, a)
	g.Return("y", y)
	return g, y
}

// count is the number of pages. The first belongs to no batch element.
func (c PagedAttention) count() int { return 1 + c.B*c.Pages }

func (c PagedAttention) inputs(rng *rand.Rand) map[string]*tensor.Array {
	in := map[string]*tensor.Array{}
	g, _ := c.graph(true)
	for _, n := range g.Inputs() {
		a := tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(nil)...)
		for i := range a.Floats {
			a.Floats[i] = 2*rng.Float64() - 1
		}
		a.Round()
		in[n.Name] = a
	}
	order := rng.Perm(c.count() - 1)
	width := len(in["k"].Floats) / c.count() / c.Page
	for i := range c.Page * width {
		in["k"].Floats[i], in["v"].Floats[i] = math.NaN(), math.NaN()
	}
	for b := range c.B {
		seen := rng.IntN(c.Pages*c.Page + 1) // keys of the last query
		in["at"].Ints[b] = int64(seen)
		if c.Attrs.Mask != op.MaskNone {
			in["at"].Ints[b] -= int64(c.Queries)
		}
		for i := range c.Pages {
			if i*c.Page < seen {
				in["pages"].Ints[b*c.Pages+i] = int64(1 + order[b*c.Pages+i])
			}
			for k := max(i*c.Page, seen); k < (i+1)*c.Page; k++ {
				at := (int(in["pages"].Ints[b*c.Pages+i])*c.Page + k%c.Page) * width
				for e := range width {
					in["k"].Floats[at+e], in["v"].Floats[at+e] = math.NaN(), math.NaN()
				}
			}
		}
	}
	return in
}

// whole returns the inputs with keys and values in one piece.
func (c PagedAttention) whole(in map[string]*tensor.Array) map[string]*tensor.Array {
	out := map[string]*tensor.Array{"q": in["q"], "at": in["at"]}
	for _, name := range []string{"k", "v"} {
		x := in[name]
		size := c.Page * x.Shape[2]
		a := tensor.NewArray(x.DType, c.B, c.Pages*c.Page, x.Shape[2])
		for i, page := range in["pages"].Ints {
			copy(a.Floats[i*size:(i+1)*size], x.Floats[int(page)*size:])
		}
		out[name] = a
	}
	return out
}
