//go:build cgo && (darwin || amd64)

package backend

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// TestTilesOfAttention runs every tile with several tiles of queries and keys, against the definition. The conformance
// suite has all masks and special values, at sizes for which the smallest tile is taken. Software adapters take many
// seconds to compile the large tiles, and never choose them.
func TestTilesOfAttention(t *testing.T) {
	f32 := func(n ...int64) ir.Type { return ir.TypeOf(dtype.F32, n...) }
	grid := op.GridAttentionAttrs{Heads: 2}
	windows := op.GridAttentionAttrs{Heads: 1, Window: 12}
	causal := op.AttentionAttrs{Heads: 4, KVHeads: 2, Layout: op.BSHD, Mask: op.MaskCausal}
	masked := op.AttentionAttrs{Heads: 2, Layout: op.BSE, Mask: op.MaskCustom}
	tiles := kernels.AttentionTiles
	for _, i := range devicetest.Some(t, 1, uint64(len(tiles))) {
		tile := tiles[i]
		b := New(Options{AttentionTile: &tile})
		for _, c := range []struct {
			name string
			in   []ir.Type
			node func(in []*ir.Node) *ir.Node
		}{
			{"windows", []ir.Type{f32(1, 14, 13, 3*80), f32(3 * 80), f32(12, 12, 80), f32(12, 12, 80)},
				func(in []*ir.Node) *ir.Node {
					return op.GridAttention(in[0], in[1], in[2], in[3], windows)
				}},
			{"rows", []ir.Type{f32(1, 3, 64, 3*2*16), f32(3 * 2 * 16), f32(3, 3, 16), f32(64, 64, 16)},
				func(in []*ir.Node) *ir.Node {
					return op.GridAttention(in[0], in[1], in[2], in[3], grid)
				}},
			{"causal", []ir.Type{f32(1, 70, 4, 20), f32(1, 150, 2, 20), f32(1, 150, 2, 20)},
				func(in []*ir.Node) *ir.Node {
					return op.Attention(in[0], in[1], in[2], op.AttentionOperands{}, causal)
				}},
			{"split", []ir.Type{f32(1, 3, 2*64), f32(1, 1100, 2*64), f32(1, 1100, 2*64), f32(1, 1100)},
				func(in []*ir.Node) *ir.Node {
					return op.Attention(in[0], in[1], in[2], op.AttentionOperands{Mask: in[3]}, masked)
				}},
		} {
			t.Run(tile.String()+"/"+c.name, func(t *testing.T) {
				if tile.Threads() > 32 && c.name != "rows" && first(t).Type == typeSoftware {
					t.Skip("a software adapter")
				}
				small := ir.Range{Lo: -0.7, Hi: 0.7} // the rounding of scores does not show
				p, n, values, named := oneStep(t, c.in, small, c.node)
				if c.name == "split" {
					for key, v := range named["d"].Floats {
						if v < 0.5 { // masked out: the key's value must not show
							named["c"].Floats[key*128+3] = []float64{math.NaN(), math.Inf(1)}[key%2]
						}
					}
				}
				want := tensor.NewArray(dtype.F32, n.Type.Shape.Eval(nil)...)
				if err := n.Op.Eval(n.Attrs, values, want); err != nil {
					t.Fatal(err)
				}
				got := onDevice(t, load(t, b, p, nil), p, nil, named)["y"]
				for i, w := range want.Floats {
					if !(math.Abs(got.Floats[i]-w) <= 1e-5*(1+math.Abs(w))) {
						t.Fatalf("y[%d] is %v; want %v", i, got.Floats[i], w)
					}
				}
			})
		}
	}
}

// oneStep is a program of one node over inputs "a", "b" and so on, and random values for them: as the definition takes
// them, and by name.
func oneStep(t *testing.T, types []ir.Type, fill ir.Range, node func(in []*ir.Node) *ir.Node) (
	*program.Program, *ir.Node, []*tensor.Array, map[string]*tensor.Array) {
	t.Helper()
	g := ir.NewGraph("p")
	in, fills := make([]*ir.Node, len(types)), make([]ir.Range, len(types))
	for i, typ := range types {
		in[i], fills[i] = op.Input(g, string(rune('a'+i)), typ), fill
	}
	n := node(in)
	g.Return("y", n)
	p, _, err := sched.Build(g, sched.Options{Target: "portable"})
	if err != nil {
		t.Fatal(err)
	}
	values := interp.CaseInputs(ir.Case[any]{Attrs: n.Attrs, In: types, Fill: fills}, 1)
	named := map[string]*tensor.Array{}
	for i, v := range values {
		named[in[i].Name] = v
	}
	return p, n, values, named
}

