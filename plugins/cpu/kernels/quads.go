package kernels

import (
	"math"
	"unsafe"
)

// integerProduct is how a set multiplies integers of 8 bits. Operands are packed as those of isa.gemm, with units in place of floats.
type integerProduct struct {
	unit int // integers of a unit: 4 as they are stored, 2 of 16 bits, or 1 as float32
	// Units of 4 are of unsigned or of signed integers. An operand of the other type is stored with 128 added or subtracted.
	leftUnsigned, rightUnsigned bool
	mr, deep                    int // rows of a product; K is a multiple of so many units
	// multiply is c[rows, panels*nr] = A·B, k units deep, for panels of B one after the other; rows <= mr. tmp has mr*nr floats. In tiles, A is
	// not packed: it is mr rows of k units, and mr rows of c are written.
	tiles    bool
	multiply func(rows, k int, a, b []float32, c []int32, ldc, panels int, tmp []float32)
}

// An operand has a type and an integer that stands for 0.
type integerOperand struct {
	signed bool
	zero   int
	flip   bool // it is stored with the other sign
}

// operands says how the two are stored, which moves their zeros.
func (q *integerProduct) operands(left, right integerOperand) (integerOperand, integerOperand) {
	if q.unit == 4 {
		left.store(q.leftUnsigned)
		right.store(q.rightUnsigned)
	}
	return left, right
}

func (o *integerOperand) store(unsigned bool) {
	if o.flip = o.signed == unsigned; !o.flip {
		return
	}
	if o.signed {
		o.zero += 128
	} else {
		o.zero -= 128
	}
}

// units is the number of units that n integers take.
func (q *integerProduct) units(n int) int { return (n + q.unit - 1) / q.unit }

// depth is the number of units that K takes if it is so many.
func (q *integerProduct) depth(units int) int { return (units + q.deep - 1) / q.deep * q.deep }

// pack packs h rows of k units, unless they are multiplied as they are.
func (q *integerProduct) pack(s *isa, dst, rows []float32, h, k int) {
	if q.tiles {
		copy(dst[:h*k], rows)
	} else {
		packRows(s, dst, rows, k, h, k)
	}
}

// put stores integers step bytes apart as units; zeros follow in the last of them. It returns their sum as they are stored.
func (q *integerProduct) put(dst []float32, src []uint8, n, step int, o integerOperand) (sum int32) {
	flip := uint8(0)
	if o.flip {
		flip = 0x80
	}
	switch q.unit {
	case 4:
		to := storedBytes(dst)
		for i, at := 0, 0; i < n; i, at = i+1, at+step {
			to[i] = src[at] ^ flip
		}
		clear(to[n:])
		sum = byteSum(to[:n], o.signed != o.flip)
	case 2:
		to := elementsOf[int16](storedBytes(dst))
		for i, at := 0, 0; i < n; i, at = i+1, at+step {
			v := o.value(src[at])
			to[i] = int16(v)
			sum += v
		}
		clear(to[n:])
	default:
		for i, at := 0, 0; i < n; i, at = i+1, at+step {
			v := o.value(src[at])
			dst[i] = float32(v)
			sum += v
		}
	}
	return sum
}

// putRow is put for neighbours, without the sum.
func (q *integerProduct) putRow(dst []float32, src []uint8, o integerOperand) {
	switch q.unit {
	case 4:
		to := storedBytes(dst)
		clear(to[copy(to, src):])
		if o.flip {
			flipSigns(to)
		}
	case 2:
		to := elementsOf[int16](storedBytes(dst))
		if o.signed {
			for i, v := range src {
				to[i] = int16(int8(v))
			}
		} else {
			for i, v := range src {
				to[i] = int16(v)
			}
		}
		clear(to[len(src):])
	default:
		for i, v := range src {
			dst[i] = float32(o.value(v))
		}
	}
}

