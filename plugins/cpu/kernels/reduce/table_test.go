package reduce

import (
	"runtime"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestTable(t *testing.T) {
	var optional []string
	if runtime.GOARCH == "arm64" { // several rows at a time have no NEON routine yet
		optional = append(optional, "NormRows")
	}
	kerneltest.CheckTable(t, func(s *isa.Set) any { return *On(s) }, optional...)
}
