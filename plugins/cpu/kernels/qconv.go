package kernels

// QConv describes a convolution of 8-bit integers with channels first. Let acc be the convolution of X - XZero by W -
// WZero, plus Bias. The result is acc * Mult + YZero, rounded and limited as in QGemm. Padding has the value XZero.
type QConv[T int8 | uint8] struct {
	Size    ConvArgs // not transposed, not Last; its slices are nil
	X, Dst  []T
	W       []uint8
	WSigned bool

	Mult []float32 // [1] or [Cout]
	Bias []int32   // [Cout], or nil

	XZero, WZero, YZero int

	Keep *QConvKept
}

// QConvKept holds what QConv keeps between calls.
type QConvKept struct {
	Fixed  bool      // W is the same in every call
	packed []float32 // packed weights
	sum    []int32   // the sum of the weights of each output channel, as they are stored
	ones   []float32 // a row of weights 1, to sum the elements of X that a result reads
	tasks  any
}

// qconv is the state of a call of Run. It views the image as one of 32-bit elements, the units of integerProduct: a
// unit holds up to four channels. So it shares the code of convolution, except for the products.
type qconv[T int8 | uint8] struct {
	convolution
	QConv[T]
	by          *integerProduct
	left, right integerOperand // weights, image
	to          requantizing
	channels    int // input channels of a group
	taps        int
}

// Run computes the convolution.
func (q *QConv[T]) Run(p *Pool) {
	x, ok := q.Keep.tasks.(*qconv[T])
	if !ok {
		x = new(qconv[T])
		q.Keep.tasks = x
	}
	x.QConv, x.ConvArgs, x.p, x.by, x.to = *q, q.Size, p, &quadOn(p.Set).quads[1], requantizingTo(signed[T](), q.YZero)
	x.out = x.OutSize()
	if volume(x.out)*x.N*x.Cout == 0 {
		return
	}
	x.left, x.right = x.by.operands(integerOperand{signed: q.WSigned, zero: q.WZero},
		integerOperand{signed: signed[T](), zero: q.XZero})
	x.channels, x.og, x.taps = q.Size.Cin/x.Groups, x.Cout/x.Groups, volume(x.Kernel)
	x.cg = x.by.units(x.channels)
	x.Cin, x.fill = x.cg*x.Groups, x.by.word(x.right)
	x.list()
	x.deep = x.by.depth(x.deep)
	p.shared.reset()
	plane := volume(x.In)
	x.ConvArgs.X = p.shared.floats(x.N * x.Cin * plane)
	p.share(x.N*x.Cin, 1+elementGrain/max(1, plane), (*qconvImage[T])(x))
	k := q.Keep
	if depth := x.deep; !k.Fixed || len(k.sum) != x.Cout {
		k.packed, k.ones, k.sum = sized(k.packed, x.Groups*x.groupSize()+x.by.mr*depth),
			sized(k.ones, x.by.mr*depth), sized(k.sum, x.Cout)
		p.share(x.Groups, 1, (*qconvWeights[T])(x))
	}
	x.cut()
	for x.phases[0].k = x.deep; len(x.at) < x.deep; { // padded to whole steps of the product, with weights 0
		x.at = append(x.at, 0)
	}
	p.each(x.N*x.Groups*x.band.tasks(&x.convolution)*x.chunks, 1, x)
}

// groupSize returns the distance between the packed weights of two groups.
func (g *convolution) groupSize() int { return g.og*g.deep + spill }

// QConvScratch returns what QConv.Run needs.
func (g *ConvArgs) QConvScratch(p *Pool) ScratchSize {
	s := p.Set
	c := convolution{ConvArgs: *g, p: p, og: g.Cout / g.Groups, out: g.OutSize()}
	c.cg = quadOn(s).quads[1].units(g.Cin / g.Groups)
	c.reach()
	by := &quadOn(s).quads[1]
	c.deep = by.depth(c.deep)
	most := c.mostColumns()
	return ScratchSize{
		Shared: floats(g.N * c.cg * g.Groups * volume(g.In)),
		Worker: max(c.productScratch()+floats(most, most, most, by.mr*most, by.mr*productOn(s).nr), floats(by.mr*c.deep)),
		Other: floats(g.Groups*c.groupSize()+by.mr*c.deep, by.mr*c.deep) + sizeOf[int32](g.Cout) +
			sizeOf[int](c.deep) + sizeOf[tap](volume(g.Kernel)),
	}
}

// qconvImage converts planes of X to units.
type qconvImage[T int8 | uint8] qconv[T]

