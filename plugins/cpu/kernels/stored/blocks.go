package stored

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// Packed returns a matrix of weights whose rows are blocks of a packed element type. Gemm needs TransB for it. Leading
// dimensions and offsets count values, not bytes.
func Packed(d dtype.DType, b []byte) Values { return Values{Bytes: b, Kind: d} }

// PackedRoutines are the routines of a set for weights of one packed type. Rows are whole blocks.
type PackedRoutines struct {
	// Dot sets dst[r] to the dot product of x and row r of w. Rows start stride bytes apart. sums[i] is the sum of
	// x[32*i : 32*i+32]; types that subtract a minimum from their values need it. nil if products widen the weights
	// first.
	Dot func(dst []float32, w []byte, stride int, x, sums []float32)
	// Arrange sets dst to the activations in the order and with the factors that dot takes. It returns false if dot
	// cannot take them. nil if dot takes activations as they are.
	Arrange func(dst, x []float32) bool
	Decode  func(dst []float32, w []byte)
}

// arrangeQuads arranges activations for products in which each lane of a vector holds four weights, in bytes: of 64
// activations, it puts first those of the lowest bytes, then those of the second bytes, and so on. It divides them by
// 1, 256, 65536 and 65536, the factors by which such products multiply the weights. It returns false if the largest
// magnitude is so small that quotients would lose bits.
func arrangeQuads(dst, x []float32) bool {
	var most uint32
	for len(x) >= 64 {
		d, v := (*[64]float32)(dst), (*[64]float32)(x)
		for l := range 16 {
			a, b, c, e := v[4*l], v[4*l+1], v[4*l+2], v[4*l+3]
			d[l], d[16+l], d[32+l], d[48+l] = a, b*0x1p-8, c*0x1p-16, e*0x1p-16
			// without the sign
			most = max(most, 2*math.Float32bits(a), 2*math.Float32bits(b), 2*math.Float32bits(c), 2*math.Float32bits(e))
		}
		dst, x = dst[64:], x[64:]
	}
	return most == 0 || most >= 2*math.Float32bits(0x1p-100)
}

// Decode widens values [i, i+len(dst)) of packed weights.
func (w Values) Decode(s *isa.Set, dst []float32, i int) {
	values, size := w.Kind.Values(), w.Kind.Size()
	i += w.Start
	if skip := i % values; skip != 0 || len(dst) < values { // i lies within a block, or dst ends within it
		var block [256]float32
		n := min(values-skip, len(dst))
		quant.Decode(block[:values], w.Kind, w.Bytes[i/values*size:][:size])
		copy(dst[:n], block[skip:])
		i, dst = i+n, dst[n:]
	}
	n := len(dst) / values
	if src, decode := w.Bytes[i/values*size:][:n*size], On(s).Packed[w.Kind].Decode; decode != nil && n > 0 {
		decode(dst[:n*values], src)
	} else {
		quant.Decode(dst[:n*values], w.Kind, src)
	}
	if rest := dst[n*values:]; len(rest) > 0 {
		w.Start = 0
		w.Decode(s, rest, i+n*values)
	}
}

// DotStreams is the number of rows of weights that the routines for few rows of activations read at once. The rows are
// gap bytes apart in memory, and their results lead elements apart.
const DotStreams = 4

// EachStream calls f for the rows of a product. In the first call, stream i reads the rows from i*lead on, each stream
// a quarter of the rows. Up to three rows are left over. In the call for them, which begins at row at, lead and gap are
// 0, so that all streams read the same row.
func EachStream(rows, stride int, f func(at, lead, gap, rows int)) {
	lead := rows / DotStreams
	if lead > 0 {
		f(0, lead, lead*stride, lead)
	}
	if at := lead * DotStreams; at < rows {
		f(at, 0, 0, rows-at)
	}
}
