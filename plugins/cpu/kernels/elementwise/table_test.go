package elementwise

import (
	"maps"
	"runtime"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestTable(t *testing.T) {
	absent := []string{"unary[0]", "Binary[9]", "Binary[10]", "Binary[11]", "Binary[12]", "Binary[13]"} // not of floats
	if runtime.GOARCH == "arm64" {
		absent = append(absent, "mulAddRows")
	}
	kerneltest.CheckTable(t, func(s *isa.Set) any { return *On(s) }, absent...)
	sets := isa.Available()
	for _, s := range sets[1:] { // if one set in assembly has a routine for a function, all must have it
		if slow, first := On(s).slow, On(sets[1]).slow; !maps.Equal(slow, first) {
			t.Errorf("%s computes %v in Go, %s %v", s.Name, slow, sets[1].Name, first)
		}
		if slow := On(s).slow; slow[Exp] || slow[Add] || slow[Lt] {
			t.Errorf("%s: computed in Go are %v", s.Name, slow)
		}
	}
}
