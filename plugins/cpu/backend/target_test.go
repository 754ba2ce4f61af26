package backend

import (
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/internal/golden"
)

// TestDescription checks that the compiler's copy equals the backend's description. -update rewrites the copy.
func TestDescription(t *testing.T) {
	golden.Text(t, "../../../core/target/cpu.target", Description().String())
	if err := Description().Check(); err != nil {
		t.Error(err)
	}
}

// TestRegions checks that an elementwise op has a kernel in a region if and only if it has one alone, for f32.
func TestRegions(t *testing.T) {
	for _, d := range ir.Defs() {
		if !op.CanBeInRegion(d) || len(d.Operands) > 2 {
			continue
		}
		g := ir.NewGraph("region")
		var in []*ir.Node
		attrs := d.Cases()[0].Attrs
		expr := op.FormatRegion(
			[]op.RegionStep{{Op: d, Attrs: attrs, In: []op.RegionOperand{{Index: 0}, {Index: 1}}[:len(d.Operands)]}})
		if _, err := d.Infer(attrs, []ir.Type{ir.TypeOf(dtype.F32), ir.TypeOf(dtype.F32)}[:len(d.Operands)], ir.Type{},
			nil); err != nil || d == op.CastDef {
			continue // does not take floats
		}
		for i := range d.Operands {
			in = append(in, op.Input(g, string(rune('a'+i)), ir.TypeOf(dtype.F32, 3)))
		}
		alone, _ := Description().Takes(g.Add(d, attrs, in...))
		region := op.ElementwiseRegion(expr, in...)
		how, why := Description().Takes(region)
		if (alone == target.Native) != (how == target.Native) {
			t.Errorf("%s: alone %v, in a region %v: %s", d.Name, alone, how, why)
		}
		if _, native, err := find(region); err != nil || native != (how == target.Native) {
			t.Errorf("%s: found a kernel: %v (%v); the rule says %v", d.Name, native, err, how)
		}
	}
}
