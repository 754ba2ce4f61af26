package kernels

import (
	"fmt"
	"testing"
)

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
			c := keep[convolution](p)
			other := floats(cap(c.patch), cap(c.bias), cap(c.row)) + sizeOf[GemmArgs](cap(c.each)) +
				sizeOf[tap](cap(c.taps)) + sizeOf[phase](cap(c.phases)) + sizeOf[int](cap(c.at))
			fits(t, p, need, other, fmt.Sprintf("%s with %d threads: %s", p.Features(), p.Threads(), describeConv(g)))
		})
	}
}
