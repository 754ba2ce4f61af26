package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/quad"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// ConvolveIntegers describes a convolution of 8-bit integers with channels first. Let acc be the convolution of X -
// XZero by W - WZero, plus Bias. The result is acc * Mult + YZero, rounded and limited as in QGemm. Padding has the
// value XZero.
type ConvolveIntegers[T int8 | uint8] struct {
	Size    Args // not transposed, not Last; its slices are nil
	X, Dst  []T
	W       []uint8
	WSigned bool

	Mult []float32 // [1] or [Cout]
	Bias []int32   // [Cout], or nil

	XZero, WZero, YZero int

	Keep *Kept
}

// Kept holds what ConvolveIntegers keeps between calls.
type Kept struct {
	Fixed  bool      // W is the same in every call
	packed []float32 // packed weights
	sum    []int32   // the sum of the weights of each output channel, as they are stored
	ones   []float32 // a row of weights 1, to sum the elements of X that a result reads
	tasks  any
}

// qconv is the state of a call of Run. It views the image as one of 32-bit elements, the units of quad.Product: a
// unit holds up to four channels. So it shares the code of convolution, except for the products.
type qconv[T int8 | uint8] struct {
	convolution
	ConvolveIntegers[T]
	by          *quad.Product
	left, right quad.Operand // weights, image
	to          quad.Requantizing
	channels    int // input channels of a group
	taps        int
}

// Run computes the convolution.
func (q *ConvolveIntegers[T]) Run(p *pool.Pool) {
	x, ok := q.Keep.tasks.(*qconv[T])
	if !ok {
		x = new(qconv[T])
		q.Keep.tasks = x
	}
	x.ConvolveIntegers, x.Args, x.p, x.by, x.to = *q, q.Size, p, &quad.On(p.Set).Quads[1],
		quad.RequantizingTo(quad.Signed[T](), q.YZero)
	x.integers = true
	x.out = x.OutSize()
	if elementwise.Volume(x.out)*x.N*x.Cout == 0 {
		return
	}
	x.left, x.right = x.by.Operands(quad.Operand{Signed: q.WSigned, Zero: q.WZero},
		quad.Operand{Signed: quad.Signed[T](), Zero: q.XZero})
	x.channels, x.og, x.taps = q.Size.Cin/x.Groups, x.Cout/x.Groups, elementwise.Volume(x.Kernel)
	x.cg = x.by.Units(x.channels)
	x.Cin, x.fill = x.cg*x.Groups, x.by.Word(x.right)
	x.list()
	x.deep = x.by.Depth(x.deep)
	p.Shared.Reset()
	plane := elementwise.Volume(x.In)
	x.Args.X = p.Shared.Floats(x.N * x.Cin * plane)
	p.Share(x.N*x.Cin, 1+pool.Grain/max(1, plane), (*qconvImage[T])(x))
	k := q.Keep
	if depth := x.deep; !k.Fixed || len(k.sum) != x.Cout {
		k.packed, k.ones, k.sum = pool.Sized(k.packed, x.Groups*x.groupSize()+x.by.MR*depth),
			pool.Sized(k.ones, x.by.MR*depth), pool.Sized(k.sum, x.Cout)
		p.Share(x.Groups, 1, (*qconvWeights[T])(x))
	}
	x.cut()
	for x.phases[0].k = x.deep; len(x.at) < x.deep; { // padded to whole steps of the product, with weights 0
		x.at = append(x.at, 0)
	}
	p.Each(x.N*x.Groups*x.band.tasks(&x.convolution)*x.chunks, 1, x)
}

// groupSize returns the distance between the packed weights of two groups.
func (g *convolution) groupSize() int { return g.og*g.deep + product.Spill }

// QConvScratch returns what ConvolveIntegers.Run needs.
func (g *Args) QConvScratch(p *pool.Pool) pool.Size {
	s := p.Set
	c := convolution{Args: *g, p: p, og: g.Cout / g.Groups, out: g.OutSize(), integers: true}
	c.cg = quad.On(s).Quads[1].Units(g.Cin / g.Groups)
	c.reach()
	by := &quad.On(s).Quads[1]
	c.deep = by.Depth(c.deep)
	most := c.mostColumns()
	return pool.Size{
		Shared: pool.FloatBytes(g.N * c.cg * g.Groups * elementwise.Volume(g.In)),
		Worker: max(c.productScratch()+pool.FloatBytes(most, most, most, by.MR*most, by.MR*product.On(s).NR),
			pool.FloatBytes(by.MR*c.deep)),
		Other: pool.FloatBytes(g.Groups*c.groupSize()+by.MR*c.deep, by.MR*c.deep) + pool.SizeOf[int32](g.Cout) +
			pool.SizeOf[int](c.deep) + pool.SizeOf[tap](elementwise.Volume(g.Kernel)),
	}
}

