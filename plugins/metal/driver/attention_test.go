package driver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// attentionCandidates are the tile shapes of attention with matrices that TestDeviceAttention times. A report from a
// Mac shows which is fastest.
var attentionCandidates = append(kernels.AttentionMatrixTiles(),
	kernels.AttentionMatrices{Blocks: 2, Rows: 1, Keys: 32},
	kernels.AttentionMatrices{Blocks: 4, Rows: 1, Keys: 64},
	kernels.AttentionMatrices{Blocks: 2, Rows: 2, Keys: 32},
	kernels.AttentionMatrices{Blocks: 4, Rows: 2, Keys: 32},
	kernels.AttentionMatrices{Blocks: 8, Rows: 1, Keys: 32},
)

// attentionCase is one of two kinds of attention. If tokens is not 0, it is the causal attention of a prompt with that
// many tokens. Otherwise it is the attention of side x side tokens with relative positions, in windows of window x
// window tokens if window is not 0.
type attentionCase struct {
	name         string
	heads, kv, d int
	side, window int
	tokens       int
}

// node adds the attention and its inputs to g.
func (c attentionCase) node(g *ir.Graph) *ir.Node {
	in := func(name string, dims ...int) *ir.Node {
		typ := ir.Type{DType: dtype.F32}
		for _, d := range dims {
			typ.Shape = append(typ.Shape, ir.Static(int64(d)))
		}
		return op.Input(g, name, typ)
	}
	if c.tokens > 0 {
		kv := []int{1, c.tokens, c.kv, c.d}
		return op.Attention(in("q", 1, c.tokens, c.heads, c.d), in("k", kv...), in("v", kv...), op.AttentionOperands{},
			op.AttentionAttrs{Heads: c.heads, KVHeads: c.kv, Layout: op.BSHD, Mask: op.MaskCausal})
	}
	side, width := c.window, 3*c.heads*c.d
	if side == 0 {
		side = c.side
	}
	return op.GridAttention(in("x", 1, c.side, c.side, width), in("pad", width), in("rh", side, side, c.d),
		in("rw", side, side, c.d),
		op.GridAttentionAttrs{Heads: c.heads, Window: c.window})
}

// attentions runs an attention without matrices and with each of the candidates, compares the results, and logs the
// speeds. open returns a backend.
func attentions(t *testing.T, open func(t *testing.T, a api) *gpu.Backend, c attentionCase, times int) {
	t.Helper()
	g := ir.NewGraph("attention")
	n := c.node(g)
	g.Return("y", n)
	p, _, err := sched.Build(g, sched.Options{Target: "metal"})
	if err != nil {
		t.Fatal(err)
	}
	in, r := map[string]*tensor.Array{}, rand.New(rand.NewPCG(1, 2))
	var types []ir.Type
	for _, x := range n.Operands() {
		a := tensor.NewArray(dtype.F32, x.Type.Shape.Eval(nil)...)
		for i := range a.Floats {
			a.Floats[i] = float64(r.Float32() - 0.5)
		}
		in[x.Name], types = a, append(types, x.Type)
	}
	flop := float64(n.Op.FLOPs(n.Attrs, types, n.Type))
	var want []float64 // results without matrices
	one := func(name string, a api) {
		t.Run(c.name+", "+name, func(t *testing.T) {
			e, err := open(t, a).Load(t.Context(), device.Load{Program: p})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			switch has := strings.Contains(fmt.Sprint(gpu.Inspect(e).Texts()), "rlx_matrix_multiply_add"); {
			case has && a.plain:
				t.Fatal("the kernel has matrices")
			case !has && a.attention == &attentionCandidates[0]:
				t.Fatal("the kernel has no matrices")
			case !has && !a.plain:
				t.Skip("this shape needs more threadgroup memory or registers than there are")
			}
			y := devicetest.Once(t, e, p, nil, in)["y"].Floats
			if a.plain {
				want = y
			}
			for i, w := range want {
				if !(math.Abs(y[i]-w) < 1e-4) {
					t.Fatalf("element %d is %v; want %v", i, y[i], w)
				}
			}
			took, err := gpu.Repeat(e, times)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("report: attention %s, %d heads of %d, %s: %.0f GFLOP/s, %.0f us", c.name, c.heads, c.d, name,
				flop/float64(max(took, time.Nanosecond)), float64(took)/1e3)
		})
	}
	one("without matrices", api{plain: true})
	if want == nil {
		t.Fatal("no results to compare with")
	}
	for i, tile := range attentionCandidates {
		one(fmt.Sprintf("matrices, tile %v", tile), api{attention: &attentionCandidates[i]})
	}
}
