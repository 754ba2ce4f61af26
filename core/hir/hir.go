// Package hir defines the block-level ops: the vocabulary in which a model is written down (linear, MLP, attention with
// relative positions). Each block infers its type and knows how it is expressed in tensor ops; it has no kernel and never
// reaches an artifact.
//
// It imports core/op and below, never a pass or a model.
package hir

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// f32 widens a parameter to f32 where it is stored narrower. The compiler folds the cast.
func f32(x *ir.Node) *ir.Node {
	if x.Type.DType == dtype.F32 {
		return x
	}
	return op.Cast(x, dtype.F32)
}

// part names a node inside the expansion of block n after what it is: blocks.0.attn.qkv.
func part(n *ir.Node, name string, x *ir.Node) *ir.Node {
	if n.Name != "" {
		x.Named(n.Name + "." + name)
	}
	return x
}

// vector checks an operand that has one value per channel.
func vector(what string, t ir.Type, n ir.Dim) error {
	const want = "%s is %v; want a float vector of %v"
	if len(t.Shape) != 1 || !t.DType.IsFloat() {
		return fmt.Errorf(want, what, t, n)
	}
	if t.Shape[0] != n {
		return ir.Differ(t.Shape[0], n, want, what, t, n)
	}
	return nil
}

// matrix checks a weight that is stored [out, in] and returns out. It may be of a packed type.
func matrix(what string, t ir.Type, in ir.Dim) (out ir.Dim, err error) {
	const want = "%s is %v; want a float matrix [out, %v]"
	if t.DType.IsPacked() && len(t.Shape) == 2 {
		k, ok := t.Shape[1].Mul(ir.Static(int64(t.DType.Values())))
		if !ok || k != in {
			return ir.Dim{}, ir.Differ(k, in, "%s is %v, of rows of %v; want rows of %v", what, t, k, in)
		}
		return t.Shape[0], nil
	}
	if len(t.Shape) != 2 || !t.DType.IsFloat() {
		return ir.Dim{}, fmt.Errorf(want, what, t, in)
	}
	if t.Shape[1] != in {
		return ir.Dim{}, ir.Differ(t.Shape[1], in, want, what, t, in)
	}
	return t.Shape[0], nil
}

// channels is the last dim of x; no weight matches that of a scalar.
func channels(x ir.Type) ir.Dim {
	if len(x.Shape) == 0 {
		return ir.Static(-1)
	}
	return x.Shape[len(x.Shape)-1]
}

// last replaces the last dim of a shape.
func last(s ir.Shape, d ir.Dim) ir.Shape {
	return append(append(ir.Shape{}, s[:len(s)-1]...), d)
}

// operand is what a block wants of one operand: its name and shape. Matrices may be of packed types.
type operand struct {
	name  string
	shape ir.Shape
}

// expect checks operands of floats, from operand first on, against what a block wants.
func expect(in []ir.Type, first int, want ...operand) error {
	for i, w := range want {
		t, n := in[first+i], len(w.shape)
		const format = "%s, operand %d, is %v; want floats of %v"
		dims := t.Shape
		if t.DType.IsPacked() && n == 2 && len(dims) == 2 {
			if k, ok := dims[1].Mul(ir.Static(int64(t.DType.Values()))); ok {
				dims = ir.Shape{dims[0], k}
			}
		} else if !t.DType.IsFloat() {
			return fmt.Errorf(format, w.name, first+i, t, w.shape)
		}
		if len(dims) != n {
			return fmt.Errorf(format, w.name, first+i, t, w.shape)
		}
		for k, d := range dims {
			if d != w.shape[k] {
				return ir.Differ(d, w.shape[k], format, w.name, first+i, t, w.shape)
			}
		}
	}
	return nil
}

// operandCount is the error of a block that has biases or not.
func operandCount(n int, hasBias bool, want int) error {
	return fmt.Errorf("%d operands; has_bias is %v, which makes %d", n, hasBias, want)
}
