package raster

import (
	"github.com/rlx-go/rlx/core/splat"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Gradient has the gradient with respect to a scene.
type Gradient = splat.Gradient[float32]

// frame is a splat.Frame.
type frame [15]float32

// sums are splat.Sums over the pixels that a band has of a splat.
type sums [splat.SumsLen]float32

// hit is one splat in one pixel of a tile.
type hit struct {
	at                   int32 // the place of the splat among those of the tile
	pixel                uint8
	alpha, transmittance float32 // transmittance is that in front of the splat
}

// hitRoom is the largest number of hits that a tile has at a time, unless the scene has more splats. A tile with more
// hits is done in parts. A pixel has at most one hit for each splat of the scene.
const hitRoom = 1 << 16

// Backward computes the gradient as gaussian_splat_render_backward does.
func Backward(p *pool.Pool, out *Gradient, s *Scene, meta, dRGBA []float32, width, height int, clip float64) error {
	v, err := check(s, meta, width, height)
	if err == nil {
		err = splat.CheckImageGradient(dRGBA, width)
	}
	if err != nil {
		return err
	}
	p.Shared.Reset()
	r := project(p, v, s)
	b := &backward{prepared: r, dRGBA: dRGBA, clip: clip, frames: alloc[frame](&p.Shared, s.N),
		totals: alloc[splat.Sums](&p.Shared, s.N), parts: alloc[sums](&p.Shared, listRoom*s.N)}
	clear(b.totals)
	p.Split(len(r.order), keyGrain, func(lo, hi, _ int) {
		for _, i := range r.order[lo:hi] {
			b.frames[i] = frameOf(v, s, int(i))
		}
	})
	workers := make([]backwardTile, p.Threads())
	r.eachGroup(func(g *group) {
		clear(b.parts[:g.starts[g.end-g.first]])
		p.Run(g.end-g.first, func(task, worker int) {
			t := &workers[worker]
			scratch := p.Scratch(worker)
			t.hits = alloc[hit](scratch, max(s.N, hitRoom))[:0]
			for segment := range segments(width) {
				mark := scratch.Mark()
				r.eachTile(scratch, g, g.first+task, segment, func(x0, y0 int, places []int32) {
					b.tile(t, g, places, x0, y0, min(x0+side, width), min(y0+side, height))
				})
				scratch.Release(mark)
			}
		})
		// The bands of a splat are added in order. Each worker has splats of its own.
		parts := p.Threads()
		p.Run(parts, func(task, _ int) {
			lo, hi := int32(task*s.N/parts), int32((task+1)*s.N/parts)
			for k, e := range g.entries[:g.starts[g.end-g.first]] {
				if e.splat >= lo && e.splat < hi {
					for j, x := range b.parts[k] {
						b.totals[e.splat][j] += float64(x)
					}
				}
			}
		})
	})
	for _, x := range [][]float32{out.Positions, out.Scales, out.Rotations, out.Opacities, out.Colors, out.SH} {
		clear(x)
	}
	p.Split(len(r.order), keyGrain, func(lo, hi, _ int) {
		for _, i := range r.order[lo:hi] {
			splat.Chain(v, s, int(i), &b.totals[i], out)
		}
	})
	return nil
}

// BackwardScratch returns the memory of Backward for n splats.
func BackwardScratch(n, height int) pool.Size {
	return pool.Size{
		Shared: projectBytes(n) + groupBytes(n, height) + allocated[frame](n) + allocated[splat.Sums](n) +
			allocated[sums](listRoom*n),
		Worker: tileBytes(n) + allocated[hit](max(n, hitRoom)),
	}
}

func frameOf(v *splat.View, s *Scene, i int) (out frame) {
	var g splat.Splat
	var f splat.Form
	var fr splat.Frame
	splat.Project(v, s, i, &g)
	v.Form(&g, &f, &fr)
	for k, x := range []splat.Vec{fr.D, fr.DX, fr.DY, fr.E, fr.F} {
		for j := range x {
			out[3*k+j] = float32(x[j])
		}
	}
	return out
}

// backward holds what all workers share.
type backward struct {
	*prepared
	dRGBA  []float32
	clip   float64
	frames []frame
	totals []splat.Sums
	parts  []sums // by entry of the group
}

// backwardTile is a tile whose hits are recorded.
type backwardTile struct {
	tile
	hits []hit
	grad [side * side][3]float32 // dL/d(linear colour)
	toT  [side * side]float32    // dL/d(transmittance behind the splats that are done)
}

// tile adds what pixels [x0, x1) x [y0, y1) contribute to the sums of their splats.
func (b *backward) tile(t *backwardTile, g *group, places []int32, x0, y0, x1, y1 int) {
	t.begin(b.view, x0, y0, x1, y1)
	t.hits = t.hits[:0]
	for at, k := range places {
		i := g.entries[k].splat
		if !t.record(int32(at), &b.forms[i], &b.colors[i], b.extents[i]) { // no room
			if x1-x0 > 1 {
				b.tile(t, g, places, x0, y0, (x0+x1)/2, y1)
				b.tile(t, g, places, (x0+x1)/2, y0, x1, y1)
			} else {
				b.tile(t, g, places, x0, y0, x1, (y0+y1)/2)
				b.tile(t, g, places, x0, (y0+y1)/2, x1, y1)
			}
			return
		}
		if t.taking == 0 {
			break
		}
	}
	for y := y0; y < y1; y++ {
		for x := x0; x < x1; x++ {
			p := (y-y0)*side + x - x0
			var color [3]float64
			var d [3]float64
			for j := range color {
				color[j], d[j] = float64(t.color[p][j]), float64(b.dRGBA[(y*b.view.Width+x)*4+j])
			}
			l := b.view.LinearGradient(color, float64(t.transmittance[p]), d[:], b.clip)
			toT := 0.0
			for j := range l {
				t.grad[p][j] = float32(l[j])
				toT += l[j] * b.view.Background[j]
			}
			t.toT[p] = float32(toT)
		}
	}
	for end := len(t.hits); end > 0; {
		at := t.hits[end-1].at
		begin := end - 1
		for begin > 0 && t.hits[begin-1].at == at {
			begin--
		}
		k := places[at]
		i := g.entries[k].splat
		t.sum(&b.parts[k], t.hits[begin:end], &b.forms[i], &b.frames[i], &b.colors[i])
		end = begin
	}
}

// record is tile.add that keeps the hits. It returns false if there is no room for them.
func (t *backwardTile) record(at int32, f *form, color *[4]float32, e extent) bool {
	var r row
	for y := max(int(e.top), t.y0); y < min(int(e.bottom), t.y1); y++ {
		f.at(&r, y, t.x0, t.x1, e.plain)
		if len(t.hits)+r.hi-r.lo > cap(t.hits) {
			return false
		}
		base := (y-t.y0)*side - t.x0
		for x := r.lo; x < r.hi; x++ {
			p := (base + x) & (side*side - 1)
			if t.left[p] == 0 {
				continue
			}
			z, ok := r.exponent(float32(x) - f[splat.FormX])
			if !ok {
				continue
			}
			alpha := color[3] * halved(z)
			t.hits = append(t.hits, hit{at, uint8(p), alpha, t.transmittance[p]})
			w := t.transmittance[p] * alpha
			c := &t.color[p]
			c[0] += w * color[0]
			c[1] += w * color[1]
			c[2] += w * color[2]
			t.take(p, t.transmittance[p]*(1-alpha))
		}
	}
	return true
}

// sum adds hits of one splat to its sums; see splat.Sums. The pixels' splats behind it were done.
func (t *backwardTile) sum(to *sums, hits []hit, f *form, fr *frame, color *[4]float32) {
	var part sums
	scale := float32(1 / splat.Exponent)
	for _, h := range hits {
		p := int(h.pixel)
		g := &t.grad[p]
		shade := g[0]*color[0] + g[1]*color[1] + g[2]*color[2]
		x := h.alpha * h.transmittance * (shade - t.toT[p])
		t.toT[p] = (1-h.alpha)*t.toT[p] + h.alpha*shade
		w := h.alpha * h.transmittance
		part[splat.SumColor] += w * g[0]
		part[splat.SumColor+1] += w * g[1]
		part[splat.SumColor+2] += w * g[2]

		dx, dy := float32(t.x0+p%side)-f[splat.FormX], float32(t.y0+p/side)-f[splat.FormY]
		u := f[splat.FormU] + f[splat.FormUX]*dx + f[splat.FormUY]*dy
		v := f[splat.FormV] + f[splat.FormVY]*dy
		d0, d1, d2 := fr[0]+fr[3]*dx+fr[6]*dy, fr[1]+fr[4]*dx+fr[7]*dy, fr[2]+fr[5]*dx+fr[8]*dy
		w0, w1, w2 := u*fr[9]+v*fr[12], u*fr[10]+v*fr[13], u*fr[11]+v*fr[14]
		k := scale / (d0*d0 + d1*d1 + d2*d2)
		c0, c1, c2 := k*(d1*w2-d2*w1), k*(d2*w0-d0*w2), k*(d0*w1-d1*w0)
		part[splat.SumH] += x
		x0, x1, x2 := x*c0, x*c1, x*c2
		part[splat.SumPoint] += x0
		part[splat.SumPoint+1] += x1
		part[splat.SumPoint+2] += x2
		part[splat.SumSquare] += x0 * c0
		part[splat.SumSquare+1] += x0 * c1
		part[splat.SumSquare+2] += x0 * c2
		part[splat.SumSquare+3] += x1 * c1
		part[splat.SumSquare+4] += x1 * c2
		part[splat.SumSquare+5] += x2 * c2
	}
	for j, x := range part {
		to[j] += x
	}
}
