// Package conv computes convolutions, of floats and of 8-bit integers.
package conv

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// Args describes a convolution (cross-correlation) or its transpose, with symmetric zero padding. Triples are
// depth, height and width. A convolution of fewer axes leaves out the first ones: there sizes are 1 and paddings 0.
type Args struct {
	Transposed         bool
	N, Cin, Cout       int
	In, Kernel, Stride [3]int
	Pad, Dilation      [3]int
	OutputPad          [3]int // for the transpose
	Groups             int

	X        []float32 // [N, In, Cin] if Last, else [N, Cin, In]
	Last     bool
	Weight   stored.Values // [Cout, Cin/Groups, Kernel]; for the transpose [Cin, Cout/Groups, Kernel]
	Bias     []float32     // [Cout], or nil
	Out      []float32     // laid out as X; must not overlap it
	Epilogue               // not for the transpose

	Packed *Packed // keeps packed weights for the next call; nil if the next call may have other weights
}

// OutSize returns the size of the result along the spatial axes.
func (g *Args) OutSize() (out [3]int) {
	for i := range out {
		covers := g.Dilation[i] * (g.Kernel[i] - 1)
		if g.Transposed {
			out[i] = (g.In[i]-1)*g.Stride[i] + g.OutputPad[i] + covers - 2*g.Pad[i] + 1
		} else {
			out[i] = (g.In[i]+2*g.Pad[i]-covers-1)/g.Stride[i] + 1
		}
	}
	return out
}

// Convolve computes a convolution as matrix products. Each task gathers the elements of x that it multiplies. If every
// group has one input channel, Convolve adds up shifted images instead, tap by tap.
func Convolve(p *pool.Pool, g *Args) {
	c := pool.Keep[convolution](p)
	c.Args, c.p = *g, p
	if c.byImage() { // checked first, since each worker makes the lists of its own convolution
		c.images()
		return
	}
	c.begin()
	p.Bad.Store(0)
	if elementwise.Volume(c.In) > math.MaxInt32 {
		p.Bad.Store(1) // vec.Routines.gatherRows takes 32-bit indices
	}
	switch {
	case p.Bad.Load() != 0:
	case elementwise.Volume(c.out)*c.N*c.Cout == 0:
	case elementwise.Volume(c.In)*c.Cin == 0: // only padding
		p.Share(c.N*c.Cout, 1, (*convBias)(c))
		c.late = true
	case c.channelsLast():
		if c.byWinogradLast() && c.winogradLast() {
			return
		}
		c.lastConv()
	case c.Last && c.plain():
		c.plainProduct()
	case c.Last && c.disjoint():
		c.spread()
	case c.byChannel() && c.byPixel():
		c.pixels()
	case c.byChannel():
		c.channels()
	case c.mixed():
		c.mixes()
	case c.inPatches():
		c.patches()
	case c.Packed != nil && c.byWinograd():
		c.winograd()
		return
	default:
		c.direct()
	}
	if p.Bad.Load() != 0 { // a weight is not finite, and multiplying the padding by it would give NaN
		p.Share(c.N*c.Cout, 1, (*convDefinition)(c))
		c.rest, c.late = c.Epilogue, true
	}
	if c.late {
		c.finishAll()
	}
}

// plainProduct computes a convolution with channels last and one tap, which is a product of x as it is stored.
func (g *convolution) plainProduct() {
	g.product = product.GemmArgs{M: g.N * elementwise.Volume(g.In), N: g.Cout, K: g.Cin, A: g.X, LDA: g.Cin,
		B: g.Weight, LDB: g.Cin,
		TransB: true,
		C:      g.Out, LDC: g.Cout, Bias: g.Bias}
	g.late = g.Addend != nil
	if !g.late {
		g.product.Act, g.product.Residual, g.product.LDR = g.Act, g.Residual, g.Cout
	}
	product.Gemm(g.p, &g.product)
}

// direct computes the convolution as products of weights and of what they read of x.
func (g *convolution) direct() {
	switch {
	case g.few():
		g.fewRows()
	case g.merged():
		g.mergedColumns()
	case g.banded():
		g.bands()
	default:
		g.products()
	}
}

