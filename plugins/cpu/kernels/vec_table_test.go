package kernels

import (
	"runtime"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestTablevec(t *testing.T) {
	optional := []string{"storeFence"}
	if runtime.GOARCH == "arm64" { // prefetches and stores past the caches have no NEON routines yet
		optional = append(optional, "stream", "prefetchRows")
	}
	checkTable(t, func(s *isa.Set) any { return *vecOn(s) }, optional...)
}
