package op_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/tensortest"
)

// splatGolden returns the operands of a golden scene (testdata/goldens/splat_small/README.md).
func splatGolden(t *testing.T, name string) (in []*tensor.Array, width, height int) {
	t.Helper()
	file := filepath.Join("../../testdata/goldens", name, "golden.safetensors")
	for _, part := range []string{"positions", "scales", "rotations", "opacities", "colors", "sh", "meta"} {
		in = append(in, tensortest.Golden(t, file+":"+part))
	}
	shape := tensortest.Golden(t, file+":rgba").Shape
	return in, shape[1], shape[0]
}

// TestSplatStages checks that gaussian_splat_render is gaussian_splat_rasterize of gaussian_splat_prepare, to the bit.
func TestSplatStages(t *testing.T) {
	for _, name := range []string{"splat_small", "splat_sh", "splat_many"} {
		in, w, h := splatGolden(t, name)
		want := eval(t, op.GaussianSplatRenderDef, op.GaussianSplatRenderAttrs{Width: w, Height: h}, in...)
		for _, tile := range []int{1, 7, 16, 64} {
			types := make([]ir.Type, len(in))
			for k, x := range in {
				types[k] = interp.TypeOf(x)
			}
			a := op.GaussianSplatPrepareAttrs{Width: w, Height: h, Tile: tile}
			prepared := results(t, op.GaussianSplatPrepareDef, ir.Case[any]{Attrs: a, In: types}, in)
			got := eval(t, op.GaussianSplatRasterizeDef,
				op.GaussianSplatRasterizeAttrs{Width: w, Height: h, Tile: tile}, append(prepared, in[6])...)
			if err := interp.Compare(got, want, ir.Tolerance{}); err != nil {
				t.Errorf("%s, tiles of %d: %v", name, tile, err)
			}
			// 576 entries, the default of other renderers, are too few for splat_many.
			a.MaxListEntries = 576
			types2, err := op.GaussianSplatPrepareDef.InferResults(a, types, ir.Type{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var out []*tensor.Array
			for _, typ := range types2 {
				out = append(out, tensor.NewArray(typ.DType, typ.Shape.Eval(nil)...))
			}
			err = op.GaussianSplatPrepareDef.Eval(a, in, out...)
			if name == "splat_many" && tile < 64 &&
				(err == nil || !strings.Contains(err.Error(), "max_list_entries is 576")) {
				t.Errorf("%s: a list that is too short gives error %v", name, err)
			}
		}
	}
}

// TestSplatErrors checks the messages about values that no scene may have.
func TestSplatErrors(t *testing.T) {
	for _, c := range []struct {
		operand, element int
		value            float64
		want             string
	}{
		{0, 7, math.NaN(), "positions[7], of splat 2, is NaN"}, {1, 3, 81, "scales[3], of splat 1, is 81"},
		{1, 3, math.Inf(1), "scales[3], of splat 1, is +Inf"}, {3, 5, math.NaN(), "opacities[5], of splat 5"},
		{5, 3, math.Inf(-1), "sh[3], of splat 1"}, {6, 9, 180, "field of view, is 180 degrees"},
		{6, 18, 0, "radius_scale, is 0"}, {6, 19, 0, "alpha_cutoff, is 0"}, {6, 0, math.NaN(), "meta[0] is NaN"},
	} {
		in, w, h := splatGolden(t, "splat_small")
		in[c.operand].Floats[c.element] = c.value
		_, err := tryEval(op.GaussianSplatRenderDef, op.GaussianSplatRenderAttrs{Width: w, Height: h}, in...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v; want %q", err, c.want)
		}
	}
	in, w, h := splatGolden(t, "splat_small")
	copy(in[2].Floats[8:], []float64{0, 0, 0, 0})
	_, err := tryEval(op.GaussianSplatRenderDef, op.GaussianSplatRenderAttrs{Width: w, Height: h}, in...)
	if err == nil || !strings.Contains(err.Error(), "rotations of splat 2 are all 0") {
		t.Errorf("a quaternion of 0 gives error %v", err)
	}
	empty := []ir.Type{}
	for range 6 {
		empty = append(empty, interp.TypeOf(f32s([]int{0})))
	}
	_, err = op.GaussianSplatRenderDef.Infer(op.GaussianSplatRenderAttrs{Width: w, Height: h},
		append(empty, interp.TypeOf(in[6])), ir.Type{}, nil)
	if err == nil || !strings.Contains(err.Error(), "for 0 to 0 splats; want 1") {
		t.Errorf("no splats give error %v", err)
	}
}