// convolution is the state of a call of Conv. Its slices are kept for the next call.
type convolution struct {
	Args
	p      *pool.Pool
	out    [3]int
	cg, og int    // input and output channels of a group
	step   [3]int // distance in x from an element of a phase to the next
	phases []phase
	taps   []tap // of all phases, one after the other

	// The phase being computed, its taps, and its weights [Cout, k] in the order in which x is gathered.
	phase
	phaseTaps []tap
	weights   []float32
	packed    []float32
	integers  bool      // see ConvolveIntegers
	left      []float32 // packed weights; nil if each block of them is packed where it is used
	right     []float32
	panels    int // panels of a group
	firstRow  int // see packAll
	rowsNow   int
	byRows    bool
	room      int
	each      []product.GemmArgs // by group
	wide      int                // pixels of a task
	across    int                // tasks of an image
	chunks    int                // tasks that the channels of a group are divided into

	product          product.GemmArgs
	patch, bias, row []float32 // for products of disjoint patches

	// What bands copy of x; see reach and band.
	grid, low, span [3]int
	// depths that taps read, and their distance; maximum number of products for an element of a phase
	planes, apart, deep int
	band                band
	fill                float32      // the value of padding
	at                  []int        // where each tap of a band begins to read
	places              []int        // see listInside
	biases              []float32    // of whole vectors of channels, for tiny images
	masks               [3][]float32 // see alongLines
	tapped              []tapLine    // lines of the result; see pixels

	last lastState

	rest Epilogue // what is applied to the result, by tasks or, if late is set, after all of them
	late bool
}

// A phase is a set of elements of the result that are computed from the same taps of the kernel: the elements start +
// i*every, i < count. A convolution has one phase. A transposed convolution has one for each remainder of the position
// by the stride, as far as there are taps.
type phase struct {
	start, every, count [3]int
	first, end          int // taps[first:end]
	k                   int // products for an element

	most, like int // for bands: the largest value of at; the first phase that reads the same elements of x
}

// A tap is an element of the kernel. For element i of a phase, it multiplies the input's element i*step + at.
type tap struct {
	at    [3]int
	place int // index in the kernel
}

// places returns the strides of an array of the given size.
func places(size [3]int) [3]int { return [3]int{size[1] * size[2], size[2], 1} }

// begin checks the arguments and lists the phases.
func (g *convolution) begin() {
	g.out = g.OutSize()
	if g.Groups < 1 || g.Cin%g.Groups != 0 || g.Cout%g.Groups != 0 || len(g.X) < g.N*elementwise.Volume(g.In)*g.Cin ||
		len(g.Out) < g.N*elementwise.Volume(g.out)*g.Cout ||
		g.Weight.Len() < g.Cin*g.Cout/g.Groups*elementwise.Volume(g.Kernel) || g.Bias != nil && len(g.Bias) < g.Cout {
		panic(
			fmt.Sprintf("BUG: convolution of %d x %v, %d channels to %d in %d groups", g.N, g.In, g.Cin, g.Cout,
				g.Groups))
	}
	for _, x := range [2][]float32{g.Addend, g.Residual} {
		if x != nil && len(x) < g.N*elementwise.Volume(g.out)*g.Cout {
			panic("BUG: convolution: an operand of its epilogue is short")
		}
	}
	if g.Transposed && g.any() {
		panic("BUG: a transposed convolution has no epilogue")
	}
	g.startEpilogue()
	g.cg, g.og = g.Cin/g.Groups, g.Cout/g.Groups
	g.list()
}

// list lists the phases with their taps.
func (g *convolution) list() {
	if !g.Transposed && g.plain() { // the shape of the image does not matter
		g.In, g.out = [3]int{1, 1, elementwise.Volume(g.In)}, [3]int{1, 1, elementwise.Volume(g.In)}
	}
	g.reach()
	if g.taps == nil { // whole cache lines, so that no worker writes to those of another with images of its own
		g.taps, g.phases, g.at = make([]tap, 0, 32), make([]phase, 0, 4), make([]int, 0, 32)
		g.tapped, g.places = make([]tapLine, 0, 64), make([]int, 0, 32)
	}
	g.phases, g.taps = g.phases[:0], g.taps[:0]
	var every, classes [3]int
	for i := range 3 {
		every[i], classes[i] = 1, 1
		if g.Transposed {
			every[i], classes[i] = g.Stride[i], g.classes(i)
		}
	}
	for a := range classes[0] {
		for b := range classes[1] {
			for c := range classes[2] {
				g.addPhase([3]int{a, b, c}, classes, every)
			}
		}
	}
}

