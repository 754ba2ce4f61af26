//go:build cgo && (darwin || amd64)

package backend

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// Mesa's llvmpipe ends all loops of an invocation, without an error, when they have gone round so often in all, the last look
// at each condition included: LP_MAX_TGSI_LOOP_ITERATIONS in its lp_bld_limits.h. What was summed until then is the result.
const (
	llvmpipe      = "llvmpipe"
	llvmpipeLoops = 65535
)

// checkLoops refuses a shader whose loops the device would not run to their end.
func (g *gpu) checkLoops(s kernels.Shader, c *kernels.Call) error {
	if s.Loops == nil || !strings.HasPrefix(g.name, llvmpipe) {
		return nil
	}
	if n := s.Loops(c); n > llvmpipeLoops {
		return fmt.Errorf("loops that go round %d times in an invocation; %s ends them after %d, and the result would be wrong", n, g.name, llvmpipeLoops)
	}
	return nil
}
