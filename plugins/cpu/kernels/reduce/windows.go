package reduce

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// WindowArgs describes pooling: a reduction of the elements in windows that move over three axes. Pooling over fewer
// axes leaves out the first ones, with size, kernel and stride 1.
type WindowArgs struct {
	Op           Op
	Outer, Inner int // elements before the axes, and after them
	In, Out      [3]int
	Kernel       [3]int // ignored if Adaptive is set, like Stride and Pad
	Stride, Pad  [3]int
	Adaptive     bool // windows divide the axes evenly, and a mean divides by the number of elements in the window
}

// window returns the range [lo, hi) that element o of the result reduces along an axis, without padding.
func (g *WindowArgs) window(axis, o int) (lo, hi int) {
	if g.Adaptive {
		in, out := g.In[axis], g.Out[axis]
		return o * in / out, ((o+1)*in + out - 1) / out
	}
	lo = o*g.Stride[axis] - g.Pad[axis]
	hi = min(lo+g.Kernel[axis], g.In[axis])
	lo = max(lo, 0)
	return min(lo, hi), hi
}

// global reports whether the result is one mean for each element of Outer.
func (g *WindowArgs) global() bool {
	return g.Adaptive && g.Op == Mean && elementwise.Volume(g.Out)*g.Inner == 1
}

// most returns the largest number of elements of a window along an axis.
func (g *WindowArgs) most(axis int) int {
	if g.Adaptive {
		return min(g.In[axis], g.In[axis]/g.Out[axis]+2)
	}
	return min(g.Kernel[axis], g.In[axis])
}

// Windows reduces src [Outer, In, Inner] to dst [Outer, Out, Inner]. Padding is left out, but a mean divides by the
// size of the kernel. Floats are summed in float64, f32 in f32 if windows have up to some hundred elements.
func Windows[T elementwise.Number](p *pool.Pool, g WindowArgs, dst, src []T) {
	if g.Op >= reduceCount || g.Op == Mean && !elementwise.IsFloat[T]() ||
		len(src) < g.Outer*elementwise.Volume(g.In)*g.Inner ||
		len(dst) < g.Outer*elementwise.Volume(g.Out)*g.Inner {
		panic("BUG: windows by " + g.Op.String())
	}
	if elementwise.Volume(g.Out)*g.Inner == 0 {
		return
	}
	if x, ok := any(src).([]float32); ok && g.global() {
		Floats(p, Mean, stored.F32(any(dst).([]float32)), stored.F32(x), []int{g.Outer, elementwise.Volume(g.In)},
			[]int{1})
		return
	}
	if x, ok := any(src).([]float32); ok && g.most(0)*g.most(1) <= longSum && g.most(2) <= longSum {
		if g.planes() {
			pool.Split(p, g.Outer, 1+pool.Grain/(elementwise.Volume(g.Out)*(2+g.most(1))*g.Stride[1]),
				windowPlanes{g, p, any(dst).([]float32), x})
			return
		}
		if g.inPixels(p.Set) {
			pool.Split(p, g.Outer*g.Out[1], 1+pool.Grain/(g.Out[2]*g.Inner*g.most(1)*g.most(2)),
				windowPixels{g, p, any(dst).([]float32), x})
			return
		}
		pool.Split(p, g.Outer*g.Out[0]*g.Out[1], 1+pool.Grain/(g.Out[2]*g.Inner*(1+g.most(0)*g.most(1))),
			windowLines{g, p, any(dst).([]float32), x})
		return
	}
	if elementwise.IsFloat[T]() {
		foldWindows[T, float64](p, g, dst, src)
	} else {
		foldWindows[T, int64](p, g, dst, src)
	}
}

// longSum is the largest number of terms of a sum in float32.
const longSum = 256

// windowFold computes elements one by one, of any type.
type windowFold[T, A elementwise.Number] struct {
	WindowArgs
	dst, src []T
	f        folding[T, A]

	all [reduceCount]folding[T, A]
}

func foldWindows[T, A elementwise.Number](p *pool.Pool, g WindowArgs, dst, src []T) {
	w := pool.Keep[windowFold[T, A]](p)
	if w.all[g.Op].step == nil {
		w.all[g.Op] = reduction[T, A](g.Op)
	}
	w.WindowArgs, w.dst, w.src, w.f = g, dst, src, w.all[g.Op]
	p.Share(g.Outer*elementwise.Volume(g.Out), 1+pool.Grain/(g.Inner*max(1, g.most(0)*g.most(1)*g.most(2))), w)
}

