package op_test

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// TestIm2ColErrors checks the errors for sizes that no kernel should see.
func TestIm2ColErrors(t *testing.T) {
	pair := func(a, b int) []int { return []int{a, b} }
	for _, c := range []struct {
		x     []int64
		attrs op.Im2ColAttrs
		want  string
	}{
		{[]int64{1, 3, 8, 8}, op.Im2ColAttrs{}, "kernel is []; want 2 numbers"},
		{[]int64{1, 3, 8, 8}, op.Im2ColAttrs{Kernel: pair(0, 2)}, "kernel is [0 2]; want numbers from 1"},
		{[]int64{1, 3, 8, 8}, op.Im2ColAttrs{Kernel: pair(2, 2), Stride: pair(2, 0)},
			"stride is [2 0]; want numbers from 1"},
		{[]int64{1, 3, 8, 8}, op.Im2ColAttrs{Kernel: pair(2, 2), Padding: pair(-1, 0)},
			"padding is [-1 0]; want numbers from 0"},
		{[]int64{1, 3, 8, 8}, op.Im2ColAttrs{Kernel: pair(1<<40, 2)}, "want numbers from 1 to"},
		{[]int64{1, 3, 8, 8}, op.Im2ColAttrs{Kernel: pair(9, 2)}, "smaller than the kernel, which covers 9"},
		{[]int64{1, 3, 8}, op.Im2ColAttrs{Kernel: pair(2, 2)}, "rank"},
		{[]int64{1 << 20, 1, 1, 1}, op.Im2ColAttrs{Kernel: pair(1, 1), Padding: pair(1<<14, 1<<14)},
			"more than a dim may be"},
		{[]int64{1, 1 << 20, 1, 1}, op.Im2ColAttrs{Kernel: pair(1<<15, 1<<15), Padding: pair(1<<14, 1<<14)},
			"larger than a dim may be"},
	} {
		g := ir.NewGraph("patches")
		op.Im2Col(op.Input(g, "x", ir.TypeOf(dtype.F32, c.x...)), c.attrs)
		if err := g.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %+v: %v; want %q", c.x, c.attrs, err, c.want)
		}
	}
}
