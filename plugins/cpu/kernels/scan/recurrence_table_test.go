package scan

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestRecurrenceTable(t *testing.T) {
	kerneltest.CheckTable(t, func(s *isa.Set) any { return *recOn(s) })
}
