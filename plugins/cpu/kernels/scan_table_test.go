package kernels

import (
	"runtime"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestTablescan(t *testing.T) {
	if runtime.GOARCH != "arm64" { // which has no such routines yet
		checkTable(t, func(s *isa.Set) any { return *scanOn(s) })
	}
}
