package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// shortLine is the maximum number of vectors of a copied line for which copyShort takes less time.
const shortLine = 8

// copyInput copies the elements of x that a part reads.
func (g *convolution) copyInput(x *bandPart, sc *pool.Scratch) []float32 {
	size := g.band.size(g)
	copied := sc.Floats(g.cg*size + 2*g.p.Set.Lanes)
	clear(copied[g.cg*size:])
	if g.step[1] == 1 && g.step[2] == 1 && g.band.pitch <= shortLine*g.p.Set.Lanes {
		g.copyShort(copied, x, sc)
		return copied
	}
	for c := range g.cg {
		g.copyBand(copied[c*size:], &g.band, (x.n*g.Groups+x.group)*g.cg+c, x.at[0], x.at[1], x.at[2], sc)
	}
	return copied
}

// copyShort is copyInput for short lines without steps. It makes a list of the pieces of a channel, because a call for
// each line would take longer than the copy.
func (g *convolution) copyShort(dst []float32, x *bandPart, sc *pool.Scratch) {
	b, size := &g.band, g.band.size(g)
	cut := g.cutLine(b.pitch, x.at[2]+g.low[2], 1)
	wide := cut.end - cut.before
	vector := 4
	for vector < g.p.Set.Lanes && 2*vector <= wide {
		vector *= 2
	}
	inside := 0
	sc.Place = sc.Place[:0]
	for a := range g.planes {
		z := x.at[0]*g.step[0] + g.low[0] + a*g.apart
		if z < 0 || z >= g.In[0] {
			continue
		}
		y := x.at[1] + g.low[1]
		for l := max(0, -y); l < min(b.lines, g.In[1]-y); l++ {
			to, from := (a*b.lines+l)*b.pitch+cut.before, (z*g.In[1]+y+l)*g.In[2]+cut.from
			inside += wide
			if wide < vector {
				sc.Place = append(sc.Place, to, from)
			}
			for j := 0; j < wide && wide >= vector; j += vector { // the last vector overlaps the one before
				at := min(j, wide-vector)
				sc.Place = append(sc.Place, to+at, from+at)
			}
		}
	}
	if inside < size {
		vec.Fill(dst[:g.cg*size], g.fill)
	}
	if inside == 0 {
		return
	}
	plane := elementwise.Volume(g.In)
	src := g.X[(x.n*g.Groups+x.group)*g.cg*plane:]
	if wide >= vector {
		sc.At = sc.At[:0]
		for c := range g.cg {
			sc.At = append(sc.At, c*plane)
		}
		vec.On(g.p.Set).CopyRuns(dst, size, src, sc.At, (g.cg-1)*plane, sc.Place, vector)
		return
	}
	for c := range g.cg {
		for i := 0; i < len(sc.Place); i += 2 {
			copy(dst[c*size+sc.Place[i]:][:wide], src[c*plane+sc.Place[i+1]:])
		}
	}
}
