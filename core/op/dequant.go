package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/core/tensor"
)

// Values of the attribute activations of products with quantised weights.
const (
	ActivationsF32 = "f32" // not rounded
	ActivationsQ8  = "q8"  // rounded to 8 bits, see quant.RoundActivations
)

const activationsDoc = `activations="f32" takes x as it is. activations="q8" rounds it first, in f32: each 32 elements of a row to multiples of d = max|x|/127, ` +
	"x' = d round(x (127/max|x|)), half to even; they are 0 where all are below 2^-100, and NaN where one is NaN or infinite."

func checkActivations(a string) error {
	if a != ActivationsF32 && a != ActivationsQ8 {
		return fmt.Errorf("activations is %q; want %q or %q", a, ActivationsF32, ActivationsQ8)
	}
	return nil
}

// packedDepth returns the number of values in the rows of a packed operand.
func packedDepth(name string, w ir.Type) (ir.Dim, error) {
	if !w.DType.IsPacked() || w.Rank() == 0 {
		return ir.Dim{}, fmt.Errorf("%s is %v; want an array of a packed type, such as q8_0[n,k/32]", name, w)
	}
	k, ok := w.Shape[w.Rank()-1].Mul(ir.Static(int64(w.DType.Values())))
	if !ok {
		return k, fmt.Errorf("%s is %v, whose rows are too long", name, w)
	}
	return k, nil
}

// packedRow decodes row i of a packed array of rows of k values into dst; buf has as many elements.
func packedRow(dst []float64, buf []float32, w *tensor.Array, i int) {
	size := len(dst) / w.DType.Values() * w.DType.Size()
	quant.Decode(buf, w.DType, w.Bytes[i*size:(i+1)*size])
	for j, v := range buf {
		dst[j] = float64(v)
	}
}

// rounded8 returns x, rows of k values, rounded as activations requires.
func rounded8(x *tensor.Array, k int, activations string) []float64 {
	if activations != ActivationsQ8 || k == 0 {
		return x.Floats
	}
	row, out := make([]float32, k), slices.Clone(x.Floats)
	q, scale := make([]int8, k), make([]float32, (k+quant.Group-1)/quant.Group)
	for at := 0; at < len(out); at += k {
		for i := range row {
			row[i] = float32(out[at+i])
		}
		quant.RoundActivations(q, scale, row)
		for i, v := range q {
			out[at+i] = float64(scale[i/quant.Group]) * float64(v)
		}
	}
	return out
}

// dequantMemory returns what evaluating a product with quantised weights allocates, in bytes.
func dequantMemory(syms ir.Syms, x ir.Type, activations string) int64 {
	_, k := syms.Bounds(x.Shape[x.Rank()-1])
	if activations == ActivationsQ8 {
		return 32*k + 8*syms.MaxElems(x)
	}
	return 16 * k
}

// weightScheme is a way to store the weights [k,n] of a product other than a packed type.
type weightScheme struct {
	weight, scale, zero dtype.DType // types of the operands w, scale and zero; Invalid for an absent operand
	nibbles             bool        // two weights in a byte
	perColumn, optional bool        // scale is f32[n]; scale may be left out
	block               int         // number of rows that share a scale; 0 means the attribute block
	global              bool        // global is a scale for all weights
	value               func(q byte) float64
}

var weightSchemes = map[string]weightScheme{
	"int8":      {weight: dtype.I8, scale: dtype.F32},
	"int8_asym": {weight: dtype.I8, scale: dtype.F32, zero: dtype.F32},
	"int4": {weight: dtype.U8, scale: dtype.F32, nibbles: true, value: func(q byte) float64 {
		return float64(int8(q<<4) >> 4)
	}},
	"fp8_e4m3": {weight: dtype.U8, scale: dtype.F32, perColumn: true, optional: true, value: func(q byte) float64 {
		return float64(quant.E4M3(q))
	}},
	"fp8_e5m2": {weight: dtype.U8, scale: dtype.F32, perColumn: true, optional: true, value: func(q byte) float64 {
		return float64(quant.E5M2(q))
	}},
	"nvfp4": {weight: dtype.U8, scale: dtype.U8, nibbles: true, block: NVFP4Block, global: true,
		value: func(q byte) float64 { return float64(quant.E2M1(q)) }},
}

