package backend

import (
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
)

func open(*testing.T) device.Backend { return Backend{} }

// TestConformance runs every check of the suite on the backend in process.
func TestConformance(t *testing.T) {
	devicetest.Run(t, open, devicetest.Options{MustHave: true})
}

// FuzzKernels looks for shapes and values on which a kernel differs from its op's definition.
func FuzzKernels(f *testing.F) { devicetest.Fuzz(f, open) }
