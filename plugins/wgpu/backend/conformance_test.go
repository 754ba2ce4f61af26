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

// TestConformance runs every check of the suite on the first adapter. Without one it is skipped, unless RLX_REQUIRE_GPU says
// that there must be one.
func TestConformance(t *testing.T) {
	devicetest.Run(t, open, devicetest.Options{
		MustHave: os.Getenv("RLX_REQUIRE_GPU") != "",
		Failing: []devicetest.Exception{
			{Name: "attention/*/spread", Reason: "a key that is masked out still adds 0 * v, so a NaN or Inf in its v shows"},
		},
	})
}