// qconvImage converts planes of X to units.
type qconvImage[T int8 | uint8] qconv[T]

func (x *qconvImage[T]) Do(lo, hi, _ int) {
	plane, src := elementwise.Volume(x.In), pool.BytesOf(x.ConvolveIntegers.X)
	for t := lo; t < hi; t++ {
		first := t % x.cg * x.by.Unit
		n := min(x.by.Unit, x.channels-first)
		from := src[(t/x.cg*x.channels+first)*plane:][:n*plane]
		x.by.PutPlanes(x.Args.X[t*plane:(t+1)*plane], from, n, x.right)
	}
}

// qconvWeights packs the weights of groups.
type qconvWeights[T int8 | uint8] qconv[T]

func (x *qconvWeights[T]) Do(lo, hi, worker int) {
	s, sc, k, by, depth := x.p.Set, x.p.Scratch(worker), x.Keep, x.by, x.deep
	mark := sc.Mark()
	rows := sc.Floats(by.MR * depth)
	clear(rows)
	for t := lo; t < hi; t++ {
		packed := k.packed[t*(*qconv[T])(x).groupSize():]
		for r := 0; r < x.og; r += by.MR {
			h := min(by.MR, x.og-r)
			for i := range h {
				o, sum := t*x.og+r+i, int32(0)
				for c := range x.cg {
					n := min(by.Unit, x.channels-c*by.Unit)
					for l := range x.taps {
						sum += by.Put(rows[i*depth+c*x.taps+l:][:1], x.W[(o*x.channels+c*by.Unit)*x.taps+l:], n, x.taps,
							x.left)
					}
				}
				k.sum[o] = sum
			}
			by.Pack(s, packed[r*depth:], rows, h, depth)
		}
	}
	if lo == 0 {
		one := [4]uint8{1, 1, 1, 1}
		clear(k.ones)
		for c := range x.cg {
			for l := range x.taps {
				by.Put(k.ones[c*x.taps+l:][:1], one[:], min(by.Unit, x.channels-c*by.Unit), 1, quad.Operand{})
			}
		}
	}
	sc.Release(mark)
}

func (x *qconv[T]) Do(lo, hi, worker int) {
	for t := lo; t < hi; t++ {
		x.task(t, worker)
	}
}

// task computes the part of the result of task t; see bandPart.
func (x *qconv[T]) task(t, worker int) {
	s, sc, g, by, k := x.p.Set, x.p.Scratch(worker), &x.convolution, x.by, x.Keep
	nr := product.On(s).NR
	mark := sc.Mark()
	y, f := g.part(t), &g.phases[0]
	panels := y.panels
	seen := g.copyInput(&y, sc)
	right := sc.Floats(panels*nr*f.k + product.Spill)
	g.packBand(right, seen, f, &y, max(1, f.k))
	ldc := y.ldc
	acc, add, mult, tmp := sc.Ints(by.MR*ldc), sc.Ints(ldc), sc.Floats(ldc), sc.Floats(by.MR*nr)
	row := quad.StoredBytes(sc.Floats(ldc / 4))
	if clear(add); x.left.Zero != 0 {
		by.Multiply(1, f.k, k.ones, right, acc, ldc, panels, tmp)
		for i, sum := range acc[:ldc] {
			add[i] = -int32(x.left.Zero) * sum
		}
	}
	vec.Fill(mult, x.Mult[0])
	to, dst := x.to, pool.BytesOf(x.Dst)
	whole := g.band.line == g.out[2]
	for r := y.first; r < y.end; r += by.MR {
		h, o := min(by.MR, y.end-r), y.group*x.og+r
		by.Multiply(h, f.k, k.packed[y.group*x.groupSize()+r*f.k:], right, acc, ldc, panels, tmp)
		for i := range h {
			to.Base = int32(x.channels*x.taps*x.left.Zero*x.right.Zero) - int32(x.right.Zero)*k.sum[o+i]
			if x.ConvolveIntegers.Bias != nil {
				to.Base += x.ConvolveIntegers.Bias[o+i]
			}
			if len(x.Mult) > 1 {
				vec.Fill(mult, x.Mult[o+i])
			}
			image := dst[(y.n*x.Cout+o+i)*elementwise.Volume(g.out)+dot3(y.at, places(g.out)):]
			if whole {
				quad.On(s).Requantize(image[:y.cols], acc[i*ldc:], add, mult, &to)
				continue
			}
			quad.On(s).Requantize(row[:y.cols], acc[i*ldc:], add, mult, &to)
			for line := range y.high {
				copy(image[line*g.out[2]:][:y.wide], row[line*g.band.line:])
			}
		}
	}
	sc.Release(mark)
}
