package gpu

import (
	"slices"
	"testing"
)

// TestMerge checks that weights near each other are merged, and that the results begin at multiples of the unit.
func TestMerge(t *testing.T) {
	for _, c := range []struct {
		unit, gap int64
		in, want  []interval
	}{
		{256, 0, []interval{{from: 512, to: 600}, {from: 0, to: 100}, {from: 256, to: 300}}, []interval{{from: 0, to: 600}}},
		{256, 0, []interval{{from: 0, to: 256}, {from: 512, to: 600}}, []interval{{from: 0, to: 256}, {from: 512, to: 600}}},
		{256, 0, []interval{{from: 0, to: 5000}, {from: 256, to: 300}}, []interval{{from: 0, to: 5000}}},
		{1024, 0, []interval{{from: 768, to: 1000}, {from: 1280, to: 1300}}, []interval{{from: 0, to: 1300}}},
		{1024, 0, []interval{{from: 768, to: 1000}, {from: 2048, to: 3000}}, []interval{{from: 0, to: 1000}, {from: 2048, to: 3000}}},
		{1024, 1024, []interval{{from: 768, to: 1000}, {from: 2304, to: 3000}, {from: 8000, to: 9000}}, []interval{{from: 0, to: 3000}, {from: 7168, to: 9000}}},
		{1024, 1024, nil, nil},
	} {
		if got := merge(c.in, c.unit, c.gap); !slices.Equal(got, c.want) {
			t.Errorf("in units of %d with gaps of %d: %v; want %v", c.unit, c.gap, got, c.want)
		}
	}
}