func (g *windowFold[T, A]) Do(lo, hi, _ int) {
	var acc [reduceWidth]A
	for t := lo; t < hi; t++ {
		o, x := t/elementwise.Volume(g.Out), t%elementwise.Volume(g.Out)
		d0, d1 := g.window(0, x/g.Out[2]/g.Out[1])
		h0, h1 := g.window(1, x/g.Out[2]%g.Out[1])
		w0, w1 := g.window(2, x%g.Out[2])
		count := elementwise.Volume(g.Kernel)
		if g.Adaptive {
			count = (d1 - d0) * (h1 - h0) * (w1 - w0)
		}
		for c := 0; c < g.Inner; c += reduceWidth {
			sums := acc[:min(reduceWidth, g.Inner-c)]
			for i := range sums {
				sums[i] = g.f.start
			}
			for d := d0; d < d1; d++ {
				for h := h0; h < h1; h++ {
					line := ((o*g.In[0]+d)*g.In[1] + h) * g.In[2]
					if g.Inner == 1 {
						a := sums[0]
						for _, x := range g.src[line+w0 : line+w1] {
							a = g.f.step(a, x)
						}
						sums[0] = a
						continue
					}
					for w := w0; w < w1; w++ {
						for i, x := range g.src[(line+w)*g.Inner+c:][:len(sums)] {
							sums[i] = g.f.step(sums[i], x)
						}
					}
				}
			}
			for i, a := range sums {
				g.dst[t*g.Inner+c+i] = g.f.end(a, count)
			}
		}
	}
}

// windowLines computes lines of the result. For each it first reduces the lines of x in the window to one line, and
// then that line.
type windowLines struct {
	WindowArgs
	p        *pool.Pool
	dst, src []float32
}

var windowFolds = [reduceCount]struct {
	by    elementwise.BinaryOp
	start float32
}{Sum: {elementwise.Add, 0}, Mean: {elementwise.Add, 0}, Max: {elementwise.Max, elementwise.Lowest[float32]()},
	Min:  {elementwise.Min, elementwise.Highest[float32]()},
	Prod: {elementwise.Mul, 1}}

// even reports whether all windows have the same size and lie in one plane, so that those of a line of the result are
// adjacent lines.
func (g *WindowArgs) even() bool {
	divides := func(axis int) bool { return g.In[axis] >= g.Out[axis] && g.In[axis]%g.Out[axis] == 0 }
	return g.Adaptive && g.Inner == 1 && g.In[0] == g.Out[0] && divides(1) && divides(2)
}

// evenLines returns how many lines of the result are computed at a time if the windows are even.
func (g *WindowArgs) evenLines() int { return max(1, 2048/g.In[2]) }

// doEven is do for means of even windows. Lines may be short, so routines are called for several at a time.
func (g *windowLines) doEven(lo, hi, worker int) {
	s, sc := g.p.Set, g.p.Scratch(worker)
	high, wide, line, made := g.In[1]/g.Out[1], g.In[2]/g.Out[2], g.In[2], g.Out[2]
	most := g.evenLines()
	mark := sc.Mark()
	sum, count := sc.Floats(most*line), sc.Floats(most*made)
	vec.Fill(count, float32(high*wide))
	for ; lo < hi; lo += most {
		n := min(most, hi-lo)
		for i := range n {
			x, to := g.src[(lo+i)*high*line:][:high*line], sum[i*line:][:line]
			copy(to, x)
			if high > 1 {
				On(s).Folds.rows[Sum](&to[0], &x[line], line, line, high-1)
			}
		}
		dst := g.dst[lo*made : (lo+n)*made]
		On(s).Folds.Each[Sum](&dst[0], &sum[0], wide, wide, len(dst))
		elementwise.On(s).Binary[elementwise.Div](dst, dst, count[:len(dst)])
	}
	sc.Release(mark)
}

func (g *windowLines) Do(lo, hi, worker int) {
	s, sc := g.p.Set, g.p.Scratch(worker)
	if On(s).Folds != nil && g.even() {
		g.doEven(lo, hi, worker)
		return
	}
	fold, start := elementwise.On(s).Binary[windowFolds[g.Op].by], windowFolds[g.Op].start
	line, made := g.In[2]*g.Inner, g.Out[2]*g.Inner
	before := 0
	if !g.Adaptive {
		before = g.Pad[2] * g.Inner
	}
	mark := sc.Mark()
	sum := sc.Floats(g.lineSize())
	column, count := sc.Floats(made), sc.Floats(made)
	vec.Fill(sum, start)
	inside := sum[before:][:line]
	for i := range g.Out[2] {
		w0, w1 := g.window(2, i)
		n := g.Kernel[2]
		if g.Adaptive {
			n = w1 - w0
		}
		vec.Fill(count[i*g.Inner:(i+1)*g.Inner], float32(n))
	}
	for t := lo; t < hi; t++ {
		d0, d1 := g.window(0, t/g.Out[1]%g.Out[0])
		h0, h1 := g.window(1, t%g.Out[1])
		o := t / g.Out[1] / g.Out[0] * g.In[0]
		var only []float32 // the first line
		fresh := true
		for d := d0; d < d1; d++ {
			for h := h0; h < h1; h++ {
				x := g.src[((o+d)*g.In[1]+h)*line:][:line]
				switch {
				case only == nil && fresh:
					only = x
				case fresh:
					fold(inside, only, x)
					fresh = false
				default:
					fold(inside, inside, x)
				}
			}
		}
		padded := sum
		switch {
		case only == nil:
			vec.Fill(inside, start)
		case fresh && g.lineSize() == line:
			padded = only
		case fresh:
			copy(inside, only)
		}
		dst := g.dst[t*made : (t+1)*made]
		g.across(s, sc, fold, dst, padded, column)
		if g.Op == Mean {
			lines := float32(g.Kernel[0] * g.Kernel[1])
			if g.Adaptive {
				lines = float32((d1 - d0) * (h1 - h0))
			}
			vec.Fill(column, lines)
			elementwise.On(s).Binary[elementwise.Mul](column, column, count)
			elementwise.On(s).Binary[elementwise.Div](dst, dst, column)
		}
	}
	sc.Release(mark)
}

