// Package hir defines the block-level ops in which models are written, such as linear, MLP and attention with relative
// positions. A block infers its type and can be lowered to tensor ops. It has no kernel and is never part of an
// artifact.
//
// The package imports core/op and what that imports, but no pass and no model.
package hir

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// f32 casts a parameter to f32 if it is stored in a narrower type. The compiler folds the cast. x may be nil.
func f32(x *ir.Node) *ir.Node {
	if x == nil || x.Type.DType == dtype.F32 {
		return x
	}
	return op.Cast(x, dtype.F32)
}

// part names a node in the lowering of block n: the part qkv of blocks.0.attn is called blocks.0.attn.qkv.
func part(n *ir.Node, name string, x *ir.Node) *ir.Node {
	if n.Name != "" {
		x.Named(n.Name + "." + name)
	}
	return x
}

// vector checks that t is a float vector with n elements. what names the operand in the error.
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

// matrix checks that t is a weight [out,in] of floats or a packed type, and returns out. what names the operand in the
// error.
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

// channels returns the last dim of x. For a scalar it returns a dim that matches no weight.
func channels(x ir.Type) ir.Dim {
	if len(x.Shape) == 0 {
		return ir.Static(-1)
	}
	return x.Shape[len(x.Shape)-1]
}

// last returns s with d as its last dim.
func last(s ir.Shape, d ir.Dim) ir.Shape {
	return append(append(ir.Shape{}, s[:len(s)-1]...), d)
}

// expect checks that the operands of a block from index first on, but for absent ones, are floats of the given shapes.
// Matrices may have packed types.
func expect(block string, in []ir.Type, first int, want ...ir.Shape) error {
	def, _ := ir.Find(block)
	for i, shape := range want {
		t, n := in[first+i], len(shape)
		if !t.Present() {
			continue
		}
		const format = "%s is %v; want floats of %v"
		name := def.OperandName(first + i)
		dims := t.Shape
		if t.DType.IsPacked() && n == 2 && len(dims) == 2 {
			if k, ok := dims[1].Mul(ir.Static(int64(t.DType.Values()))); ok {
				dims = ir.Shape{dims[0], k}
			}
		} else if !t.DType.IsFloat() {
			return fmt.Errorf(format, name, t, shape)
		}
		if len(dims) != n {
			return fmt.Errorf(format, name, t, shape)
		}
		for k, d := range dims {
			if d != shape[k] {
				return ir.Differ(d, shape[k], format, name, t, shape)
			}
		}
	}
	return nil
}
