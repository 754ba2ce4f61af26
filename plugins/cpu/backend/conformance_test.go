package backend

import (
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
)

func open(*testing.T) device.Backend { return Backend{} }

// TestConformance runs every check of the suite on the backend in process.
func TestConformance(t *testing.T) {
	devicetest.Run(t, open, devicetest.Options{
		MustHave: true,
		Failing: []devicetest.Exception{
			{Name: "attention/*/spread", Reason: "a key that is masked out still adds 0 * v, so a NaN or Inf in its v shows"},
			{Name: "conv2d/*/spread", Reason: "padding is multiplied as zeros, so a NaN or Inf in the weight shows at the edges"},
			{Name: "conv_transpose2d/*/spread", Reason: "places that no element reaches are multiplied as zeros, so a NaN or Inf in the weight shows there"},
		},
	})
}

// FuzzKernels looks for shapes and values on which a kernel differs from its op's definition.
func FuzzKernels(f *testing.F) { devicetest.Fuzz(f, open) }
