//go:build cgo && (darwin || amd64)

package backend

import (
	"os"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
)

var shared = New(Options{})

func open(*testing.T) device.Backend { return shared }

// TestConformance runs every check of the suite on the first adapter. Without one it is skipped, unless RLX_REQUIRE_GPU
// says that there must be one.
func TestConformance(t *testing.T) {
	failing := []devicetest.Exception{
		// Tiled convolutions multiply the zeros of the padding, too, so that an infinite weight gives a NaN at the
		// borders.
		{Name: "conv1d/4/spread", Reason: "a convolution in tiles multiplies the padding by the weights"},
	}
	devicetest.Run(t, open, devicetest.Options{
		MustHave: os.Getenv("RLX_REQUIRE_GPU") != "", Failing: failing, Compile: compiled,
		Share: 0.01, Ops: 0.12, // a software adapter takes 0.1 s to compile a shader
	})
}