// BenchmarkAttention times every tile, and the one that is chosen by sizes, by the device's clock. The shapes are those
// of SAM's image encoders and of its mask decoder, which has few queries.
func BenchmarkAttention(b *testing.B) {
	f32 := func(n ...int64) ir.Type { return ir.TypeOf(dtype.F32, n...) }
	chosen := kernels.AttentionTile{}
	for _, c := range []struct {
		name     string
		heads, d int64
		window   int64
	}{{"b.global", 12, 64, 0}, {"b.window", 12, 64, 14}, {"h.global", 16, 80, 0}, {"h.window", 16, 80, 14},
		{"decode", 8, 16, -1}} {
		g, flop := ir.NewGraph(c.name), 0.0
		if c.window < 0 {
			q, k, v := op.Input(g, "q", f32(1, 7, c.heads*c.d)), op.Input(g, "k", f32(1, 4096, c.heads*c.d)),
				op.Input(g, "v", f32(1, 4096, c.heads*c.d))
			g.Return(
				"y", op.Attention(q, k, v, op.AttentionOperands{},
					op.AttentionAttrs{Heads: int(c.heads), Layout: op.BSE}))
		} else {
			side := c.window
			if side == 0 {
				side = 64
			}
			qkv, pad := op.Input(g, "qkv", f32(1, 64, 64, 3*c.heads*c.d)), op.Input(g, "pad", f32(3*c.heads*c.d))
			rh, rw := op.Input(g, "rh", f32(side, side, c.d)), op.Input(g, "rw", f32(side, side, c.d))
			g.Return(
				"y", op.GridAttention(
					qkv, pad, rh, rw, op.GridAttentionAttrs{Heads: int(c.heads), Window: int(c.window)}))
		}
		p, _, err := sched.Build(g, sched.Options{Target: "portable"})
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range p.Steps {
			n := p.Graph.Nodes[s.Node]
			flop += float64(n.Op.FLOPs(n.Attrs, types(n.In), n.Type))
		}
		for _, tile := range append(kernels.AttentionTiles, chosen) {
			name := "chosen"
			if tile != chosen {
				name = tile.String()
			}
			b.Run(c.name+"/"+name, func(b *testing.B) {
				var opts Options
				if tile != chosen {
					opts.AttentionTile = &tile
				}
				back := withClock(b, opts)
				seconds := deviceTime(b, back, p)
				b.ReportMetric(seconds*1e6, "us")
				b.ReportMetric(flop/seconds/1e9, "GFLOP/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkGenerate times attention of one query to a cache, by the device's clock. GB/s counts the keys and values
// that a query sees.
func BenchmarkGenerate(b *testing.B) {
	const heads, kv, d = 32, 8, 128
	for _, c := range []struct {
		cached dtype.DType
		most   int64
		at     int64 // position of the query
	}{{dtype.F32, 32768, 32767}, {dtype.BF16, 32768, 32767}, {dtype.F16, 32768, 32767}, {dtype.F32, 4096, 4095},
		{dtype.BF16, 4096, 4095}, {dtype.F32, 32768, 511}} {
		b.Run(fmt.Sprintf("%v/%d of %d", c.cached, c.at+1, c.most), func(b *testing.B) {
			g := ir.NewGraph("generate")
			cache := ir.TypeOf(c.cached, 1, kv, c.most, d)
			q, k, v := op.Input(g, "q", ir.TypeOf(dtype.F32, 1, heads, 1, d)), op.Input(g, "k", cache),
				op.Input(g, "v", cache)
			position := op.Const(g, float64(c.at), ir.TypeOf(dtype.I32))
			g.Return(
				"y", op.Attention(q, k, v, op.AttentionOperands{Position: position},
					op.AttentionAttrs{Heads: heads, KVHeads: kv, Layout: op.BHSD, Mask: op.MaskCausal}))
			p, _, err := sched.Build(g, sched.Options{Target: "portable"})
			if err != nil {
				b.Fatal(err)
			}
			back := withClock(b, Options{})
			seconds := deviceTime(b, back, p)
			b.ReportMetric(seconds*1e6, "us")
			b.ReportMetric(float64(2*kv*(c.at+1)*d*int64(c.cached.Size()))/seconds/1e9, "GB/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func types(nodes []*ir.Node) []ir.Type {
	out := make([]ir.Type, len(nodes))
	for i, n := range nodes {
		out[i] = n.Type
	}
	return out
}
