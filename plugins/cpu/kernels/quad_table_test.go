package kernels

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestTablequad(t *testing.T) {
	checkTable(t, func(s *isa.Set) any { return *quadOn(s) }, "quads[0].pairBytes", "quads[1].pairBytes") // those with a unit of 2 alone
}
