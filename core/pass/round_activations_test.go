package pass_test

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
)

// TestRoundActivations asks for rounded activations. cpu has kernels for them, wgpu does not.
func TestRoundActivations(t *testing.T) {
	for target, want := range map[string]string{"cpu": `activations="q8"`, "wgpu": `activations="f32"`} {
		g, err := ir.Parse(`graph g
x = input : f32[3,64]
idx = input : i32[3]
w = param : q4_0[5,2]
e = param : q4_0[4,5,2]
y = dequant_matmul x, w {scheme="packed", activations="f32"} : f32[3,5]
z = dequant_grouped_matmul x, e, idx {activations="f32"} : f32[3,5]
return y, z
`)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := pass.Run(g, builtin(t, target), pass.Options{Verify: true, Activations: op.ActivationsQ8})
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), want); n != 2 {
			t.Errorf("%s: %d products have %s; want 2:\n%v", target, n, want, out)
		}
	}
}
