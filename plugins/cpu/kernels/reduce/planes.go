package reduce

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// windowPlanes computes whole planes, several at a time, because a routine called for one line of a small image takes
// longer to call than to run. A copy of the planes includes the padding, and separates lines by the remainder of their
// position by the stride: [remainders, planes, lines, pitch]. Each routine then runs over all lines of all planes. What
// it computes at the ends of lines and planes is not used.
type windowPlanes windowLines

// planeRoom is the maximum number of elements of the copy that are computed at a time, and of a plane.
const planeRoom = 1 << 14

// planes reports whether windowPlanes computes the windows.
func (g *WindowArgs) planes() bool {
	return !g.Adaptive && g.Inner == 1 && g.In[0] == 1 && g.Out[0] == 1 && g.Pad[0] == 0 && g.Kernel[0] == 1 &&
		g.Stride[2] <= 2 && g.planeLines()*g.Stride[1]*g.planePitch() <= planeRoom
}

// planeLines returns the number of lines of a plane that have the same remainder.
func (g *WindowArgs) planeLines() int {
	high := max(g.In[1]+g.Pad[1], (g.Out[1]-1)*g.Stride[1]+g.Kernel[1])
	return pool.CeilDiv(high, g.Stride[1])
}

// planePitch returns the distance of two lines of the copy.
func (g *WindowArgs) planePitch() int { return pool.CeilDiv(g.lineSize(), g.Stride[2]) * g.Stride[2] }

// planesNow returns how many planes are computed at a time.
func (g *WindowArgs) planesNow() int {
	return min(max(1, g.Outer), max(1, planeRoom/(g.planeLines()*g.Stride[1]*g.planePitch())))
}

// planeScratch returns what a worker needs, in bytes.
func (g *WindowArgs) planeScratch() int64 {
	each := g.planesNow() * g.planeLines() * g.planePitch()
	part := each / g.Stride[2]
	return pool.FloatBytes(each*g.Stride[1], each+g.Stride[2], part, part, part, g.Out[2])
}

func (x *windowPlanes) Do(lo, hi, worker int) {
	g := (*windowLines)(x)
	s, sc := g.p.Set, g.p.Scratch(worker)
	fold, start := elementwise.On(s).Binary[windowFolds[g.Op].by], windowFolds[g.Op].start
	lines, pitch, down, step, most := g.planeLines(), g.planePitch(), g.Stride[1], g.Stride[2], g.planesNow()
	mark := sc.Mark()
	copied, rows := sc.Floats(most*lines*pitch*down), sc.Floats(most*lines*pitch+step)
	first, second := rows, rows // every step-th element of rows, from the first and from the second on
	if step == 2 {
		first, second = sc.Floats(most*lines*pitch/2), sc.Floats(most*lines*pitch/2)
	}
	made, count := sc.Floats(most*lines*pitch/step), sc.Floats(g.Out[2])
	vec.Fill(count, float32(elementwise.Volume(g.Kernel)))
	vec.Fill(copied, start)
	vec.Fill(rows, start)
	for ; lo < hi; lo += most {
		planes := min(most, hi-lo)
		each := planes * lines * pitch
		for t := range planes * g.In[1] {
			y := t%g.In[1] + g.Pad[1]
			to := copied[((y%down*most+t/g.In[1])*lines+y/down)*pitch+g.Pad[2]:][:g.In[2]]
			copy(to, g.src[(lo*g.In[1]+t)*g.In[2]:])
		}
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
			fold(made[:n], result[:n], by[:n])
			result = made
		}
		for t := range planes * g.Out[1] {
			from := result[(t/g.Out[1]*lines+t%g.Out[1])*pitch/step:][:g.Out[2]]
			dst := g.dst[(lo*g.Out[1]+t)*g.Out[2]:][:g.Out[2]]
			if g.Op == Mean {
				elementwise.On(s).Binary[elementwise.Div](dst, from, count)
			} else {
				copy(dst, from)
			}
		}
	}
	sc.Release(mark)
}
