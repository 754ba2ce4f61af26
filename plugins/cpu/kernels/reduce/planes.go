package reduce

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// windowPlanes computes whole planes, several at a time, because for one line of a small image the call of a routine
// takes longer than the routine. A copy of the planes includes the padding, and separates lines by the remainder of
// their position by the stride: [remainders, planes, lines, pitch]. Each routine then runs over all lines of all
// planes. Results at the ends of lines and planes are not used.
type windowPlanes windowLines

const (
	planeRoom = 1 << 13 // maximum number of elements of the copy of a plane
	planesNow = 1 << 12 // about how many are computed at a time, in the first-level cache
	divisors  = 1 << 8  // how many means are divided at a time
)

// planes reports whether windowPlanes computes the windows.
func (g *WindowArgs) planes() bool { return g.inPlanes() && g.planeSize() <= planeRoom }

// inPlanes reports whether windowPlanes computes the windows of images that are small enough.
func (g *WindowArgs) inPlanes() bool {
	return !g.Adaptive && g.Inner == 1 && g.In[0] == 1 && g.Out[0] == 1 && g.Pad[0] == 0 && g.Kernel[0] == 1 &&
		g.Stride[2] <= 2
}

// planeSize returns the number of elements of the copy of a plane.
func (g *WindowArgs) planeSize() int { return g.planeLines() * g.Stride[1] * g.planePitch() }

// planeLines returns the number of lines of a plane that have the same remainder.
func (g *WindowArgs) planeLines() int {
	high := max(g.In[1]+g.Pad[1], (g.Out[1]-1)*g.Stride[1]+g.Kernel[1])
	return pool.CeilDiv(high, g.Stride[1])
}

// planePitch returns the distance of two lines of the copy.
func (g *WindowArgs) planePitch() int { return pool.CeilDiv(g.lineSize(), g.Stride[2]) * g.Stride[2] }

// planesAtOnce returns how many planes are computed at a time.
func (g *WindowArgs) planesAtOnce() int { return min(max(1, g.Outer), max(1, planesNow/g.planeSize())) }

// planeScratch returns the bytes that a worker needs, also for smaller images.
func (g *WindowArgs) planeScratch() int64 {
	n := max(planesNow, min(planeRoom, g.planeSize()))
	return pool.FloatBytes(n, n+2, n, n, n, divisors)
}

func (x *windowPlanes) Do(lo, hi, worker int) {
	g := (*windowLines)(x)
	s, sc := g.p.Set, g.p.Scratch(worker)
	fold, start := elementwise.On(s).Binary[windowFolds[g.Op].by], windowFolds[g.Op].start
	lines, pitch, down, step, most := g.planeLines(), g.planePitch(), g.Stride[1], g.Stride[2], g.planesAtOnce()
	mark := sc.Mark()
	copied, rows := sc.Floats(most*lines*pitch*down), sc.Floats(most*lines*pitch+step)
	first, second := rows, rows // every step-th element of rows, from the first and from the second on
	if step == 2 {
		first, second = sc.Floats(most*lines*pitch/2), sc.Floats(most*lines*pitch/2)
	}
	folded, count := sc.Floats(most*lines*pitch/step), sc.Floats(divisors)
	vec.Fill(count, float32(elementwise.Volume(g.Kernel)))
	vec.Fill(copied, start)
	for ; lo < hi; lo += most {
		planes := min(most, hi-lo)
		each := planes * lines * pitch
		sc.At, sc.Place = spaced(sc.At[:0], planes, g.In[1]*g.In[2]), sc.Place[:0]
		for rest := range down {
			first := ((rest-g.Pad[1])%down + down) % down
			for y := first; y < g.In[1]; y += down {
				sc.Place = append(sc.Place, (rest*most*lines+(y+g.Pad[1])/down)*pitch+g.Pad[2], y*g.In[2])
			}
		}
		g.copyLines(copied, lines*pitch, g.src[lo*g.In[1]*g.In[2]:], g.In[2], sc)
		from := func(k int) []float32 { return copied[k%down*most*lines*pitch+k/down*pitch:][:each-k/down*pitch] }
		n := each - (g.Kernel[1]-1)/down*pitch
		if g.Kernel[1] == 1 {
			copy(rows[:n], from(0))
		} else {
			fold(rows[:n], from(0)[:n], from(1)[:n])
		}
		for k := 2; k < g.Kernel[1]; k++ {
			fold(rows[:n], rows[:n], from(k)[:n])
		}
		if step == 2 {
			vec.On(s).Evens(first[:n/2], rows)
			vec.On(s).Evens(second[:n/2], rows[1:])
		}
		n = n/step - (g.Kernel[2]-1)/step
		result := first
		for k := 1; k < g.Kernel[2]; k++ {
			by := first[k/step:]
			if k%step > 0 {
				by = second[k/step:]
			}
			fold(folded[:n], result[:n], by[:n])
			result = folded
		}
		sc.At, sc.Place = spaced(sc.At[:0], planes, lines*pitch/step), sc.Place[:0]
		for h := range g.Out[1] {
			sc.Place = append(sc.Place, h*g.Out[2], h*pitch/step)
		}
		made := g.Out[1] * g.Out[2]
		g.copyLines(g.dst[lo*made:], made, result, g.Out[2], sc)
		for i := lo * made; g.Op == Mean && i < (lo+planes)*made; i += len(count) {
			dst := g.dst[i:min(i+len(count), (lo+planes)*made)]
			elementwise.On(s).Binary[elementwise.Div](dst, dst, count[:len(dst)])
		}
	}
	sc.Release(mark)
}

// spaced appends the multiples of step up to n of them.
func spaced(at []int, n, step int) []int {
	for i := range n {
		at = append(at, i*step)
	}
	return at
}

// copyLines copies lines of n elements of several planes, which begin at sc.At in src and ld elements apart in dst. The
// places of lines in them are pairs in sc.Place.
func (g *windowLines) copyLines(dst []float32, ld int, src []float32, n int, sc *pool.Scratch) {
	s, wide := g.p.Set, 4
	for wide < s.Lanes && 2*wide <= n {
		wide *= 2
	}
	lines := len(sc.Place)
	short := n >= wide && n < 48 && len(sc.At) > 1 // long lines gain nothing
	for l := 0; short && l < lines; l += 2 {
		for i := 0; i < n; i += wide { // the last vector overlaps the one before
			at := min(i, n-wide)
			sc.Place = append(sc.Place, sc.Place[l]+at, sc.Place[l+1]+at)
		}
	}
	if runs := sc.Place[lines:]; len(runs) > 0 {
		vec.On(s).CopyRuns(dst, ld, src, sc.At, sc.At[len(sc.At)-1], runs, wide)
		return
	}
	for i, at := range sc.At {
		for l := 0; l < lines; l += 2 {
			copy(dst[i*ld+sc.Place[l]:][:n], src[at+sc.Place[l+1]:])
		}
	}
}
