// Package op defines every op below block level. Each op has its own file with attributes, type inference, a reference
// evaluation in float64, cost, tolerance and test cases. Printing, encoding, verification, documentation, constant
// folding and conformance tests are derived from these definitions; see ir.Def.
//
// Constructors (Add, MatMul, ...) append a node and report errors through Graph.Err. They accept axes counted from the
// end. The attributes of nodes are canonical: axes lie in [0, rank), reduced axes are ascending, and layouts and modes
// are spelled out.
//
// The package imports core/dtype, core/tensor, core/ir, core/quant, core/splat and core/random, but no pass, plan or
// device.
package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// NoAttrs is for ops without attributes.
type NoAttrs struct{}

// checkAxis returns an error unless an attribute is an axis in [0, rank).
func checkAxis(axis, rank int) error {
	if axis < 0 || axis >= rank {
		return fmt.Errorf("axis %d is out of range for rank %d; want 0 to %d", axis, rank, rank-1)
	}
	return nil
}

// checkAxes is like checkAxis for a list, which must be ascending.
func checkAxes(axes []int, rank int) error {
	for i, axis := range axes {
		if err := checkAxis(axis, rank); err != nil {
			return err
		}
		if i > 0 && axis <= axes[i-1] {
			return fmt.Errorf("axes %v do not rise", axes)
		}
	}
	return nil
}

// sortedAxes returns the canonical form of axes that a constructor was called with. They may be counted from the end
// and be in any order.
func sortedAxes(axes []int, x *ir.Node) []int {
	sorted := make([]int, len(axes))
	for i, a := range axes {
		sorted[i] = fromEnd(a, x)
	}
	slices.Sort(sorted)
	return sorted
}

// fromEnd returns the canonical form of an axis that a constructor was called with. For example, -1 is the last axis of
// x.
func fromEnd(axis int, x *ir.Node) int {
	if axis < 0 {
		return axis + x.Type.Rank()
	}
	return axis
}

// checkSize limits a size given by an attribute, so that sums and products of sizes cannot overflow.
func checkSize(name string, v, lo int) error {
	if v < lo || int64(v) > ir.MaxDim {
		return fmt.Errorf("%s is %d; want %d to %d", name, v, lo, int64(ir.MaxDim))
	}
	return nil
}

func isFloat(name string, t ir.Type) error {
	if !t.DType.IsFloat() {
		return fmt.Errorf("%s is %v; want a float type", name, t)
	}
	return nil
}

func sameDType(in []ir.Type) error {
	for _, t := range in[1:] {
		if t.Present() && t.DType != in[0].DType {
			return fmt.Errorf("operands are %v and %v; want equal element types (insert a cast)", in[0], t)
		}
	}
	return nil
}

// weightDType checks the types of matmul-like ops: w has the type of x, or x is f32 and w is stored in f16 or bf16. The
// result has the type of x.
func weightDType(x, w ir.Type) error {
	narrow := w.DType == dtype.F16 || w.DType == dtype.BF16
	if !x.DType.IsFloat() || w.DType != x.DType && !(x.DType == dtype.F32 && narrow) {
		return fmt.Errorf("operands are %v and %v; want equal float types, or f32 with f16 or bf16", x, w)
	}
	return nil
}

// vectorOf checks a bias or scale, which must have rank 1, length n and element type d.
func vectorOf(name string, t ir.Type, d dtype.DType, n ir.Dim) error {
	if want := (ir.Type{DType: d, Shape: ir.Shape{n}}); !t.Equal(want) {
		return ir.TypesDiffer(t, want, "%s is %v; want %v", name, t, want)
	}
	return nil
}

// numel returns the number of elements of a static type.
func numel(t ir.Type) int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d.Const
	}
	return n
}

func perElement[A any](k int64) func(A, []ir.Type, ir.Type) int64 {
	return func(_ A, _ []ir.Type, out ir.Type) int64 { return k * numel(out) }
}

func noFLOPs[A any](A, []ir.Type, ir.Type) int64 { return 0 }

// narrowInts are the integer types whose values i32 holds. They and bool are often the ir.Def.AsI32 of an op.
var (
	narrowInts        = []dtype.DType{dtype.I8, dtype.I16, dtype.U8}
	narrowIntsAndBool = append(slices.Clone(narrowInts), dtype.Bool)
)

// f32, i32 and friends keep cases short.
func f32(dims ...int64) ir.Type  { return ir.TypeOf(dtype.F32, dims...) }
func f16(dims ...int64) ir.Type  { return ir.TypeOf(dtype.F16, dims...) }
func bf16(dims ...int64) ir.Type { return ir.TypeOf(dtype.BF16, dims...) }
func f64(dims ...int64) ir.Type  { return ir.TypeOf(dtype.F64, dims...) }
func i32(dims ...int64) ir.Type  { return ir.TypeOf(dtype.I32, dims...) }
func i8(dims ...int64) ir.Type   { return ir.TypeOf(dtype.I8, dims...) }
func i64(dims ...int64) ir.Type  { return ir.TypeOf(dtype.I64, dims...) }
func i16(dims ...int64) ir.Type  { return ir.TypeOf(dtype.I16, dims...) }
func u8(dims ...int64) ir.Type   { return ir.TypeOf(dtype.U8, dims...) }
func u32(dims ...int64) ir.Type  { return ir.TypeOf(dtype.U32, dims...) }
func bools(dims ...int64) ir.Type {
	return ir.TypeOf(dtype.Bool, dims...)
}
