package driver

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// TestInterpretedPages checks attention to keys in pages on the interpreter: the kernels of all GPUs, and that for one
// query.
func TestInterpretedPages(t *testing.T) { testPages(t, interpreted(withMMA, strings.Clone)) }

// TestPages is TestInterpretedPages on the device.
func TestPages(t *testing.T) { testPages(t, shared) }

func testPages(t *testing.T, on device.Backend) {
	for _, c := range devicetest.PagedAttentions() {
		t.Run(c.String(), func(t *testing.T) {
			c.Test(t, func(p *program.Program) device.Executable { return loadProgram(t, on, p, "f32") },
				ir.Tolerance{Abs: 1e-5, Rel: 1e-5})
		})
	}
}
