package kernels

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestTablestored(t *testing.T) {
	checkTable(t, func(s *isa.Set) any { return *storedOn(s) }, "dotF16", "dotBF16") // NEON widens a row at a time
}