// NVFP4Block is the number of weights of a column that share a scale in the scheme nvfp4.
const NVFP4Block = 16

// dequantNames are the optional operands of dequant_matmul, from DequantMatMulScale on.
var dequantNames = [...]string{"scale", "zero", "global"}

// check checks the operands of a product against the scheme and returns the number of columns.
func (s weightScheme) check(a DequantMatMulAttrs, in []ir.Type, k ir.Dim) (n ir.Dim, err error) {
	block := s.block
	if !s.perColumn && block == 0 {
		if block = a.Block; block < 1 {
			return n, fmt.Errorf("block is %d; want how many weights of a column have one scale", block)
		}
	} else if a.Block != 0 {
		return n, fmt.Errorf("block is %d; want 0 with scheme %q", a.Block, a.Scheme)
	}
	for k, want := range []bool{true, s.zero != dtype.Invalid, s.global} {
		switch have := in[DequantMatMulScale+k].Present(); {
		case have && !want:
			return n, fmt.Errorf("has an operand %s; want none with scheme %q", dequantNames[k], a.Scheme)
		case want && !have && !(k == 0 && s.optional):
			return n, fmt.Errorf("operand %s is missing; want it with scheme %q", dequantNames[k], a.Scheme)
		}
	}
	w, scale := in[1], in[DequantMatMulScale]
	if w.DType != s.weight || w.Rank() != 2-btoi(s.nibbles) {
		return n, fmt.Errorf("w is %v; want %v of rank %d with scheme %q", w, s.weight, 2-btoi(s.nibbles), a.Scheme)
	}
	if !k.IsStatic() {
		return n, fmt.Errorf("x is %v; want a static last axis with scheme %q", in[0], a.Scheme)
	}
	switch {
	case !s.nibbles:
		n = w.Shape[1]
		if w.Shape[0] != k {
			return n, ir.Differ(w.Shape[0], k, "x is %v and w %v; want equal sizes to sum over", in[0], w)
		}
	case scale.Rank() != 2:
		return n, fmt.Errorf("scale is %v; want rank 2", scale)
	default:
		n = scale.Shape[1]
	}
	if !n.IsStatic() {
		return n, fmt.Errorf("w is %v; want static sizes", w)
	}
	if want := ir.TypeOf(w.DType, (k.Const*n.Const+1)/2); s.nibbles && !w.Equal(want) {
		return n, fmt.Errorf("w is %v; want %v for %v by %v weights of 4 bits", w, want, k, n)
	}
	want := ir.TypeOf(s.scale, n.Const)
	if !s.perColumn {
		want = ir.TypeOf(s.scale, (k.Const+int64(block)-1)/int64(block), n.Const)
	}
	for k, want := range []ir.Type{want, want, f32()} {
		if t := in[DequantMatMulScale+k]; t.Present() && !t.Equal(want) {
			return n, fmt.Errorf("%s is %v; want %v", dequantNames[k], t, want)
		}
	}
	return n, nil
}

// column decodes column j of n columns into dst.
func (s weightScheme) column(dst []float64, a DequantMatMulAttrs, in []*tensor.Array, j, n int) {
	block, scale := max(s.block, a.Block), in[DequantMatMulScale]
	for p := range dst {
		at := p*n + j
		var q byte
		if s.nibbles {
			q = byte(in[1].Ints[at/2]) >> (at % 2 * 4) & 15
		} else {
			q = byte(in[1].Ints[at])
		}
		v := float64(int8(q))
		if s.value != nil {
			v = s.value(q)
		}
		switch {
		case s.perColumn && scale != nil:
			v *= scale.Floats[j]
		case s.perColumn:
		case s.global:
			v *= float64(quant.E4M3(byte(scale.Ints[p/block*n+j]))) * in[DequantMatMulGlobal].Floats[0]
		case s.zero != dtype.Invalid:
			v = (v - in[DequantMatMulZero].Floats[p/block*n+j]) * scale.Floats[p/block*n+j]
		default:
			v *= scale.Floats[p/block*n+j]
		}
		dst[p] = v
	}
}
