package op_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// overhead returns the memory that Eval may allocate in addition. It consists of amounts that do not depend on the
// sizes of operands, such as lists of axes and the steps of a region, and of the page or eighth that Go adds to an
// allocation.
func overhead(c ir.Case[any], own int64) int64 {
	return 10<<10 + 64*int64(len(fmt.Sprint(c.Attrs))) + own/8
}

// TestMemory compares the memory that the definitions allocate with the results of their Memory functions, for the
// cases as they are, and for a sample of the cases with one size enlarged, or all of them with RLX_CONFORMANCE=all.
func TestMemory(t *testing.T) {
	larger := map[string][]ir.Case[any]{}
	eachCase(t, func(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
		if def.Eval == nil {
			return
		}
		checkMemory(t, def, c)
		larger[def.Name] = append(larger[def.Name], enlarged(def, c)...)
	})
	for _, def := range ir.Defs() {
		cases := larger[def.Name]
		for _, i := range devicetest.Some(t, 4, uint64(len(cases))) {
			t.Run(fmt.Sprintf("%s/%d", def.Name, i), func(t *testing.T) { checkMemory(t, def, cases[i]) })
		}
	}
	for _, name := range []string{"add", "attention", "elementwise_region", "fused_matmul", "fused_residual_layer_norm",
		"fused_residual_rms_norm",
		"grid_attention", "matmul", "reduce_sum", "softmax", "top_k"} {
		if len(larger[name]) == 0 {
			t.Errorf("%s: no case could be made larger", name)
		}
	}
}

// enlarged returns cases in which one size is 400 times as large wherever it occurs. It leaves out cases that the op
// refuses, and those that would be too large to evaluate.
func enlarged(def *ir.OpDef, c ir.Case[any]) (out []ir.Case[any]) {
	seen := map[int64]bool{}
	for _, typ := range c.In {
		for _, d := range typ.Shape {
			if seen[d.Const] || d.Const == 0 {
				continue
			}
			seen[d.Const] = true
			big := c
			big.In = nil
			for _, typ := range c.In {
				shape := slices.Clone(typ.Shape)
				for i := range shape {
					if shape[i].Const == d.Const {
						shape[i] = ir.Static(400 * d.Const)
					}
				}
				big.In = append(big.In, ir.Type{DType: typ.DType, Shape: shape})
			}
			types, err := def.InferResults(c.Attrs, big.In, c.Out, nil)
			elems := int64(0)
			for _, typ := range slices.Concat(big.In, types) {
				elems += ir.Syms(nil).MaxElems(typ)
			}
			if err == nil && elems < 1<<20 && def.FLOPs(c.Attrs, big.In, types...) < 1<<22 {
				out = append(out, big)
			}
		}
	}
	return out
}

func checkMemory(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
	t.Helper()
	g := caseGraph(t, def, c)
	var n *ir.Node
	for _, x := range g.Nodes {
		if x.Op == def {
			n = x
		}
	}
	arrays, own := n.EvalMemory()
	in := make([]*tensor.Array, len(c.In))
	for i, typ := range c.In {
		if typ.Present() {
			in[i] = tensor.NewArray(typ.DType, typ.Shape.Eval(nil)...)
		}
	}
	var out []*tensor.Array
	for _, typ := range n.ResultTypes() {
		out = append(out, tensor.NewArray(typ.DType, typ.Shape.Eval(nil)...))
	}
	var want int64
	for _, a := range slices.Concat(in, out) {
		if a == nil {
			continue
		}
		want += tensor.ArrayBytes(a.DType, int64(a.Len()))
	}
	if arrays != want {
		t.Errorf("%v %+v: arrays of %d bytes; EvalMemory says %d", c.In, c.Attrs, want, arrays)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := def.Eval(c.Attrs, in, out...)
	runtime.ReadMemStats(&after)
	if used := int64(after.TotalAlloc - before.TotalAlloc); used > own+overhead(c, own) {
		t.Errorf("%v %+v: allocated %d bytes (%v); EvalMemory says %d", c.In, c.Attrs, used, err, own)
	}
}
