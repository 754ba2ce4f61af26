package kernels

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestTableproduct(t *testing.T) {
	checkTable(t, func(s *isa.Set) any { return *productOn(s) },
		"panel.pairs", "narrow.pairs", "pair", "halfLoop", // bfloat16, which some processors lack
		"tiles", "tileRow", "blockRowsOut", "tilePanel", "tileLoop",
		"panel.rowsProduct", "narrow.rowsProduct") // AVX2 alone; others pack the rows
}
