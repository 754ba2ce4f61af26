package product

import (
	"unsafe"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// unpackedBy sets f.unpack.
func (f integerFormat) unpackedBy(d dtype.DType, unpack unpackAsm) integerFormat {
	values, group := d.Values()*f.width(), f.group
	f.unpack = func(q []int8, scale, low []float32, w []byte) {
		blocks := len(q) / values
		if blocks == 0 {
			return
		}
		groups := blocks * d.Values() / group
		_, _, _ = w[blocks*d.Size()-1], scale[groups-1], low[groups-1]
		unpack(&q[0], &scale[0], &low[0], &w[0], blocks, 1, 0, 0, 0)
	}
	return f
}

// signedIntegers returns the formats of all packed types, without excess. The routines that unpack need no more than
// AVX2. See integerFormat for few.
func signedIntegers(multiply func(r groupProduct), few [2]int) map[dtype.DType]integerFormat {
	unpackOf := func(d dtype.DType, group int, lows bool, unpack unpackAsm) integerFormat {
		f := integerFormat{group: group, lows: lows, multiply: multiply, dots: packedDotRows, few: few}
		return f.unpackedBy(d, unpack)
	}
	return map[dtype.DType]integerFormat{
		dtype.Q4_0: unpackOf(dtype.Q4_0, 32, false, unpackQ4_0), dtype.Q4_1: unpackOf(dtype.Q4_1, 32, true, unpackQ4_1),
		dtype.Q5_0: unpackOf(dtype.Q5_0, 32, false, unpackQ5_0), dtype.Q5_1: unpackOf(dtype.Q5_1, 32, true, unpackQ5_1),
		dtype.Q8_0: unpackOf(dtype.Q8_0, 32, false, unpackQ8_0), dtype.Q2_K: unpackOf(dtype.Q2_K, 16, true, unpackQ2_K),
		dtype.Q3_K: unpackOf(dtype.Q3_K, 16, false, unpackQ3_K), dtype.Q4_K: unpackOf(dtype.Q4_K, 32, true, unpackQ4_K),
		dtype.Q5_K: unpackOf(dtype.Q5_K, 32, true, unpackQ5_K), dtype.Q6_K: unpackOf(dtype.Q6_K, 16, false, unpackQ6_K),
		dtype.Q8_K:   unpackOf(dtype.Q8_K, 32, false, unpackQ8_K),
		dtype.IQ4_NL: unpackOf(dtype.IQ4_NL, 32, false, unpackIQ4_NL),
		dtype.IQ4_XS: unpackOf(dtype.IQ4_XS, 32, false, unpackIQ4_XS),
		dtype.MXFP4:  unpackOf(dtype.MXFP4, 32, false, unpackMXFP4),
	}
}

// integerTileConfig configures the tiles for groups of 16 values and of 32: tile 0 is for sums, 1 for a, 2 for b.
var integerTileConfig = [2][64]byte{
	{0: 1, 16: 64, 18: 16, 20: 64, 48: 16, 49: 16, 50: 4},
	{0: 1, 16: 64, 18: 32, 20: 64, 48: 16, 49: 16, 50: 8},
}

// integersInTiles returns the formats of all packed types, for products in tiles.
func integersInTiles() map[dtype.DType]integerFormat {
	all := signedIntegers(multiplyIntegersAMX, [2]int{packedDotRows + 1, fewRows})
	f := all[dtype.Q8_0]
	f.few[0] = 2 // its weights need no unpacking
	f.scales = func(dst []float32, w []byte, stride, blocks int) {
		_, _ = dst[blocks*integerSide-1], w[(integerSide-1)*stride+blocks*dtype.Q8_0.Size()-1]
		scalesQ8_0(&dst[0], &w[0], stride, blocks)
	}
	all[dtype.Q8_0] = f
	return all
}

func multiplyIntegersAMX(r groupProduct) {
	r.check()
	_ = r.room[2*integerSide*integerSide-1]
	config := &integerTileConfig[r.group/16-1][0]
	room := (*byte)(unsafe.Pointer(&r.room[0]))
	lda, stepA := r.group, r.group*integerSide
	if r.lda != 0 {
		lda, stepA = r.lda, r.stepA
	}
	next := r.ahead
	if r.low == nil {
		integerTiles(config, room, lda, stepA, next.from, next.lines, next.groups, next.skip, r.groups,
			r.group*integerSide, &r.a[0], &r.b[0], &r.dx[0], nil, &r.dw[0], nil, &r.c[0], r.ldc, r.resumes())
	} else {
		integerTilesLow(config, room, lda, stepA, next.from, next.lines, next.groups, next.skip, r.groups,
			r.group*integerSide, &r.a[0], &r.b[0], &r.dx[0], &r.xs[0], &r.dw[0], &r.low[0], &r.c[0], r.ldc,
			r.resumes())
	}
}

type dotBytesAsm = func(dst *float32, lead int, w *byte, gap, stride, rows int, x *int8, dx, xs *float32, excess *int32,
	blocks int)

// dotBytesOf returns the byteDot of a routine. See byteDot for excess.
func dotBytesOf(d dtype.DType, excess int32, f dotBytesAsm) byteDot {
	return byteDot{excess: excess, dot: func(dst []float32, w []byte, stride int, x *roundedRow) {
		if len(dst) == 0 {
			return
		}
		k := len(x.q)
		blocks := k / d.Values()
		sums := x.sums
		if d == dtype.Q2_K { // a group has 16 values, not 32
			sums = x.halves
		}
		_, _, _, _, _ = w[(len(dst)-1)*stride+blocks*d.Size()-1], x.scale[k/32-1], x.sums[k/32-1], x.excess[k/4-1],
			x.halves[k/16-1]
		stored.EachStream(len(dst), stride, func(at, lead, gap, rows int) {
			f(&dst[at], lead, &w[at*stride], gap, stride, rows, &x.q[0], &x.scale[0], &sums[0], &x.excess[0], blocks)
		})
	}}
}

// dotBytesAVX2Set returns the routines for AVX2. Most of them move the sign of a weight to its activation, so they have
// no excess.
func dotBytesAVX2Set() map[dtype.DType]byteDot {
	all := map[dtype.DType]byteDot{
		dtype.Q8_0:   dotBytesOf(dtype.Q8_0, 0, dotBytesQ8_0AVX2),
		dtype.Q4_0:   dotBytesOf(dtype.Q4_0, 8, dotBytesQ4_0AVX2),
		dtype.Q4_1:   dotBytesOf(dtype.Q4_1, 0, dotBytesQ4_1AVX2),
		dtype.Q5_0:   dotBytesOf(dtype.Q5_0, 0, dotBytesQ5_0AVX2),
		dtype.Q5_1:   dotBytesOf(dtype.Q5_1, 0, dotBytesQ5_1AVX2),
		dtype.Q2_K:   dotBytesOf(dtype.Q2_K, 0, dotBytesQ2_KAVX2),
		dtype.Q3_K:   dotBytesOf(dtype.Q3_K, 0, dotBytesQ3_KAVX2),
		dtype.Q4_K:   dotBytesOf(dtype.Q4_K, 0, dotBytesQ4_KAVX2),
		dtype.Q5_K:   dotBytesOf(dtype.Q5_K, 0, dotBytesQ5_KAVX2),
		dtype.Q6_K:   dotBytesOf(dtype.Q6_K, 32, dotBytesQ6_KAVX2),
		dtype.Q8_K:   dotBytesOf(dtype.Q8_K, 0, dotBytesQ8_KAVX2),
		dtype.IQ4_NL: dotBytesOf(dtype.IQ4_NL, 0, dotBytesIQ4_NLAVX2),
		dtype.IQ4_XS: dotBytesOf(dtype.IQ4_XS, 0, dotBytesIQ4_XSAVX2),
		dtype.MXFP4:  dotBytesOf(dtype.MXFP4, 0, dotBytesMXFP4AVX2),
	}
	f := all[dtype.Q8_0]
	f.together = dotTogetherQ8_0
	all[dtype.Q8_0] = f
	return all
}

func dotTogetherQ8_0(dst []float32, ldc, columns int, w []byte, stride int, x *roundedRow, rows int) {
	blocks := len(x.allScale) / rows
	_, _ = dst[(rows-1)*ldc+columns-1], w[(columns-1)*stride+blocks*dtype.Q8_0.Size()-1]
	_ = x.allQ[blocks*rows*32-1]
	f := [...]func(dst *float32, ldc int, w *byte, stride, pairs int, x *int8, dx *float32, blocks int){
		2: dotRows2Q8_0, 3: dotRows3Q8_0, 4: dotRows4Q8_0}[rows]
	f(&dst[0], ldc, &w[0], stride, columns/2, &x.allQ[0], &x.allScale[0], blocks)
}

// dotBytesVNNISet returns the routines for VNNI and VBMI. They add 128 to signed weights, because VPDPBUSD takes one
// unsigned operand. Those without an excess make up for that themselves.
func dotBytesVNNISet() map[dtype.DType]byteDot {
	return map[dtype.DType]byteDot{
		dtype.Q8_0:   dotBytesOf(dtype.Q8_0, 0, dotBytesQ8_0VNNI),
		dtype.Q4_0:   dotBytesOf(dtype.Q4_0, 0, dotBytesQ4_0VNNI),
		dtype.Q4_1:   dotBytesOf(dtype.Q4_1, 0, dotBytesQ4_1VNNI),
		dtype.Q5_0:   dotBytesOf(dtype.Q5_0, 128, dotBytesQ5_0VNNI),
		dtype.Q5_1:   dotBytesOf(dtype.Q5_1, 0, dotBytesQ5_1VNNI),
		dtype.Q2_K:   dotBytesOf(dtype.Q2_K, 0, dotBytesQ2_KVNNI),
		dtype.Q3_K:   dotBytesOf(dtype.Q3_K, 128, dotBytesQ3_KVNNI),
		dtype.Q4_K:   dotBytesOf(dtype.Q4_K, 0, dotBytesQ4_KVNNI),
		dtype.Q5_K:   dotBytesOf(dtype.Q5_K, 0, dotBytesQ5_KVNNI),
		dtype.Q6_K:   dotBytesOf(dtype.Q6_K, 0, dotBytesQ6_KVNNI),
		dtype.Q8_K:   dotBytesOf(dtype.Q8_K, 128, dotBytesQ8_KVNNI),
		dtype.IQ4_NL: dotBytesOf(dtype.IQ4_NL, 128, dotBytesIQ4_NLVNNI),
		dtype.IQ4_XS: dotBytesOf(dtype.IQ4_XS, 128, dotBytesIQ4_XSVNNI),
		dtype.MXFP4:  dotBytesOf(dtype.MXFP4, 128, dotBytesMXFP4VNNI),
	}
}
