package op_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestBackward compares the gradient rules of ops that have a backward op, or whose rule is more than a formula, with
// central differences of the forward op in float64, for every case.
func TestBackward(t *testing.T) {
	for _, def := range backwardOps {
		t.Run(def.Name, func(t *testing.T) {
			if def.GradientOf() == nil {
				t.Fatal("has no gradient rule")
			}
			for i, c := range def.Cases() {
				t.Run(fmt.Sprint(i), func(t *testing.T) { checkGradient(t, def, c) })
			}
		})
	}
}

var backwardOps = []*ir.OpDef{op.RmsNormDef, op.LayerNormDef, op.GroupNormDef, op.InstanceNormDef, op.L2NormDef,
	op.AttentionDef,
	op.RopeDef, op.CumsumDef, op.GatherDef, op.SoftmaxCrossEntropyDef, op.Conv1DDef, op.Conv2DDef,
	op.Conv3DDef, op.ConvTranspose1DDef, op.ConvTranspose2DDef, op.ConvTranspose3DDef, op.PoolDef, op.Im2ColDef,
	op.ResizeDef, op.AdaptiveAvgPoolDef, op.LogMelDef, op.DenseSolveDef}

// samples is the number of elements of an operand for which a central difference is computed.
const samples = 12

// checkGradient compares the rule of an op with central differences of the sum of its result times random weights.
func checkGradient(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
	for k, typ := range c.In {
		if typ.DType == dtype.F16 || typ.DType == dtype.BF16 || k == 0 && !typ.DType.IsFloat() {
			return // constants and casts round, and integers have no gradient
		}
	}
	g := caseGraph(t, def, c)
	y := g.Outputs[0].Node
	dy := op.Input(g, "dy", y.Type)
	dx, err := def.GradientOf()(y, []*ir.Node{dy})
	if err != nil {
		t.Fatal(err)
	}
	var wrt []int
	for k, x := range dx {
		if x == nil || x == ir.NoGradient {
			continue
		}
		if !x.Type.Equal(c.In[k]) {
			t.Fatalf("gradient of operand %d is %v; want %v", k, x.Type, c.In[k])
		}
		wrt = append(wrt, k)
		g.Return(fmt.Sprint("d", k), x)
	}
	if err := g.Verify(); err != nil {
		t.Fatal(err)
	}
	in := interp.CaseInputs(c, 8)
	weights := interp.CaseInputs(ir.Case[any]{In: []ir.Type{y.Type}}, 9)[0]
	named := map[string]*tensor.Array{"dy": weights}
	for k, x := range in {
		if x != nil {
			named[fmt.Sprint("i", k)] = x
		}
	}
	got, err := interp.Run(g, nil, named, nil)
	if err != nil {
		t.Fatal(err)
	}
	loss := func() float64 {
		sum := 0.0
		for i, v := range results(t, def, c, in)[0].Floats {
			sum += v * weights.Floats[i]
		}
		return sum
	}
	if got["out"].Len() == 0 {
		return
	}
	for _, k := range wrt {
		x, d := in[k], got[fmt.Sprint("d", k)]
		for s := range min(samples, x.Len()) {
			i := (s*7919 + s*s) % x.Len()
			if x.Len() <= samples {
				i = s
			}
			old, h := x.Floats[i], 1e-4
			at := func(v float64) float64 { x.Floats[i] = v; return loss() }
			// the error of the five-point formula is of order h^4
			want := (8*(at(old+h)-at(old-h)) - (at(old+2*h) - at(old-2*h))) / (12 * h)
			x.Floats[i] = old
			if diff := math.Abs(d.Floats[i] - want); !(diff <= 1e-7+1e-6*math.Abs(want)) {
				t.Errorf("d of operand %d, element %d is %v; the central difference is %v", k, i, d.Floats[i], want)
			}
		}
	}
}
