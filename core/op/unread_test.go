package op_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestUnread checks for every case of every op that operands of which the definition says that they do not matter
// indeed do not.
func TestUnread(t *testing.T) {
	tried := map[string]bool{}
	eachCase(t, func(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
		for _, u := range def.Unread(c.Attrs) {
			if u.By < len(c.In) && c.In[u.By].DType == dtype.Bool {
				tried[def.Name] = true
				unread(t, def, c, u)
			}
		}
	})
	bools := ir.TypeOf(dtype.Bool, 3)
	region := ir.Case[any]{In: []ir.Type{bools, ir.TypeOf(dtype.F32, 3), ir.TypeOf(dtype.F32, 3), bools},
		Attrs: op.ElementwiseRegionAttrs{Expr: "v0=add(i1,i2); v1=neg(i2); v2=where(i3,v0,v1); v3=where(i0,v2,i2)"}}
	list := op.ElementwiseRegionDef.Unread(region.Attrs)
	want := []ir.Unread{{Operand: 1, By: 0}, {Operand: 3, By: 0}, {Operand: 1, By: 3}}
	if !slices.Equal(list, want) {
		t.Errorf("%v; want %v", list, want)
	}
	for _, u := range list {
		unread(t, op.ElementwiseRegionDef, region, u)
	}
	if len(tried) < 3 { // where, and, elementwise_region
		t.Errorf("tried %v", tried)
	}
}

func unread(t *testing.T, def *ir.OpDef, c ir.Case[any], u ir.Unread) {
	t.Helper()
	typ, err := def.Infer(c.Attrs, c.In, c.Out, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := interp.CaseInputs(c, 5)
	value := 0.0
	if u.Value {
		value = 1
	}
	fill(in[u.By], value)
	var results []*tensor.Array
	for _, v := range []float64{math.NaN(), 0, 1e6, math.Inf(-1)} {
		fill(in[u.Operand], v)
		out := tensor.NewArray(typ.DType, typ.Shape.Eval(nil)...)
		if err := def.Eval(c.Attrs, in, out); err != nil {
			t.Fatal(err)
		}
		results = append(results, out)
		if err := interp.Compare(out, results[0], ir.Tolerance{}); err != nil {
			t.Errorf("%+v: the result depends on the operand: %v", u, err)
		}
	}
}
