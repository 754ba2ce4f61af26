//go:build cgo && (darwin || amd64)

package backend

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// Mesa's llvmpipe silently ends all loops of an invocation after this many iterations in total, counting the last evaluation of
// each condition: LP_MAX_TGSI_LOOP_ITERATIONS in its lp_bld_limits.h. The result is then a partial sum.
const (
	llvmpipe      = "llvmpipe"
	llvmpipeLoops = 65535
)

// checkLoops refuses a shader whose loops the device would end early.
func (g *gpu) checkLoops(s kernels.Shader, c *kernels.Call) error {
	if s.Loops == nil || !strings.HasPrefix(g.name, llvmpipe) {
		return nil
	}
	if n := s.Loops(c); n > llvmpipeLoops {
		return fmt.Errorf("loops that go round %d times in an invocation; %s ends them after %d, and the result would be wrong", n, g.name, llvmpipeLoops)
	}
	return nil
}
