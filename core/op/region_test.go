package op_test

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// TestRegionValues computes x/2 where x < 0, else x + y, by hand.
func TestRegionValues(t *testing.T) {
	x, y := f32s([]int{2, 3}, -4, -3, -2, -1, 0, 1), vector(10, 20, 30)
	attrs := op.ElementwiseRegionAttrs{Expr: "v0=lt(i0,0.0); v1=mul(i0,0.5); v2=add(i0,i1); v3=where(v0,v1,v2)"}
	got := eval(t, op.ElementwiseRegionDef, attrs, x, y)
	if err := interp.Compare(got, f32s([]int{2, 3}, -2, -1.5, -1, -0.5, 20, 31), ir.Tolerance{}); err != nil {
		t.Error(err)
	}
}

func TestRegionLimits(t *testing.T) {
	for expr, want := range map[string]string{
		"": "want v0=OP", "v0=neg(i0);v1=abs(v0)": "value", "v1=neg(i0)": "want v0=OP",
		"v0=neg(i1)": "uses i1 but not i0", "v0=neg(1.0)": "uses no inputs",
		"v0=neg(i16)": "want i0 to i15", "v0=neg(i-1)": "want i0 to i15", "v0=neg(i0); v1=neg(v-1)": "an earlier step",
		"v0=neg(i00)": "want it written", "v0=neg(i0,i0)": "2 operands; neg takes x",
		"v0=softmax(i0)":     "is not an op that a region",
		"v0=elu(i0,alpha=1)": "want it written", "v0=elu(i0,beta=1.0)": "unknown attribute",
		"v0=elu(i0,alpha=1.0": "want v0=OP", "v0=elu(alpha=1.0)": "0 operands",
		"v0=softplus(i0,threshold=1.0,beta=1.0)": "want it written", "v0=elu(i0,alpha=1.0,i1)": "attribute",
		"v0=neg(i0": "want v0=OP", "v0=add(i0,1e99)": "f32 number", "v0=add(i0,0.10000000000000001)": "want it written",
		"v0=add(i0,nan)":            "want it written",
		"v0=elementwise_region(i0)": "is not an op that a region", "v0=neg(i0)" + strings.Repeat("; v0=neg(i0)", 40): "step",
	} {
		if _, err := op.ParseRegion(expr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives error %v; want one with %q", expr, err, want)
		}
	}
}

// FuzzRegion checks that no text makes the parser panic, that text that parses prints the same, and that a region with
// valid types lowers to a graph with the same result.
func FuzzRegion(f *testing.F) {
	for _, c := range op.ElementwiseRegionDef.Cases() {
		f.Add(c.Attrs.(op.ElementwiseRegionAttrs).Expr)
	}
	f.Add("v0=pow(i0,-0.0); v1=ne(v0,NaN); v2=where(v1,i0,+Inf)")
	f.Fuzz(func(t *testing.T, expr string) {
		steps, err := op.ParseRegion(expr)
		if err != nil {
			return
		}
		if got := op.FormatRegion(steps); got != expr {
			t.Fatalf("%q prints as %q", expr, got)
		}
		n := 0
		for _, s := range steps {
			for _, o := range s.In {
				if o.Kind == op.RegionInput {
					n = max(n, o.Index+1)
				}
			}
		}
		c := ir.Case[any]{Attrs: op.ElementwiseRegionAttrs{Expr: expr}}
		for range n {
			c.In = append(c.In, ir.TypeOf(dtype.F32, 3))
		}
		g, err := interp.LowerOne(op.ElementwiseRegionDef, c.Attrs, c.In, ir.Type{})
		if err != nil {
			return // element types do not fit
		}
		in := interp.CaseInputs(c, 1)
		named := interpInputs(g, in)
		got, err := interp.Run(g, nil, named, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := interp.Compare(got["out"], eval(t, op.ElementwiseRegionDef, c.Attrs, in...),
			ir.Tolerance{}); err != nil {
			t.Fatal(err)
		}
	})
}
