package scan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// randomRecurrent returns a layer with all operands that its cell may have.
func randomRecurrent(cell Cell, t, b, d, h int) *Recurrent {
	r := kerneltest.RNG(uint64(cell) + 5)
	g := cell.Gates() * h
	a := &Recurrent{Cell: cell, T: t, B: b, D: d, H: h, Reverse: d == 1 && cell != LSTM,
		X: kerneltest.Randoms(r, t*b*d*g), R: kerneltest.Randoms(r, d*g*h), Bias: kerneltest.Randoms(r, d*g),
		State: kerneltest.Randoms(r, d*b*h), Lengths: make([]int64, b)}
	for i := range a.R {
		a.R[i] /= 8
	}
	for i := range a.Lengths {
		a.Lengths[i] = int64(r.IntN(t + 1))
	}
	a.Lengths[0] = int64(t)
	if cell == LSTM {
		a.C, a.P = kerneltest.Randoms(r, d*b*h), kerneltest.Randoms(r, 3*d*h)
	}
	return a
}

// TestRecurrentThreads checks that all ways of sharing the work give the same bits: sequences, blocks of steps, one
// thread.
func TestRecurrentThreads(t *testing.T) {
	for _, c := range []*Recurrent{
		randomRecurrent(LSTM, 4, 1, 1, 200), randomRecurrent(LSTM, 3, 27, 2, 19), randomRecurrent(LSTM, 2, 5, 1, 261),
		randomRecurrent(GRU, 3, 2, 2, 210), randomRecurrent(GRU, 4, 9, 1, 33),
		randomRecurrent(GRUResetAfter, 3, 1, 1, 230), randomRecurrent(RNNTanh, 3, 1, 2, 370),
		randomRecurrent(RNNRelu, 2, 17, 1, 97),
	} {
		t.Run(fmt.Sprint(c.Cell, c.T, c.B, c.D, c.H), func(t *testing.T) {
			kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
				n, last := c.T*c.B*c.D*c.H, c.D*c.B*c.H
				all, check := kerneltest.Guarded(n + last)
				a := *c
				a.Y, a.LastH, a.LastC = all[:n], all[n:n+last], make([]float32, last)
				RunRecurrent(p, &a)
				check(t, "recurrent")
				first := slices.Clone(all)
				a.Kept = new(RecurrentKept)
				for range 2 { // the second call finds packed weights
					clear(all)
					RunRecurrent(p, &a)
					if !slices.Equal(first, all) {
						t.Error("the result differs if the packed weights are kept")
					}
				}
				return all
			})
		})
	}
}

// TestRecurrentAllocatesNothing runs a layer twice, on one thread.
func TestRecurrentAllocatesNothing(t *testing.T) {
	kerneltest.EachSet(t, 1, func(t *testing.T, p *pool.Pool) {
		a := randomRecurrent(GRU, 3, 4, 2, 40)
		a.Y, a.LastH = make([]float32, 3*4*2*40), make([]float32, 4*2*40)
		RunRecurrent(p, a)
		if n := testing.AllocsPerRun(5, func() { RunRecurrent(p, a) }); n > 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// BenchmarkRecurrent measures 100 steps on one thread.
func BenchmarkRecurrent(b *testing.B) {
	for _, c := range []struct {
		cell Cell
		b, h int
	}{{LSTM, 1, 128}, {LSTM, 8, 128}, {LSTM, 1, 512}, {LSTM, 8, 512}, {GRUResetAfter, 1, 128}, {GRU, 8, 128}} {
		b.Run(fmt.Sprint(c.cell, "/", c.b, "/", c.h), func(b *testing.B) {
			p, err := pool.New(1)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			a := randomRecurrent(c.cell, 100, c.b, 1, c.h)
			a.Lengths, a.P = nil, nil
			a.Y, a.LastH, a.LastC = make([]float32, 100*c.b*c.h), make([]float32, c.b*c.h), make([]float32, c.b*c.h)
			for b.Loop() {
				RunRecurrent(p, a)
			}
		})
	}
}
