//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// BenchmarkDependentSteps measures the cost of one more step of the kind that a token of a language model takes. Each
// step reads the result of the one before, so the device never runs two at once. The cost is the difference between
// long and short chains, in microseconds for each step.
func BenchmarkDependentSteps(b *testing.B) {
	const width, hidden = 2048, 8192
	product := func(k, n int64) func(x, w *ir.Node) *ir.Node {
		return func(x, w *ir.Node) *ir.Node {
			return op.FusedMatMul(x, op.Reshape(w, ir.Shape{ir.Static(n), ir.Static(k)}), nil, nil,
				op.FusedMatMulAttrs{TransB: true})
		}
	}
	normal := func(g *ir.Graph, x *ir.Node) *ir.Node {
		one := func(name string) *ir.Node { return op.Param(g, name+x.Label(), ir.TypeOf(dtype.F32, width)) }
		return op.RmsNorm(x, one("gamma"), one("beta"), 1e-5)
	}
	for _, c := range []struct {
		name    string
		weights int64 // elements of bf16 that a link of the chain reads
		link    func(g *ir.Graph, x, w *ir.Node) *ir.Node
	}{
		{"neg", 0, func(_ *ir.Graph, x, _ *ir.Node) *ir.Node { return op.Neg(x) }},
		{"rms_norm", 0, func(g *ir.Graph, x, _ *ir.Node) *ir.Node { return normal(g, x) }},
		{"norm, product and sum", width * width, func(g *ir.Graph, x, w *ir.Node) *ir.Node {
			return op.Add(product(width, width)(normal(g, x), w), x)
		}},
		{"norm, gate and up", 2 * width * hidden, func(g *ir.Graph, x, w *ir.Node) *ir.Node {
			n := normal(g, x)
			y := op.Mul(product(width, hidden)(n, op.Narrow(w, 0, 0, width*hidden)),
				product(width, hidden)(n, op.Narrow(w, 0, width*hidden, width*hidden)))
			return op.Narrow(y, 1, 0, width)
		}},
		{"product", width * width, func(_ *ir.Graph, x, w *ir.Node) *ir.Node { return product(width, width)(x, w) }},
		{"up and down", 2 * width * hidden, func(_ *ir.Graph, x, w *ir.Node) *ir.Node {
			return product(hidden, width)(product(width, hidden)(x, op.Narrow(w, 0, 0, width*hidden)),
				op.Narrow(w, 0, width*hidden, width*hidden))
		}},
		{"attention", 0, func(g *ir.Graph, x, _ *ir.Node) *ir.Node {
			q := op.Reshape(x, ir.Shape{ir.Static(1), ir.MustDim("T"), ir.Static(width)})
			cache := op.State(g, "cache"+x.Label(), ir.TypeOf(dtype.F32, 1, 4096, 512), 0)
			y := op.Attention(q, cache, cache, op.AttentionOperands{Position: op.Const(g, 68, ir.TypeOf(dtype.I32))},
				op.AttentionAttrs{Heads: 32, KVHeads: 8, Layout: op.BSE, Mask: op.MaskCausal})
			return op.Reshape(y, x.Type.Shape)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			measure := func(links int64) time.Duration {
				// as in a model, whose prompts take the same program
				g := ir.NewGraph("chain", ir.Sym{Name: "T", Min: 1, Max: 512})
				x := op.Input(g, "x", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.MustDim("T"), ir.Static(width)}})
				var all *ir.Node
				if c.weights > 0 {
					all = op.Param(g, "w", ir.TypeOf(dtype.BF16, links*c.weights))
				}
				y := x
				for i := range links {
					var w *ir.Node
					if all != nil {
						w = op.Narrow(all, 0, int(i*c.weights), int(c.weights))
					}
					y = c.link(g, y, w)
				}
				g.Return("y", y)
				p, _, err := sched.Build(
					g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, true }})
				if err != nil {
					b.Fatal(err)
				}
				exe, err := shared.Load(
					context.Background(), device.Load{Program: p, Weights: make([]byte, p.WeightsExtent())})
				if err != nil {
					b.Fatal(err)
				}
				defer exe.Close()
				r := device.Run{Syms: map[string]int64{"T": 1}, IO: tensor.AlignedBytes(int(p.IOSize))}
				if p.StateSize > 0 {
					if r.State, err = shared.NewState(context.Background(), "", p.StateSize); err != nil {
						b.Fatal(err)
					}
					defer r.State.Close()
				}
				best := time.Hour
				for range 30 {
					begin := time.Now()
					if _, err := exe.Run(context.Background(), r); err != nil {
						b.Fatal(err)
					}
					best = min(best, time.Since(begin))
				}
				return best
			}
			short, long := measure(8), measure(72)
			b.ReportMetric(float64((long-short).Nanoseconds())/64e3, "us/link")
			b.ReportMetric(0, "ns/op")
			if c.weights > 0 {
				b.ReportMetric(float64(2*c.weights*64)/float64((long-short).Nanoseconds()), "GB/s")
			}
		})
	}
}
