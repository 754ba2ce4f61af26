package driver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cuda/matrix"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// attentionCase is an attention of inputs.
type attentionCase struct {
	batch, queries, keys, heads, kv, d int
	layout, mask                       string
	window                             int
	softcap                            float64
	keysType                           dtype.DType
	position                           []int // none, one, or one for each batch element
	packed                             bool  // q, k and v are rows of one input
}

var attentionCases = []attentionCase{
	{1, 64, 64, 1, 1, 64, op.BSE, op.MaskNone, 0, 0, dtype.F32, nil, false},
	{2, 67, 131, 4, 2, 16, op.BHSD, op.MaskNone, 0, 0, dtype.BF16, nil, false},
	{1, 150, 150, 2, 1, 32, op.BSE, op.MaskCausal, 0, 0, dtype.F32, nil, true},
	{1, 70, 300, 4, 2, 64, op.BSE, op.MaskCausal, 0, 30, dtype.F16, []int{90}, false},
	{2, 33, 200, 2, 2, 16, op.BSHD, op.MaskSliding, 50, 0, dtype.BF16, []int{150, 0}, false},
	{1, 80, 80, 1, 1, 128, op.BSHD, op.MaskSliding, 20, 0, dtype.F32, nil, false},
	{1, 20, 40, 2, 1, 16, op.BSE, op.MaskCausal, 0, 0, dtype.F32, []int{-5}, false}, // queries without keys
}

// largeAttention are cases for devices.
var largeAttention = []attentionCase{
	{1, 300, 2048, 8, 2, 64, op.BSE, op.MaskCausal, 0, 0, dtype.BF16, []int{1000}, false},
	{1, 4100, 700, 1, 1, 64, op.BSE, op.MaskNone, 0, 0, dtype.F32, nil, false},
	{1, 4096, 4096, 1, 1, 16, op.BHSD, op.MaskCausal, 0, 0, dtype.F32, nil, false},
	{1, 500, 700, 4, 2, 128, op.BSHD, op.MaskSliding, 333, 50, dtype.F16, nil, false},
	{2, 300, 500, 4, 1, 80, op.BHSD, op.MaskCausal, 0, 0, dtype.F32, nil, false},
}

// TestAttention compares attention at bf16 and f16 with its definition.
func TestAttention(t *testing.T) {
	for _, c := range append(largeAttention, attentionCases...) {
		for _, p := range halves {
			t.Run(fmt.Sprintf("%s/%+v", p, c), func(t *testing.T) { c.test(t, shared, p) })
		}
	}
}

// TestInterpretedAttention runs attention on the interpreter, which reports races and copies that are not waited for.
func TestInterpretedAttention(t *testing.T) {
	for _, d := range []matrix.Device{withMMA, withWGMMA} {
		t.Run(fmt.Sprint(d.Capability), func(t *testing.T) {
			testInterpretedAttention(t, interpreted(d, strings.Clone))
		})
	}
}

func testInterpretedAttention(t *testing.T, on device.Backend) {
	for i, c := range attentionCases {
		p := halves[i%2]
		t.Run(fmt.Sprintf("%s/%+v", p, c), func(t *testing.T) { c.test(t, on, p) })
	}
	for i, c := range []gridCase{{1, 10, 9, 0, 1, 16, true}, {1, 12, 16, 8, 1, 32, false}, {1, 6, 40, 0, 1, 16, true},
		{1, 16, 17, 14, 1, 16, true}} {
		p := halves[i%2]
		t.Run(fmt.Sprintf("%s/%+v", p, c), func(t *testing.T) { c.test(t, on, p) })
	}
}