func (x *qconvImage[T]) do(lo, hi, _ int) {
	plane, src := volume(x.In), bytesOf(x.QConv.X)
	for t := lo; t < hi; t++ {
		first := t % x.cg * x.by.unit
		n := min(x.by.unit, x.channels-first)
		from := src[(t/x.cg*x.channels+first)*plane:][:n*plane]
		x.by.putPlanes(x.ConvArgs.X[t*plane:(t+1)*plane], from, n, x.right)
	}
}

// qconvWeights packs the weights of groups.
type qconvWeights[T int8 | uint8] qconv[T]

func (x *qconvWeights[T]) do(lo, hi, worker int) {
	s, sc, k, by, depth := x.p.Set, x.p.scratch(worker), x.Keep, x.by, x.deep
	mark := sc.mark()
	rows := sc.floats(by.mr * depth)
	clear(rows)
	for t := lo; t < hi; t++ {
		packed := k.packed[t*(*qconv[T])(x).groupSize():]
		for r := 0; r < x.og; r += by.mr {
			h := min(by.mr, x.og-r)
			for i := range h {
				o, sum := t*x.og+r+i, int32(0)
				for c := range x.cg {
					n := min(by.unit, x.channels-c*by.unit)
					for l := range x.taps {
						sum += by.put(rows[i*depth+c*x.taps+l:][:1], x.W[(o*x.channels+c*by.unit)*x.taps+l:], n, x.taps,
							x.left)
					}
				}
				k.sum[o] = sum
			}
			by.pack(s, packed[r*depth:], rows, h, depth)
		}
	}
	if lo == 0 {
		one := [4]uint8{1, 1, 1, 1}
		clear(k.ones)
		for c := range x.cg {
			for l := range x.taps {
				by.put(k.ones[c*x.taps+l:][:1], one[:], min(by.unit, x.channels-c*by.unit), 1, integerOperand{})
			}
		}
	}
	sc.release(mark)
}

func (x *qconv[T]) do(lo, hi, worker int) {
	for t := lo; t < hi; t++ {
		x.task(t, worker)
	}
}

// task computes the part of the result of task t; see bandPart.
func (x *qconv[T]) task(t, worker int) {
	s, sc, g, by, k := x.p.Set, x.p.scratch(worker), &x.convolution, x.by, x.Keep
	mark := sc.mark()
	y, f := g.part(t), &g.phases[0]
	panels := (y.cols + productOn(s).nr - 1) / productOn(s).nr
	seen := g.copyInput(&y, sc)
	right := sc.floats(panels*productOn(s).nr*f.k + spill)
	g.packBand(right, seen, f, y.cols, panels, max(1, f.k))
	ldc := panels * productOn(s).nr
	acc, add, mult, tmp := sc.ints(by.mr*ldc), sc.ints(ldc), sc.floats(ldc), sc.floats(by.mr*productOn(s).nr)
	row := storedBytes(sc.floats(ldc / 4))
	if clear(add); x.left.zero != 0 {
		by.multiply(1, f.k, k.ones, right, acc, ldc, panels, tmp)
		for i, sum := range acc[:ldc] {
			add[i] = -int32(x.left.zero) * sum
		}
	}
	fillWith(mult, x.Mult[0])
	to, dst := x.to, bytesOf(x.Dst)
	whole := g.band.line == g.out[2]
	for r := y.first; r < y.end; r += by.mr {
		h, o := min(by.mr, y.end-r), y.group*x.og+r
		by.multiply(h, f.k, k.packed[y.group*x.groupSize()+r*f.k:], right, acc, ldc, panels, tmp)
		for i := range h {
			to.base = int32(x.channels*x.taps*x.left.zero*x.right.zero) - int32(x.right.zero)*k.sum[o+i]
			if x.QConv.Bias != nil {
				to.base += x.QConv.Bias[o+i]
			}
			if len(x.Mult) > 1 {
				fillWith(mult, x.Mult[o+i])
			}
			image := dst[(y.n*x.Cout+o+i)*volume(g.out)+dot3(y.at, places(g.out)):]
			if whole {
				quadOn(s).requantize(image[:y.cols], acc[i*ldc:], add, mult, &to)
				continue
			}
			quadOn(s).requantize(row[:y.cols], acc[i*ldc:], add, mult, &to)
			for line := range y.high {
				copy(image[line*g.out[2]:][:y.wide], row[line*g.band.line:])
			}
		}
	}
	sc.release(mark)
}