// putPlanes stores the elements of n planes that lie at the same place as a unit.
func (q *integerProduct) putPlanes(dst []float32, src []uint8, n int, o integerOperand) {
	plane := len(dst)
	if q.unit == 1 {
		for i := range dst {
			dst[i] = float32(o.value(src[i]))
		}
		return
	}
	to := storedBytes(dst)
	if n < q.unit {
		clear(to)
	}
	if q.unit == 2 {
		to := elementsOf[int16](to)
		for c := range n {
			for i, v := range src[c*plane:][:plane] {
				to[2*i+c] = int16(o.value(v))
			}
		}
		return
	}
	if n == 4 {
		a, b, c, d, words := src[:plane], src[plane:][:plane], src[2*plane:][:plane], src[3*plane:][:plane], elementsOf[uint32](to)
		for i := range words {
			words[i] = uint32(a[i]) | uint32(b[i])<<8 | uint32(c[i])<<16 | uint32(d[i])<<24
		}
	} else {
		for c := range n {
			for i, v := range src[c*plane:][:plane] {
				to[4*i+c] = v
			}
		}
	}
	if o.flip {
		flipSigns(to)
	}
}

// value is the integer that a byte holds, before it is stored.
func (o *integerOperand) value(b uint8) int32 {
	if o.signed {
		return int32(int8(b))
	}
	return int32(b)
}

// word is a unit of equal integers, those that stand for 0.
func (q *integerProduct) word(o integerOperand) float32 {
	z := uint32(o.zero)
	switch q.unit {
	case 4:
		return math.Float32frombits(z & 0xff * 0x01010101)
	case 2:
		return math.Float32frombits(z & 0xffff * 0x00010001)
	}
	return float32(o.zero)
}

func byteSum(b []uint8, signed bool) (sum int32) {
	for _, v := range b {
		sum += int32(v)
	}
	if signed {
		for _, v := range b {
			sum -= int32(v>>7) << 8
		}
	}
	return sum
}

// flipSigns adds or subtracts 128.
func flipSigns(b []uint8) {
	words := elementsOf[uint64](b)
	for i := range words {
		words[i] ^= 0x8080808080808080
	}
	for i := 8 * len(words); i < len(b); i++ {
		b[i] ^= 0x80
	}
}

// storedBytes is units read as bytes.
func storedBytes(x []float32) []uint8 {
	return unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// ints is scratch memory for integers.
func (s *scratch) ints(n int) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(s.floats(n)))), n)
}

// setIntegersInGo gives a set products of integers by those of floats, which are exact up to 2^24: sums of 256 products are.
func (s *isa) setIntegersInGo() *isa {
	gemm, nr := s.gemm, s.nr
	q := integerProduct{unit: 1, mr: s.mr, deep: 1, multiply: func(rows, k int, a, b []float32, c []int32, ldc, panels int, tmp []float32) {
		for q := range panels {
			c, b := c[q*nr:], b[q*nr*k:]
			for r := range rows {
				clear(c[r*ldc:][:nr])
			}
			for at := 0; at < k; at += 256 {
				gemm(rows, min(256, k-at), a[at*rows:], b[at*nr:], tmp, nr, false, nil, nil, 0)
				for r := range rows {
					to := c[r*ldc:][:nr]
					for j, v := range tmp[r*nr:][:nr] {
						to[j] += int32(v)
					}
				}
			}
		}
	}}
	s.quads, s.requantize = [2]integerProduct{q, q}, requantizeGeneric
	return s
}

func requantizeGeneric(dst []uint8, acc, add []int32, mult []float32, to *requantizing) {
	for i := range dst {
		v := float32(acc[i]+add[i]+to.base) * mult[i]
		if v != v {
			dst[i] = 0
			continue
		}
		dst[i] = uint8(int32(min(max(math.RoundToEven(float64(v)), float64(to.lo)), float64(to.hi))) + to.zero)
	}
}

// requantizing says what becomes of sums of products: with base added they are multiplied, rounded, limited and moved by zero.
type requantizing struct {
	base, zero int32
	lo, hi     float32
}

// requantizingTo is for results of a type, of which an integer stands for 0.
func requantizingTo(signed bool, zero int) (r requantizing) {
	least, most := 0, 255
	if signed {
		least, most = -128, 127
	}
	r.zero, r.lo, r.hi = int32(zero), float32(least-zero), float32(most-zero)
	return r
}
