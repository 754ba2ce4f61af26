package kernels

import (
	"maps"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestTableelem(t *testing.T) {
	checkTable(t, func(s *isa.Set) any { return *elemOn(s) }, "unary[0]",
		"binary[9]", "binary[10]", "binary[11]", "binary[12]", "binary[13]") // not functions of floats
	sets := isa.Available()
	for _, s := range sets[1:] { // if one set in assembly has a routine for a function, all must have it
		if slow, first := elemOn(s).slow, elemOn(sets[1]).slow; !maps.Equal(slow, first) {
			t.Errorf("%s computes %v in Go, %s %v", s.Name, slow, sets[1].Name, first)
		}
		if slow := elemOn(s).slow; slow[Exp] || slow[Add] || slow[Lt] {
			t.Errorf("%s: computed in Go are %v", s.Name, slow)
		}
	}
}
