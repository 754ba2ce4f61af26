package reduce

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestTable(t *testing.T) {
	kerneltest.CheckTable(t, func(s *isa.Set) any { return *On(s) })
}
