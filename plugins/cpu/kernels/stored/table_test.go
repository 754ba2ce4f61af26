package stored_test

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

func TestTable(t *testing.T) {
	// NEON widens a row at a time
	kerneltest.CheckTable(t, func(s *isa.Set) any { return *stored.On(s) }, "DotF16", "dotBF16")
}