// classes returns the number of phases of a transpose along an axis. Taps whose indices differ by a multiple of it are
// in the same phase.
func (g *convolution) classes(i int) int {
	return min(g.Kernel[i], g.Stride[i]/gcd(g.Stride[i], g.Dilation[i]))
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// addPhase adds the phase of every classes-th tap from first on.
func (g *convolution) addPhase(first, classes, every [3]int) {
	f := phase{every: every, first: len(g.taps)}
	for i := range 3 {
		if g.Transposed {
			f.start[i] = ((first[i]*g.Dilation[i]-g.Pad[i])%every[i] + every[i]) % every[i]
		}
		if f.count[i] = (g.out[i] - f.start[i] + every[i] - 1) / every[i]; f.count[i] <= 0 {
			return
		}
	}
	for a := first[0]; a < g.Kernel[0]; a += classes[0] {
		for b := first[1]; b < g.Kernel[1]; b += classes[1] {
			for c := first[2]; c < g.Kernel[2]; c += classes[2] {
				t := tap{place: (a*g.Kernel[1]+b)*g.Kernel[2] + c}
				for i, k := range [3]int{a, b, c} {
					if g.Transposed {
						t.at[i] = (f.start[i] + g.Pad[i] - k*g.Dilation[i]) / every[i]
					} else {
						t.at[i] = k*g.Dilation[i] - g.Pad[i]
					}
				}
				g.taps = append(g.taps, t)
			}
		}
	}
	f.end = len(g.taps)
	f.k = g.cg * (f.end - f.first)
	g.phases = append(g.phases, f)
}

// plain reports whether the convolution is a matrix product of x as it is stored.
func (g *convolution) plain() bool {
	return elementwise.Volume(g.Kernel) == 1 && g.Stride == [3]int{1, 1,
		1} && g.Pad == [3]int{} && !(g.Last && g.Groups > 1) &&
		!g.Transposed
}

// padded reports whether some taps may fall outside of x.
func (g *convolution) padded() bool { return g.Transposed || g.Pad != [3]int{} }

// check sets bad if a weight is infinite or NaN and there is padding. Padding is computed as 0 times the weight, which
// would be NaN.
func (g *convolution) check(weights []float32) {
	if g.padded() && !reduce.AllFinite(g.p.Set, weights) {
		g.p.Bad.Store(1)
	}
}

// prefill sets the result to the bias if some elements have no taps.
func (g *convolution) prefill() {
	met := 0
	for _, f := range g.phases {
		met += elementwise.Volume(f.count)
	}
	if met < elementwise.Volume(g.out) {
		g.p.Share(g.N*g.Cout, 1+pool.Grain/elementwise.Volume(g.out), (*convBias)(g))
	}
}

// products computes each phase as a matrix product.
func (g *convolution) products() {
	p := g.p
	g.prefill()
	for i := range g.phases {
		g.phase = g.phases[i]
		g.phaseTaps = g.taps[g.first:g.end]
		p.Shared.Reset()
		if g.Last {
			g.order()
			g.rows()
		} else {
			g.columns()
		}
		if p.Bad.Load() != 0 {
			return
		}
	}
}

// order arranges the weights of the phase as a matrix [Cout, k]. With channels first, k is [channels, taps], else
// [taps, channels]. With channels first there is one phase, since bands computes the transposes.
func (g *convolution) order() {
	if taps := elementwise.Volume(g.Kernel); g.Weight.Floats != nil && !g.Transposed && (!g.Last || taps == 1) {
		g.weights = g.Weight.Floats
		return
	}
	g.weights = g.p.Shared.Floats(g.Cout * g.k)
	g.p.Share(g.Cout, 1+pool.Grain/max(1, g.k), (*convOrder)(g))
}

type convOrder convolution

func (x *convOrder) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	s, cg, n, taps := g.p.Set, g.cg, len(g.phaseTaps), elementwise.Volume(g.Kernel)
	row := g.p.Scratch(worker).Floats(taps)
	for o := lo; o < hi; o++ {
		dst := g.weights[o*g.k : (o+1)*g.k]
		for c := range cg {
			w := g.Weight.Row(s, g.weightAt(o, c), taps, row)
			if g.Last {
				for t := range g.phaseTaps {
					dst[t*cg+c] = w[g.phaseTaps[t].place]
				}
			} else {
				for t := range g.phaseTaps {
					dst[c*n+t] = w[g.phaseTaps[t].place]
				}
			}
		}
	}
}

