package quad

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestTable(t *testing.T) {
	// those with a unit of 2 alone
	kerneltest.CheckTable(t, func(s *isa.Set) any { return *On(s) }, "Quads[0].pairBytes", "Quads[1].pairBytes")
}
