package quad

import (
	"math"
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// Product describes how a set multiplies matrices of 8-bit integers. Operands are packed as for product.Routines.gemm,
// but with units in place of floats. A unit is 32 bits that hold integers that are adjacent along k.
type Product struct {
	Unit int // integers in a unit: 4 of 8 bits, 2 of 16 bits, or 1 as float32
	// For units of 4: whether the instruction takes A and B as unsigned integers. An operand of the other signedness is
	// stored with 128 added or subtracted (Operand.flip).
	leftUnsigned, rightUnsigned bool
	MR, deep                    int // the most rows that multiply takes; K is padded to a multiple of `deep` units
	// multiply sets c[rows, panels*nr] to A·B, for k units along k and adjacent panels of B; rows <= mr. tmp has mr*nr
	// floats. With tiles, A is not packed: a holds mr rows of k units, and up to mr rows of c are written.
	tiles    bool
	Multiply func(rows, k int, a, b []float32, c []int32, ldc, panels int, tmp []float32)
	// pairBytes is dst[2*i] = a[i], dst[2*i+1] = b[i], for units of 2; nil: a loop in Go.
	pairBytes func(dst []int16, a, b []uint8, signed bool)
}

// Operand has the type of an operand and its zero point, the integer that stands for 0.
type Operand struct {
	Signed bool
	Zero   int
	// it is stored with the highest bit inverted: 128 is added to signed integers, subtracted from unsigned ones
	flip bool
}

// Operands returns the operands as they are stored. Where 128 is added or subtracted, the zero point moves too.
func (q *Product) Operands(left, right Operand) (Operand, Operand) {
	if q.Unit == 4 {
		left.store(q.leftUnsigned)
		right.store(q.rightUnsigned)
	}
	return left, right
}

func (o *Operand) store(unsigned bool) {
	if o.flip = o.Signed == unsigned; !o.flip {
		return
	}
	if o.Signed {
		o.Zero += 128
	} else {
		o.Zero -= 128
	}
}

// Units returns how many units n integers take.
func (q *Product) Units(n int) int { return (n + q.Unit - 1) / q.Unit }

// Depth rounds a number of units up to what multiply takes along k.
func (q *Product) Depth(units int) int { return (units + q.deep - 1) / q.deep * q.deep }

// Pack packs h rows of k units. Tiles take rows as they are, so it only copies them.
func (q *Product) Pack(s *isa.Set, dst, rows []float32, h, k int) {
	if q.tiles {
		copy(dst[:h*k], rows)
	} else {
		product.PackRows(s, dst, rows, k, h, k)
	}
}

// Put stores n integers, step bytes apart in src, as units. The rest of the last unit is zero. It returns the sum of
// the integers as stored.
func (q *Product) Put(dst []float32, src []uint8, n, step int, o Operand) (sum int32) {
	flip := uint8(0)
	if o.flip {
		flip = 0x80
	}
	switch q.Unit {
	case 4:
		to := StoredBytes(dst)
		for i, at := 0, 0; i < n; i, at = i+1, at+step {
			to[i] = src[at] ^ flip
		}
		clear(to[n:])
		sum = byteSum(to[:n], o.Signed != o.flip)
	case 2:
		to := pool.ElementsOf[int16](StoredBytes(dst))
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

// putRow is put for adjacent integers. It returns no sum.
func (q *Product) putRow(dst []float32, src []uint8, o Operand) {
	switch q.Unit {
	case 4:
		to := StoredBytes(dst)
		clear(to[copy(to, src):])
		if o.flip {
			flipSigns(to)
		}
	case 2:
		to := pool.ElementsOf[int16](StoredBytes(dst))
		if o.Signed {
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

// PutPlanes makes units from n planes of len(dst) integers: unit i holds element i of each plane.
func (q *Product) PutPlanes(dst []float32, src []uint8, n int, o Operand) {
	plane := len(dst)
	if q.Unit == 1 {
		for i := range dst {
			dst[i] = float32(o.value(src[i]))
		}
		return
	}
	to := StoredBytes(dst)
	if n < q.Unit {
		clear(to)
	}
	if q.Unit == 2 {
		to := pool.ElementsOf[int16](to)
		if n == 2 && q.pairBytes != nil {
			q.pairBytes(to, src[:plane], src[plane:2*plane], o.Signed)
			return
		}
		for c := range n {
			for i, v := range src[c*plane:][:plane] {
				to[2*i+c] = int16(o.value(v))
			}
		}
		return
	}
	if n == 4 {
		a, b, c, d, words := src[:plane], src[plane:][:plane], src[2*plane:][:plane], src[3*plane:][:plane],
			pool.ElementsOf[uint32](to)
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

// value returns the integer that a byte of an operand holds, without the 128 of flip.
func (o *Operand) value(b uint8) int32 {
	if o.Signed {
		return int32(int8(b))
	}
	return int32(b)
}

// Word returns a unit in which each integer is the zero point.
func (q *Product) Word(o Operand) float32 {
	z := uint32(o.Zero)
	switch q.Unit {
	case 4:
		return math.Float32frombits(z & 0xff * 0x01010101)
	case 2:
		return math.Float32frombits(z & 0xffff * 0x00010001)
	}
	return float32(o.Zero)
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

// flipSigns inverts the highest bit of each byte: it adds 128 to signed integers and subtracts 128 from unsigned ones.
func flipSigns(b []uint8) {
	words := pool.ElementsOf[uint64](b)
	for i := range words {
		words[i] ^= 0x8080808080808080
	}
	for i := 8 * len(words); i < len(b); i++ {
		b[i] ^= 0x80
	}
}

// StoredBytes returns the memory of units as bytes.
func StoredBytes(x []float32) []uint8 {
	return unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// inGo returns routines that multiply integers with the product of floats of a set. float32 holds integers exactly up
// to 2^24, which is more than a sum of 256 products of bytes, so longer sums are continued in integers.
func inGo(set *isa.Set) *Routines {
	s := product.On(set)
	gemm, nr := s.Gemm, s.NR
	q := Product{Unit: 1, MR: s.MR, deep: 1,
		Multiply: func(rows, k int, a, b []float32, c []int32, ldc, panels int, tmp []float32) {
			for q := range panels {
				panel, sums := b[q*nr*k:], c[q*nr:]
				for r := range rows {
					clear(sums[r*ldc:][:nr])
				}
				for at := 0; at < k; at += 256 {
					gemm(rows, min(256, k-at), a[at*rows:], panel[at*nr:], tmp, nr, false, nil, nil, 0)
					for r := range rows {
						to := sums[r*ldc:][:nr]
						for j, v := range tmp[r*nr:][:nr] {
							to[j] += int32(v)
						}
					}
				}
			}
		}}
	return &Routines{Quads: [2]Product{q, q}, Requantize: requantizeGeneric}
}

func requantizeGeneric(dst []uint8, acc, add []int32, mult []float32, to *Requantizing) {
	for i := range dst {
		v := float32(acc[i]+add[i]+to.Base) * mult[i]
		if v != v {
			dst[i] = 0
			continue
		}
		dst[i] = uint8(int32(min(max(math.RoundToEven(float64(v)), float64(to.lo)), float64(to.hi))) + to.zero)
	}
}

// Requantizing has the parameters that turn a sum of products into an 8-bit integer. The steps: add base, multiply by a
// scale, round, limit to [lo, hi], add zero.
type Requantizing struct {
	Base, zero int32
	lo, hi     float32
}

// RequantizingTo returns the parameters for results of a type with a zero point. base is 0.
func RequantizingTo(signed bool, zero int) (r Requantizing) {
	least, most := 0, 255
	if signed {
		least, most = -128, 127
	}
	r.zero, r.lo, r.hi = int32(zero), float32(least-zero), float32(most-zero)
	return r
}