// lineSize returns the number of elements of a line with its padding, as far as windows reach.
func (g *WindowArgs) lineSize() int {
	if g.Adaptive {
		return g.In[2] * g.Inner
	}
	return max(g.In[2]+g.Pad[2], (g.Out[2]-1)*g.Stride[2]+g.Kernel[2]) * g.Inner
}

// across reduces a padded line to dst, an element for each window. column is a buffer as long as dst.
func (g *windowLines) across(s *isa.Set, sc *pool.Scratch, fold func(dst, a, b []float32), dst, line,
	column []float32) {
	if g.Adaptive && g.Inner == 1 { // adaptive pooling is always a mean
		if On(s).Folds != nil && g.In[2]%g.Out[2] == 0 {
			wide := g.In[2] / g.Out[2]
			On(s).Folds.Each[Sum](&dst[0], &line[0], wide, wide, g.Out[2])
			return
		}
		for i := range dst {
			w0, w1 := g.window(2, i)
			dst[i] = On(s).Sum(line[w0:w1])
		}
		return
	}
	if g.Adaptive || g.Inner > 1 && g.Stride[2] > 1 {
		for i := range g.Out[2] {
			w0, n := i*g.Stride[2], g.Kernel[2]
			if g.Adaptive {
				lo, hi := g.window(2, i)
				w0, n = lo, hi-lo
			}
			to := dst[i*g.Inner:][:g.Inner]
			copy(to, line[w0*g.Inner:])
			for k := 1; k < n; k++ {
				fold(to, to, line[(w0+k)*g.Inner:][:g.Inner])
			}
		}
		return
	}
	if g.halves() {
		g.halve(s, sc, fold, dst, line)
		return
	}
	step := g.Stride[2]
	for i := range sc.Index {
		sc.Index[i] = int32(i * step)
	}
	whole := len(dst) / s.Lanes
	for k := range g.Kernel[2] {
		from := line[k*g.Inner:]
		if step > 1 {
			to := column
			if k == 0 {
				to = dst
			}
			if step == 2 {
				vec.On(s).Evens(to, from)
			} else {
				vec.On(s).GatherRows(to, s.Lanes, from, s.Lanes*step, whole, sc.Index[:])
				for i := whole * s.Lanes; i < len(dst); i++ {
					to[i] = from[i*step]
				}
			}
			from = to
		}
		switch {
		case k > 0:
			fold(dst, dst, from[:len(dst)])
		case step == 1:
			copy(dst, from)
		}
	}
}

// halves reports whether windows along a line are adjacent and of 4, 8, 16 ... elements, so that folding neighbours
// again and again gives the result.
func (g *WindowArgs) halves() bool {
	step := g.Stride[2]
	return !g.Adaptive && g.Inner == 1 && step == g.Kernel[2] && step >= 4 && step&(step-1) == 0
}

// halve is across for such windows.
func (g *windowLines) halve(s *isa.Set, sc *pool.Scratch, fold func(dst, a, b []float32), dst, line []float32) {
	n := len(dst) * g.Stride[2] / 2
	mark := sc.Mark()
	evens, odds := sc.Floats(n), sc.Floats(n)
	for from := line[:2*n]; n >= len(dst); n /= 2 {
		to := evens[:n]
		vec.On(s).Evens(odds[:n], from[1:])
		vec.On(s).Evens(to, from) // may be in place
		if n == len(dst) {
			fold(dst, to, odds[:n])
			break
		}
		fold(to, to, odds[:n])
		from = to
	}
	sc.Release(mark)
}

// ScratchSize returns what Windows needs for float32.
func (g *WindowArgs) ScratchSize(p *pool.Pool) pool.Size {
	if g.global() {
		return Scratch(g.Outer * elementwise.Volume(g.In))
	}
	if g.even() && On(p.Set).Folds != nil {
		return pool.Size{Worker: pool.FloatBytes(g.evenLines()*g.In[2], g.evenLines()*g.Out[2])}
	}
	made := g.Out[2] * g.Inner
	r := pool.Size{Worker: pool.FloatBytes(g.lineSize(), made, made)}
	if g.halves() {
		r.Worker += pool.FloatBytes(made*g.Stride[2]/2, made*g.Stride[2]/2)
	}
	if g.inPlanes() {
		r.Worker = max(r.Worker, g.planeScratch())
	}
	return r
}
