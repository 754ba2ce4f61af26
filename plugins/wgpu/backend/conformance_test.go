//go:build cgo && (darwin || amd64)

package backend

import (
	"os"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

var shared = New(Options{})

func open(*testing.T) device.Backend { return shared }

// TestConformance runs every check of the suite on the first adapter. Without one it is skipped, unless RLX_REQUIRE_GPU says
// that there must be one.
func TestConformance(t *testing.T) {
	failing := []devicetest.Exception{
		// Convolutions in tiles multiply the zeros of the padding, too, so that an infinite weight gives a NaN at the borders.
		{Name: "conv1d/4/spread", Reason: "a convolution in tiles multiplies the padding by the weights"},
	}
	if flushes(t) {
		const why = "the device takes denormals for 0, as WGSL allows: 1e-40 * Inf is a NaN on it"
		for _, name := range []string{"mul/*/spread", "div/*/spread", "div/*/special", "pow/*/spread", "pow/*/special"} {
			failing = append(failing, devicetest.Exception{Name: name, Reason: why})
		}
	}
	devicetest.Run(t, open, devicetest.Options{MustHave: os.Getenv("RLX_REQUIRE_GPU") != "", Failing: failing, Compile: compiled})
}

// flushes reports whether denormals are 0 to the device.
func flushes(t *testing.T) bool {
	x := tensor.NewArray(dtype.F32, 1)
	x.F[0] = 1e-40
	p := sums(t, 1, 1)
	return onDevice(t, load(t, shared, p, nil), p, nil, map[string]*tensor.Array{"x": x})["y"].F[0] == 0
}