// pixel returns the index of element m of the phase.
func (f *phase) pixel(m int) [3]int {
	return [3]int{m / (f.count[1] * f.count[2]), m / f.count[2] % f.count[1], m % f.count[2]}
}

// resultPixel returns the position of element m of the phase among the pixels of a result of the given size.
func (f *phase) resultPixel(m int, size [3]int) int {
	at := f.pixel(m)
	for i := range at {
		at[i] = f.start[i] + at[i]*f.every[i]
	}
	return dot3(at, places(size))
}

func dot3(at, strides [3]int) int { return at[0]*strides[0] + at[1]*strides[1] + at[2]*strides[2] }

// whole reports whether the phase is the whole result.
func (g *convolution) whole() bool { return g.every == [3]int{1, 1, 1} }

// source returns the index in x that a tap reads for element at of a phase, and whether it is inside x.
func (g *convolution) source(at [3]int, t *tap) (from [3]int, inside bool) {
	inside = true
	for i := range from {
		from[i] = at[i]*g.step[i] + t.at[i]
		inside = inside && from[i] >= 0 && from[i] < g.In[i]
	}
	return from, inside
}

// strides returns the distances from image to image, channel to channel and pixel to pixel.
func (g *convolution) strides(size [3]int, channels int) (image, channel, pixel int) {
	n := elementwise.Volume(size)
	if g.Last {
		return n * channels, 1, channels
	}
	return n * channels, n, 1
}

// convBias fills channels of the result with the bias.
type convBias convolution

func (x *convBias) Do(lo, hi, _ int) {
	g := (*convolution)(x)
	image, channel, pixel := g.strides(g.out, g.Cout)
	for t := lo; t < hi; t++ {
		var v float32
		if g.Bias != nil {
			v = g.Bias[t%g.Cout]
		}
		for i, at := 0, t/g.Cout*image+t%g.Cout*channel; i < elementwise.Volume(g.out); i, at = i+1, at+pixel {
			g.Out[at] = v
		}
	}
}

// convDefinition computes channels of the result slowly, by the definition. It is for weights that are not finite.
type convDefinition convolution

func (x *convDefinition) Do(lo, hi, worker int) {
	(*convBias)(x).Do(lo, hi, worker)
	g := (*convolution)(x)
	s, taps := g.p.Set, elementwise.Volume(g.Kernel)
	row := g.p.Scratch(worker).Floats(taps)
	fromImage, fromChannel, fromPixel := g.strides(g.In, g.Cin)
	image, channel, pixel := g.strides(g.out, g.Cout)
	for t := lo; t < hi; t++ {
		n, o := t/g.Cout, t%g.Cout
		for i := range g.phases {
			f := &g.phases[i]
			for m := range elementwise.Volume(f.count) {
				sum, at := 0.0, f.pixel(m)
				if g.Bias != nil {
					sum = float64(g.Bias[o])
				}
				for c := range g.cg {
					weights := g.Weight.Row(s, g.weightAt(o, c), taps, row)
					for k := f.first; k < f.end; k++ {
						if from, inside := g.source(at, &g.taps[k]); inside {
							x := g.X[n*fromImage+(o/g.og*g.cg+c)*fromChannel+dot3(from, places(g.In))*fromPixel]
							sum += float64(weights[g.taps[k].place]) * float64(x)
						}
					}
				}
				g.Out[n*image+o*channel+f.resultPixel(m, g.out)*pixel] = float32(sum)
			}
		}
	}
}

// weightAt returns the index in Weight of the kernel for output channel o and channel c of its group.
func (g *convolution) weightAt(o, c int) int {
	if g.Transposed {
		return ((o/g.og*g.cg+c)*g.og + o%g.og) * elementwise.Volume(g.Kernel)
	}
	return (o*g.cg + c) * elementwise.Volume(g.Kernel)
}
