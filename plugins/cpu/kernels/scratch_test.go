package kernels

import (
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
)

// fits checks that a kernel has used no more memory than Reserve allocated.
func fits(t *testing.T, p *Pool, r ScratchSize, what string) {
	t.Helper()
	if need := floats(max(p.shared.need, p.shared.most)); need > r.Shared {
		t.Errorf("%s: the workers share %d bytes; ScratchSize says %d", what, need, r.Shared)
	}
	for i := range p.workers {
		s := &p.workers[i].scratch
		if need := floats(max(s.need, s.most)); need > r.Worker {
			t.Errorf("%s: a worker needs %d bytes; ScratchSize says %d", what, need, r.Worker)
		}
	}
	var other int64
	if c, ok := p.kept[any((*convolution)(nil))].(*convolution); ok {
		other += floats(cap(c.patch), cap(c.bias), cap(c.row)) + sizeOf[GemmArgs](cap(c.each)) +
			sizeOf[tap](cap(c.taps)) + sizeOf[phase](cap(c.phases)) + sizeOf[int](cap(c.at))
	}
	if o, ok := p.kept[any((*ownPanels)(nil))].(*ownPanels); ok {
		for _, panels := range o.panels {
			other += floats(cap(panels))
		}
	}
	for i := range p.workers {
		other += sizeOf[ranked](cap(p.workers[i].scratch.ranked))
	}
	if other > r.Other+r.Other/4+8192 { // see Bytes
		t.Errorf("%s: %d bytes are kept; ScratchSize says %d", what, other, r.Other)
	}
}

func reserve(t *testing.T, p *Pool, r ScratchSize) {
	t.Helper()
	if err := p.Reserve(r, func(n int64) ([]float32, error) { return make([]float32, n), nil }); err != nil {
		t.Fatal(err)
	}
}

// eachNewPool runs f with new pools of one and of three threads, for each instruction set.
func eachNewPool(t *testing.T, f func(t *testing.T, p *Pool)) {
	for _, name := range sets(t) {
		for _, threads := range []int{1, 3} {
			f(t, newPool(t, threads, name))
		}
	}
}

func TestGemmScratch(t *testing.T) {
	r := rng(7)
	sizes := []int{1, 2, 3, 17, 33, 64, 100, 300, 1100}
	size := func() int { return sizes[r.IntN(len(sizes))] }
	for range some(40) {
		grow := r.IntN(2) // 1: reserve memory for a larger product
		g := randomGemm(r, size(), size(), size(), 1+r.IntN(2)*r.IntN(4))
		eachNewPool(t, func(t *testing.T, p *Pool) {
			need := (&GemmArgs{M: g.M + grow*size(), N: g.N + grow*size(), K: g.K, Batch: g.Batch + 2*grow, Act: g.Act,
				TransA: g.TransA, Precision: g.Precision}).ScratchSize(p, true)
			reserve(t, p, need)
			what := fmt.Sprintf("%s with %d threads: %s", p.Features(), p.Threads(), describe(g))
			c := *g
			runGemm(t, p, &c, what)
			fits(t, p, need, what)
			if w := PackWeights(p, g); w != nil && g.Batch <= 1 && floats(len(w.panels)) > need.Packed {
				t.Errorf("%s: packed weights have %d bytes; ScratchSize says %d", what, floats(len(w.panels)),
					need.Packed)
			}
		})
	}
}

func TestConvScratch(t *testing.T) {
	r := rng(8)
	for i := range some(60) {
		g := randomConv(r, i%3 == 1)
		g.Out = make([]float32, g.N*volume(g.OutSize())*g.Cout)
		larger := *g // memory for a larger convolution must suffice
		larger.N, larger.In[2] = g.N+r.IntN(2), g.In[2]+r.IntN(2)*40
		eachNewPool(t, func(t *testing.T, p *Pool) {
			need := larger.ScratchSize(p)
			reserve(t, p, need)
			Conv(p, g)
			fits(t, p, need, fmt.Sprintf("%s with %d threads: %s", p.Features(), p.Threads(), describeConv(g)))
		})
	}
}

func TestTopKScratch(t *testing.T) {
	const rows, n, k = 50, 3000, 2900
	src := randoms(rng(9), rows*n)
	eachNewPool(t, func(t *testing.T, p *Pool) {
		TopK(p, make([]float32, rows*k), make([]byte, 4*rows*k), dtype.I32, src, rows, n, k, FloatOrder[float32]())
		fits(t, p, TopKScratch(p, n, k), "top_k")
	})
}

func TestAttentionScratch(t *testing.T) {
	r := rng(9)
	for _, c := range [][7]int{{2, 6, 2, 3, 1200, 40, 37}, {1, 8, 1, 4, 600, 64, 64}, {1, 2, 2, 1, 40, 16, 16},
		{2, 4, 2, 300, 500, 33, 20}, {1, 2, 1, 70, 17, 20, 7}} {
		for range some(3) {
			grow := r.IntN(2)
			g := randomAttention(r, c[0], c[1], c[2], c[3], c[4], c[5], c[6], MaskCausal)
			g.Precision = []Precision{Float32, BFloat16}[r.IntN(2)]
			eachNewPool(t, func(t *testing.T, p *Pool) {
				need := (&AttentionArgs{B: g.B + grow, Heads: g.Heads, KVHeads: g.KVHeads, SQ: g.SQ + 5*grow,
					SK: g.SK + 100*grow, DK: g.DK, DV: g.DV, Precision: g.Precision}).ScratchSize(p)
				reserve(t, p, need)
				Attention(p, g)
				fits(t, p, need, fmt.Sprintf("%s with %d threads: %v %v", p.Features(), p.Threads(), c, g.Precision))
			})
		}
	}
}

func TestSortScratch(t *testing.T) {
	const n = 30_000
	src := make([]int64, 3*n)
	for i := range src {
		src[i] = int64(i%3)<<60 | int64(i%5)
	}
	for _, outer := range []int{1, 3} { // threads share one line, but take three whole
		eachNewPool(t, func(t *testing.T, p *Pool) {
			Sort(p, make([]int64, outer*n), make([]byte, 4*outer*n), dtype.I32, src, 1, n, outer, false,
				IntOrder[int64]())
			fits(t, p, SortScratch(p, n, 8), "sort")
		})
	}
}
