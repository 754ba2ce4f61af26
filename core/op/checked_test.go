package op_test

import (
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestChecked gives every case of every op operands with extreme values. If Eval refuses one, the definition must list
// the operand as checked, and the safe value must be accepted. Control flow relies on this: branches that are not taken
// are computed with safe values.
func TestChecked(t *testing.T) {
	needed := map[string]bool{}
	eachCase(t, func(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
		types, err := def.InferResults(c.Attrs, c.In, c.Out, nil)
		if err != nil || def.Eval == nil {
			return
		}
		eval := func(in []*tensor.Array) error {
			var out []*tensor.Array
			for _, t := range types {
				out = append(out, tensor.NewArray(t.DType, t.Shape.Eval(nil)...))
			}
			return def.Eval(c.Attrs, in, out...)
		}
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 2, 1e6, -1e6} {
			in := interp.CaseInputs(c, 1)
			for k := range in {
				if def.Updates && k > 0 { // not in a branch
					continue
				}
				fill(in[k], v)
				for _, x := range def.Checked {
					if x.Operand == k {
						fill(in[k], x.Safe)
					}
				}
			}
			if err := eval(in); err != nil {
				t.Errorf("%v in place of each operand that is not checked: %v", v, err)
			}
			for _, x := range def.Checked {
				if k := x.Operand; k < len(in) && in[k] != nil {
					fill(in[k], v)
					if eval(in) != nil {
						needed[def.Name+def.Operands[k].Name] = true
					}
					fill(in[k], x.Safe)
				}
			}
		}
	})
	for _, def := range ir.Defs() {
		for _, x := range def.Checked {
			if name := def.Operands[x.Operand].Name; !needed[def.Name+name] {
				t.Errorf("%s: operand %s is checked, but no value of it was refused", def.Name, name)
			}
		}
	}
}

func fill(a *tensor.Array, v float64) {
	if a == nil {
		return
	}
	for i := range a.Floats {
		a.Floats[i] = v
	}
	if a.Ints == nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	lo, hi := a.DType.IntRange()
	for i := range a.Ints {
		a.Ints[i] = max(min(int64(v), hi), lo)
	}
}
