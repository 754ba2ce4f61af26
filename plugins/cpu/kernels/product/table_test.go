package product

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestTable(t *testing.T) {
	kerneltest.CheckTable(t, func(s *isa.Set) any { return *On(s) },
		"Panel.Pairs", "Narrow.Pairs", "pair", "halfLoop", // bfloat16, which some processors lack
		"Tiles", "tileRow", "blockRowsOut", "tilePanel", "tileLoop",
		"Panel.stored", "Narrow.stored", // x86 alone; NEON packs the rows
		"Panel.rowsProduct", "Narrow.rowsProduct") // AVX2 alone; others pack the rows
}
