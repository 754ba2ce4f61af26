package kernels

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func TestTablereduce(t *testing.T) {
	checkTable(t, func(s *isa.Set) any { return *reduceOn(s) })
}
