package vec_test

import (
	"runtime"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

func TestTable(t *testing.T) {
	optional := []string{"StoreFence"}
	if runtime.GOARCH == "arm64" { // prefetches and stores past the caches have no NEON routines yet
		optional = append(optional, "Stream", "PrefetchRows", "StencilPixels", "StencilLines", "StencilEvenLines",
			"DotsFew")
	}
	kerneltest.CheckTable(t, func(s *isa.Set) any { return *vec.On(s) }, optional...)
}