// graph returns a graph of the attention and its inputs.
func (c attentionCase) graph() (g *ir.Graph, y *ir.Node) {
	g = ir.NewGraph("attention")
	typ := func(d dtype.DType, tokens, heads int) ir.Type {
		b, s, h, e := int64(c.batch), int64(tokens), int64(heads), int64(c.d)
		switch c.layout {
		case op.BHSD:
			return ir.TypeOf(d, b, h, s, e)
		case op.BSHD:
			return ir.TypeOf(d, b, s, h, e)
		}
		return ir.TypeOf(d, b, s, h*e)
	}
	a := op.AttentionAttrs{Heads: c.heads, KVHeads: c.kv, Layout: c.layout, Mask: c.mask, Window: c.window,
		Softcap: c.softcap}
	var o op.AttentionOperands
	var q, k, v *ir.Node
	if c.packed {
		a.Packed, a.HeadDim = []int{0, c.heads * c.d, (c.heads + c.kv) * c.d}, c.d
		q = op.Input(g, "qkv", typ(dtype.F32, c.queries, c.heads+2*c.kv))
		k, v = q, q
	} else {
		q = op.Input(g, "q", typ(dtype.F32, c.queries, c.heads))
		k, v = op.Input(g, "k", typ(c.keysType, c.keys, c.kv)), op.Input(g, "v", typ(c.keysType, c.keys, c.kv))
	}
	switch len(c.position) {
	case 0:
	case 1:
		o.Position = op.Input(g, "position", ir.TypeOf(dtype.I32))
	default:
		o.Position = op.Input(g, "position", ir.TypeOf(dtype.I32, int64(c.batch)))
	}
	y = op.Attention(q, k, v, o, a)
	g.Return("y", y)
	return g, y
}

func (c attentionCase) test(t *testing.T, on device.Backend, precision string) {
	g, y := c.graph()
	r := loadOn(t, on, g, precision)
	rng := rand.New(rand.NewPCG(uint64(c.d), uint64(c.keys)))
	in := map[string]*tensor.Array{}
	for _, n := range r.program.Graph.Inputs() {
		if n.Type.DType == dtype.I32 {
			a := tensor.NewArray(dtype.I32, n.Type.Shape.Eval(nil)...)
			for i, p := range c.position {
				a.Ints[i] = int64(p)
			}
			in[n.Name] = a
			r.set(n.Name, a)
			continue
		}
		a := normal(rng, n.Type)
		if len(c.position) == 1 && n.Name != "q" { // what lies after the last query's position may be stale
			for i := max(0, (c.position[0]+c.queries)*c.kv*c.d); i < len(a.Floats); i++ {
				a.Floats[i] = math.NaN()
			}
		}
		in[n.Name] = a
		r.set(n.Name, a)
	}
	operands := make([]*tensor.Array, len(y.In))
	for i, x := range y.In {
		if x != nil {
			operands[i] = in[x.Name]
		}
	}
	compareAttention(t, r, y, operands, precision)
}

// BenchmarkAttention times attention by the device's clock, with and without the shaders that round operands or divide
// them into terms.
func BenchmarkAttention(b *testing.B) {
	for _, precision := range []string{"bf16", "f32", "fma"} {
		b.Run(precision, func(b *testing.B) { benchmarkAttention(b, precision) })
	}
}

func benchmarkAttention(b *testing.B, precision string) {
	for _, c := range []attentionCase{
		{1, 5184, 5184, 16, 16, 64, op.BSE, op.MaskNone, 0, 0, dtype.F32, nil, false},
		{1, 512, 512, 32, 8, 64, op.BSE, op.MaskCausal, 0, 0, dtype.BF16, nil, false},
		{1, 4096, 4096, 32, 8, 64, op.BSE, op.MaskCausal, 0, 0, dtype.BF16, nil, false},
		{1, 4096, 4096, 32, 8, 128, op.BSE, op.MaskCausal, 0, 0, dtype.BF16, nil, false},
	} {
		if precision == "f32" && c.d > 96 {
			continue // as with fma
		}
		b.Run(fmt.Sprintf("%dx%dx%dx%dx%s", c.queries, c.keys, c.heads, c.d, c.mask), func(b *testing.B) {
			rounding := 1
			if c.keysType == dtype.F32 || precision == "f32" {
				rounding = 3
			}
			var took [2]float64
			for i, few := range []int{0, rounding} {
				if precision == "fma" && i == 1 {
					continue
				}
				g, _ := c.graph()
				r := loadOn(b, gpu.New(timed(precision, few)), g, strings.Replace(precision, "fma", "f32", 1))
				for _, n := range r.program.Graph.Inputs() {
					r.set(n.Name, normal(rand.New(rand.NewPCG(1, 2)), n.Type))
				}
				r.run(b)
				took[i] = fastest(b, r.exe)
			}
			work := 4 * float64(c.queries) * float64(c.keys) * float64(c.heads*c.d)
			if c.mask == op.MaskCausal {
				work /= 2
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(1e6*took[1], "us-rounding")
			b.ReportMetric(1e6*(took[0]-took[1]), "us-attention")
			b.ReportMetric(work/(took[0]-took[1])/1e12, "TFLOP/s")
		})
	}
}
