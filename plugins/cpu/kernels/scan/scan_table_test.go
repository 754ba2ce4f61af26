package scan

import (
	"runtime"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestScanTable(t *testing.T) {
	if runtime.GOARCH != "arm64" { // which has no such routines yet
		kerneltest.CheckTable(t, func(s *isa.Set) any { return *scanOn(s) })
	}
}
