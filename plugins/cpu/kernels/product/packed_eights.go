package product

import (
	"math"
	"unsafe"

	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Products of packed weights with rounded activations, eight rows at a time. Four weights of a column are broadcast and
// multiplied by four activations of each row, so weights need no transposition: 16 columns are unpacked into the
// first-level cache, as they lie, and multiplied by all rows. Activations are arranged once.

const (
	eightsRows   = 8
	eightsSide   = 16  // columns that are unpacked at a time
	eightsDepth  = 512 // values of k that are unpacked at a time
	eightsScales = 32  // room for the scales of a column
	eightsBatch  = 256 // rows that are rounded and multiplied at a time
)

// eightsFormat multiplies weights of an integerFormat. Results have the bits of integerFormat.multiply.
type eightsFormat struct {
	// unpack unpacks blocks of columns, stride bytes apart, to integers with the format's excess, see
	// integerFormat.nibbles, and to scales and lows. Integers of columns are stepQ bytes apart, scales stepScale.
	unpack   unpackAsm
	set      int  // the columns that multiply computes at a time
	pairs    bool // the correction for an excess has two int16 (see quadExcess), not one int32
	multiply eightsAsm
}

// eightsAsm sets C, of set*sets columns and eight rows, to the sum over groups of dx*dw*(a·b) - xs*low.
type eightsAsm = func(x *float32, w *int8, scale, c *float32, groups, sets int, ahead *byte, stride, step, resume int)

// unpackAsm unpacks blocks of columns.
type unpackAsm = func(q *int8, scale, low *float32, w *byte, blocks, columns, stride, stepQ, stepScale int)

// eightsRecord returns how many floats of memory the activations of a group and eight rows take: their integers,
// [group/4][8 rows][4], the scales of the rows, and for each row either the sum of its activations or the correction
// for an excess.
func (f integerFormat) eightsRecord() int { return 2*f.group + 2*eightsRows }

// eightsColumn returns the bytes from one column of unpacked integers to the next. It is no multiple of 512, so that
// columns do not share cache sets.
func (f integerFormat) eightsColumn() int { return eightsDepth*f.width() + 80 }

// multipliesEights reports whether multiplyEights computes the product.
func (g *GemmArgs) multipliesEights(s *isa.Set) bool {
	f := On(s).integerFormats[g.B.Kind]
	return f.eights.multiply != nil && g.M > f.dots && g.K > 0 && g.Precision == Float32
}

// multiplyEights computes a product that multipliesEights accepts.
func (x *rounding) multiplyEights(p *pool.Pool, g *GemmArgs) {
	f := On(p.Set).integerFormats[g.B.Kind]
	for m := 0; m < g.M; m += eightsBatch {
		one := *g
		one.M, one.A, one.C = min(eightsBatch, g.M-m), g.A[m*g.LDA:], g.C[m*g.LDC:]
		blocks := (one.M + eightsRows - 1) / eightsRows
		x.x = pool.Sized(x.x, blocks*g.K/f.group*f.eightsRecord())
		pool.Split(p, blocks, 1+pool.Grain/(eightsRows*g.K), eightsPacking{x, p, one, f})
		panels := (g.N + eightsSide - 1) / eightsSide
		pool.Split(p, panels, max(1, panels/(8*p.Threads())), eightsStrips{x, p, one, f})
	}
}

// eightsScratch returns the memory of a product of m rows of k values.
func (f integerFormat) eightsScratch(m, k int) pool.Size {
	blocks := (min(m, eightsBatch) + eightsRows - 1) / eightsRows
	strip := pool.FloatBytes(eightsSide*f.eightsColumn()/4, 2*eightsSide*eightsScales, blocks*eightsRows*eightsSide)
	return pool.Size{Other: pool.SizeOf[float32](blocks * k / f.group * f.eightsRecord()),
		Worker: max(strip, pool.FloatBytes(k/4, k/quant.Group, k/16))}
}

// eightsPacking rounds and arranges blocks of eight rows.
type eightsPacking struct {
	x *rounding
	p *pool.Pool
	g GemmArgs
	f integerFormat
}

func (x eightsPacking) Do(lo, hi, w int) {
	k, group, s, sc := x.g.K, x.f.group, x.p.Set, x.p.Scratch(w)
	q, scale, sums := int8sOf(sc.Floats(k/4)), sc.Floats(k/quant.Group), sc.Floats(k/16)
	record, groups := x.f.eightsRecord(), k/group
	for b := lo; b < hi; b++ {
		to := bitsOf(x.x.x[b*groups*record:][:groups*record])
		rows := min(eightsRows, x.g.M-b*eightsRows)
		if rows < eightsRows {
			clear(to)
		}
		for r := range rows {
			On(s).roundRow(q, scale, sums, x.g.A[(b*eightsRows+r)*x.g.LDA:][:k])
			for i := range groups {
				own := q[i*group:][:group]
				at := to[i*record:][:record]
				for j, quad := range quadsOf(own) {
					at[j*eightsRows+r] = uint32(quad)
				}
				sum, d := sums[i*group/16], scale[i*group/quant.Group]
				if group == 32 {
					sum += sums[2*i+1]
				}
				var last uint32
				switch {
				case x.f.lows:
					last = math.Float32bits(d * sum)
				case x.f.eights.pairs:
					last = uint32(quadExcess(own, x.f.excess))
				default:
					last = uint32(-int32(x.f.excess) * int32(sum))
				}
				at[2*group+r], at[2*group+eightsRows+r] = math.Float32bits(d), last
			}
		}
	}
}

// bitsOf returns the memory of x.
func bitsOf(x []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// eightsStrips multiplies all rows by panels of 16 columns.
type eightsStrips struct {
	x *rounding
	p *pool.Pool
	g GemmArgs
	f integerFormat
}

func (x eightsStrips) Do(lo, hi, w int) {
	const side, block = eightsSide, eightsRows * eightsSide
	g, f, sc := &x.g, x.f, x.p.Scratch(w)
	values, size := g.B.Kind.Values(), g.B.Kind.Size()
	stride, record := g.LDB/values*size, f.eightsRecord()
	blocks, groups := (g.M+eightsRows-1)/eightsRows, g.K/f.group
	q, scales := int8sOf(sc.Floats(side*f.eightsColumn()/4)), sc.Floats(2*side*eightsScales)
	acc := sc.Floats(blocks * block)
	for t := lo; t < hi; t++ {
		j := t * side
		cols := min(side, g.N-j)
		for from := 0; from < g.K; from += eightsDepth {
			depth := min(eightsDepth, g.K-from)
			own := g.B.Bytes[(g.B.Start+j*g.LDB+from)/values*size:]
			_ = own[(cols-1)*stride+depth/values*size-1]
			f.eights.unpack(&q[0], &scales[0], &scales[side*eightsScales], &own[0], depth/values, cols, stride,
				f.eightsColumn(), 4*eightsScales)
			next := eightsAhead{x.ahead(t, hi, from+depth), stride, (f.group*size + values - 1) / values}
			for b := range blocks {
				at := (b*groups + from/f.group) * record
				if b > 0 {
					next = f.eightsAhead(x.x.x, at+groups*record)
				}
				f.eights.multiply(&x.x.x[at], &q[0], &scales[0], &acc[b*block], depth/f.group,
					(cols+f.eights.set-1)/f.eights.set, next.from, next.stride, next.step, min(from, 1))
			}
		}
		for m := range g.M {
			from := acc[m/eightsRows*block+m%eightsRows:]
			to := g.C[m*g.LDC+j:][:cols]
			for i := range to {
				to[i] = from[i*eightsRows]
			}
		}
	}
}

// ahead returns the weights that panel t, or if k is at the end the next one, multiplies from value k on.
func (x *eightsStrips) ahead(t, end, k int) *byte {
	g := &x.g
	if k == g.K {
		t, k = t+1, 0
	}
	if t == end {
		return nil
	}
	return &g.B.Bytes[(g.B.Start+t*eightsSide*g.LDB+k)/g.B.Kind.Values()*g.B.Kind.Size()]
}

// eightsAhead says what eightsFormat.multiply prefetches: see the assembly.
type eightsAhead struct {
	from         *byte
	stride, step int
}

// eightsAhead returns the activations of eight rows, from index `at` on. They are in the second-level cache.
func (f integerFormat) eightsAhead(x []float32, at int) eightsAhead {
	const line = 64
	switch {
	case at >= len(x): // these were the last
		return eightsAhead{}
	case f.eights.set == eightsRows:
		return eightsAhead{(*byte)(unsafe.Pointer(&x[at])), 4 * f.eightsRecord(), 0}
	}
	return eightsAhead{(*byte)(unsafe.Pointer(&x[at])), line, 4 * line}
}
