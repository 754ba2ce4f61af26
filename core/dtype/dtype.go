// Package dtype names the element types of tensors and converts between their storage forms.
//
// It imports nothing of this module.
package dtype

import "math"

// DType is an element type. Values are stable within a process only: files carry names.
type DType uint8

// The element types. Storage is little-endian; Bool is one byte, any non-zero value reads as true.
const (
	Invalid DType = iota
	F32
	F16
	BF16
	F64
	I8
	I16
	I32
	I64
	U8
	U32
	Bool
)

// The packed element types are the block formats of GGUF files. One element is one block, so a weight of n rows of k
// values is q4_0[n,k/32]. Package core/quant decodes them. Only ops that say so (ir.Def.Packed) compute with them.
const (
	Q4_0 DType = iota + Bool + 1
	Q4_1
	Q5_0
	Q5_1
	Q8_0
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	Q8_K
	IQ4_NL
	IQ4_XS
	MXFP4
)

var table = [...]struct {
	name   string
	size   int
	class  class
	values int
}{
	Invalid: {"invalid", 0, 0, 0},
	F32:     {"f32", 4, float, 1}, F16: {"f16", 2, float, 1}, BF16: {"bf16", 2, float, 1}, F64: {"f64", 8, float, 1},
	I8: {"i8", 1, signed, 1}, I16: {"i16", 2, signed, 1}, I32: {"i32", 4, signed, 1}, I64: {"i64", 8, signed, 1},
	U8: {"u8", 1, unsigned, 1}, U32: {"u32", 4, unsigned, 1}, Bool: {"bool", 1, boolean, 1},
	Q4_0: {"q4_0", 18, packed, 32}, Q4_1: {"q4_1", 20, packed, 32}, Q5_0: {"q5_0", 22, packed, 32},
	Q5_1: {"q5_1", 24, packed, 32},
	Q8_0: {"q8_0", 34, packed, 32}, Q2_K: {"q2_k", 84, packed, 256}, Q3_K: {"q3_k", 110, packed, 256},
	Q4_K: {"q4_k", 144, packed, 256},
	Q5_K: {"q5_k", 176, packed, 256}, Q6_K: {"q6_k", 210, packed, 256}, Q8_K: {"q8_k", 292, packed, 256},
	IQ4_NL: {"iq4_nl", 18, packed, 32}, IQ4_XS: {"iq4_xs", 136, packed, 256}, MXFP4: {"mxfp4", 17, packed, 32},
}

type class uint8

const (
	float class = iota + 1
	signed
	unsigned
	boolean
	packed
)

// All lists the element types of single values.
func All() []DType { return []DType{F32, F16, BF16, F64, I8, I16, I32, I64, U8, U32, Bool} }

// Packed lists the element types of blocks.
func Packed() []DType {
	return []DType{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K, IQ4_NL, IQ4_XS, MXFP4}
}

// Known lists all element types: All and Packed.
func Known() []DType { return append(All(), Packed()...) }

var known = Known()

// Parse finds a type by its name.
func Parse(name string) (DType, bool) {
	for _, d := range known {
		if table[d].name == name {
			return d, true
		}
	}
	return Invalid, false
}

// String is the name used in text and in artifacts.
func (d DType) String() string {
	if int(d) >= len(table) {
		return "invalid"
	}
	return table[d].name
}

// Size is the number of bytes of one element.
func (d DType) Size() int { return table[d].size }

// Values is how many numbers one element holds: 32 or 256 of a packed type, 1 of all others.
func (d DType) Values() int { return table[d].values }

// IsPacked reports a type whose elements are blocks.
func (d DType) IsPacked() bool { return table[d].class == packed }

// IsFloat reports f32, f16, bf16 and f64.
func (d DType) IsFloat() bool { return table[d].class == float }

// IsInt reports signed and unsigned integers, not bool.
func (d DType) IsInt() bool { return table[d].class == signed || table[d].class == unsigned }

// IntRange is the smallest and largest value of an integer type or bool.
func (d DType) IntRange() (lo, hi int64) {
	bits := uint(d.Size() * 8)
	switch table[d].class {
	case signed:
		return -1 << (bits - 1), 1<<(bits-1) - 1
	case unsigned:
		return 0, 1<<bits - 1
	case boolean:
		return 0, 1
	}
	panic("BUG: IntRange of " + d.String())
}

// F16ToF32 widens an IEEE half exactly.
func F16ToF32(h uint16) float32 {
	sign, exp, man := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exp {
	case 0: // zero and subnormals: man * 2^-24 is exact in float32
		f := float32(man) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}

// F32ToF16 rounds to the nearest half, ties to even; overflow gives infinity, NaN stays NaN.
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	abs := b & 0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00 | uint16(abs>>13&0x3ff)
	case abs >= 0x47800000: // 65536 and above, infinity
		return sign | 0x7c00
	case abs < 0x38800000: // below the smallest normal half: let the adder round to a multiple of 2^-24
		r := math.Float32frombits(abs) + 0.5 // ulp of values in [0.5, 1) is 2^-24
		return sign | uint16(math.Float32bits(r)-0x3f000000)
	}
	return sign | uint16((abs-0x38000000+0xfff+abs>>13&1)>>13)
}

// BF16ToF32 widens a bfloat16 exactly.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 rounds to the nearest bfloat16, ties to even; NaN stays NaN.
func F32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// F64ToF16 rounds once to the nearest half, ties to even.
func F64ToF16(x float64) uint16 { return F32ToF16(toOdd(x)) }

// F64ToBF16 rounds once to the nearest bfloat16, ties to even.
func F64ToBF16(x float64) uint16 { return F32ToBF16(toOdd(x)) }

// toOdd is x as a float32 whose last bit is set where bits of x were cut off: a narrower type then rounds as from x
// itself.
func toOdd(x float64) float32 {
	f := float32(x)
	d := float64(f)
	if d == x || math.IsInf(d, 0) || x != x {
		return f // what overflows float32 overflows the narrower types by more than half a unit
	}
	b := math.Float32bits(f)
	if math.Abs(d) > math.Abs(x) { // back to the truncated value
		b--
	}
	return math.Float32frombits(b | 1)
}
