package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// TestSample compares Sample with the op's definition, with ties and NaN, also at sizes for which threads share a row.
func TestSample(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	tries := 60
	if testing.Short() {
		tries = 16
	}
	for _, threads := range []int{1, 2, 5} {
		p, err := pool.New(threads)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for i := range tries {
			rows, n := 1+i%2, []int{20_000, 5, 300, 33_333}[i%4]
			logits, wide := make([]float32, rows*n), tensor.NewArray(0, rows, n)
			wide.Floats = make([]float64, rows*n)
			for j := range logits {
				x := float32(r.NormFloat64() * []float64{3, 0.1, 10}[i%3])
				switch {
				case i%5 == 1:
					x = float32(math.Round(float64(x)))
				case i%7 == 2 && j%3 == 0:
					x = float32(math.NaN())
				case i%7 == 3 && j%2 == 0:
					x = float32(math.Inf(-1))
				}
				logits[j], wide.Floats[j] = x, float64(x)
			}
			temperature := []float32{1, 0, 0.25, 7}[r.IntN(4)]
			k := []int32{0, 1, int32(n / 2), int32(n), 5}[r.IntN(5)]
			top := []float32{1, 0, 0.5, 0.95}[r.IntN(4)]
			seed, step := []uint32{r.Uint32(), r.Uint32()}, []uint32{r.Uint32(), 0}
			want := &tensor.Array{Shape: []int{rows}, Ints: make([]int64, rows)}
			if err := op.SampleDef.Eval(
				op.SampleAttrs{},
				[]*tensor.Array{wide, {Floats: []float64{float64(temperature)}}, {Ints: []int64{int64(k)}},
					{Floats: []float64{float64(top)}},
					{Ints: []int64{int64(seed[0]), int64(seed[1])}}, {Ints: []int64{int64(step[0]), int64(step[1])}}},
				want); err != nil {
				t.Fatal(err)
			}
			got := make([]int32, rows)
			if err := Draw(
				p, Args{N: n, Logits: stored.F32(logits), Temperature: []float32{temperature},
					TopK: []int32{k}, TopP: []float32{top},
					Seed: seed, Step: step, Out: got}); err != nil {
				t.Fatal(err)
			}
			for row := range got {
				if int64(got[row]) != want.Ints[row] {
					t.Errorf("%d threads, %d of %d logits, temperature %v, top_k %d, top_p %v: token %d; want %d",
						threads, row, n, temperature, k, top, got[row], want.Ints[row])
				}
			}
		}
	}
}

// TestSampleAfterLonger draws from a short row of equal logits, all of which survive top_p, after a longer row of which
// half survived. No state of the longer row may remain: each token of the short row must win for some seed.
func TestSampleAfterLonger(t *testing.T) {
	p, err := pool.New(2)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	draw := func(n int, k int32, top float32, seed uint32) int32 {
		out := make([]int32, 1)
		if err := Draw(
			p, Args{N: n, Logits: stored.F32(make([]float32, n)), Temperature: []float32{1},
				TopK: []int32{k}, TopP: []float32{top},
				Seed: []uint32{seed, 0}, Step: []uint32{0, 0}, Out: out}); err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	const n = 20_000
	draw(2*n, n, 1, 0)
	for seed := range uint32(40) {
		if draw(n, 0, 1-0x1p-24, seed) >= n/2 {
			return
		}
	}
	t.Error("the upper half of the tokens never wins")
}

func BenchmarkSample(b *testing.B) {
	const n = 150_000
	r := rand.New(rand.NewPCG(3, 4))
	logits := make([]float32, n)
	for i := range logits {
		logits[i] = float32(r.NormFloat64() * 3)
	}
	for _, c := range []struct {
		k int32
		p float32
	}{{0, 1}, {50, 1}, {0, 0.95}, {50, 0.95}} {
		b.Run(fmt.Sprintf("k=%d,p=%v", c.k, c.p), func(b *testing.B) {
			p, err := pool.New(2)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			step := []uint32{0, 0}
			for b.Loop() {
				step[0]++
				if err := Draw(
					p, Args{N: n, Logits: stored.F32(logits), Temperature: []float32{1},
						TopK: []int32{c.k}, TopP: []float32{c.p},
						Seed: []uint32{1, 2}, Step: step, Out: make([]int32, 1)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
