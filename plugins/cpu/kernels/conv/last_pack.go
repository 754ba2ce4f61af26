package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// lastPlaces returns the distances of weights: from a tap to the next, from a vector to the next, and from a group to
// the next, in bytes.
func (g *convolution) lastPlaces() (place [3]int) {
	d, line := &g.last, 4*g.p.Set.Lanes
	if d.each {
		return [3]int{line * d.vectors, line, 0}
	}
	tap := line * g.cg
	vector := tap * elementwise.Volume(g.Kernel)
	return [3]int{tap, vector, vector * d.vectors}
}

// lastWeights returns the number of floats of the packed weights.
func (g *convolution) lastWeights() int {
	lanes, taps := g.p.Set.Lanes, elementwise.Volume(g.Kernel)
	if g.depthwise() {
		return pool.CeilDiv(g.Cout, lanes) * lanes * taps
	}
	return g.Groups * pool.CeilDiv(g.og, lanes) * lanes * taps * g.cg
}

// packLast sets packed to the weights: [groups, vectors, taps, channels of x, lanes], or [taps, vectors, lanes] for
// depthwise convolutions. It stores 1 in Bad if they cannot be used.
func (g *convolution) packLast() {
	p, kept := g.p, g.Packed
	switch {
	case kept == nil:
		g.packed = p.Shared.Floats(g.lastWeights())
	case kept.last != nil:
		g.packed = kept.last
		g.refuse()
		return
	default:
		g.packed = make([]float32, g.lastWeights())
	}
	p.Share(g.lastGroups()*g.last.vectors, 1+pool.Grain/(g.lastWeights()/g.last.vectors), (*convPackLast)(g))
	if kept != nil {
		kept.last, kept.bad = g.packed, kept.bad || p.Bad.Load() != 0
	}
}

// convPackLast packs the weights of vectors of channels.
type convPackLast convolution

func (x *convPackLast) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	d, place, taps := &g.last, g.lastPlaces(), elementwise.Volume(g.Kernel)
	lanes, channels := g.p.Set.Lanes, g.Cout/g.lastGroups()
	cg := g.cg
	mark := g.p.Scratch(worker).Mark()
	row := g.p.Scratch(worker).Floats(taps)
	for v := lo; v < hi; v++ {
		to := g.packed[(v/d.vectors*place[2]+v%d.vectors*place[1])/4:]
		for l := range lanes {
			o := v%d.vectors*lanes + l
			for c := range cg {
				if o >= channels {
					for t := range taps {
						to[t*place[0]/4+c*lanes+l] = 0
					}
					continue
				}
				w := g.Weight.Row(g.p.Set, g.weightAt(v/d.vectors*channels+o, c), taps, row)
				g.check(w)
				for t, x := range w {
					to[t*place[0]/4+c*lanes+l] = x
				}
			}
		}
	}
	g.p.Scratch(worker).Release(mark)
}
