package backend

import (
	"context"
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// BenchmarkGenerate runs attention of one query over a key-value cache. MB/s counts the keys and values that the query
// sees. The case sum adds up as much memory as 32,768 f32 positions take, to show the memory bandwidth.
func BenchmarkGenerate(b *testing.B) {
	const heads, kv, d = 32, 8, 128
	run := func(name string, bytes int64, threads int, make func(g *ir.Graph) *ir.Node) {
		b.Run(fmt.Sprintf("%s/%d threads", name, threads), func(b *testing.B) {
			g := ir.NewGraph("generate")
			g.Return("y", make(g))
			p, _, err := sched.Build(g, sched.Options{Target: "portable"})
			if err != nil {
				b.Fatal(err)
			}
			e, err := Backend{}.Load(context.Background(), device.Load{Program: p, Threads: threads})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize))}
			for i := range r.IO {
				r.IO[i] = 0x3c // touches every page, with numbers that are not denormal
			}
			b.SetBytes(bytes)
			for b.Loop() {
				if _, err := e.Run(context.Background(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, threads := range []int{1, 0} {
		for _, c := range []struct {
			cached   dtype.DType
			most, at int64
		}{{dtype.F32, 32768, 32767}, {dtype.BF16, 32768, 32767}, {dtype.F16, 32768, 32767}, {dtype.F32, 4096, 4095},
			{dtype.F32, 32768, 511}, {dtype.F32, 4096, 23}} {
			bytes := 2 * kv * (c.at + 1) * d * int64(c.cached.Size())
			run(fmt.Sprintf("%v, %d of %d", c.cached, c.at+1, c.most), bytes, threads, func(g *ir.Graph) *ir.Node {
				cache := ir.TypeOf(c.cached, 1, kv, c.most, d)
				q, k, v := op.Input(g, "q", ir.TypeOf(dtype.F32, 1, heads, 1, d)), op.Input(g, "k", cache),
					op.Input(g, "v", cache)
				position := op.Const(g, float64(c.at), ir.TypeOf(dtype.I32))
				return op.Attention(q, k, v, op.AttentionOperands{Position: position},
					op.AttentionAttrs{Heads: heads, KVHeads: kv, Layout: op.BHSD, Mask: op.MaskCausal})
			})
		}
		const n = 2 * kv * 32768 * d
		run("sum", 4*n, threads, func(g *ir.Graph) *ir.Node {
			return op.ReduceSum(op.Input(g, "x", ir.TypeOf(dtype.F32, 1024, n/1024)), false, 1)
		})
	}
}
