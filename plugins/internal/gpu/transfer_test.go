package gpu

import (
	"slices"
	"testing"
)

// TestJoin checks which stretches are merged.
func TestJoin(t *testing.T) {
	for _, c := range []struct{ list, want []stretch }{
		{nil, nil},
		{[]stretch{{0, 0, 4}, {256, 256, 8}, {512, 512, 4}}, []stretch{{0, 0, 516}}},
		{[]stretch{{0, 256, 4}, {4096, 4352, 4}}, []stretch{{0, 256, 4100}}}, // a gap
		// the largest gap that is copied
		{[]stretch{{0, 0, 4}, {joinGap + 4, joinGap + 4, 4}}, []stretch{{0, 0, joinGap + 8}}},
		{[]stretch{{0, 0, 4}, {joinGap + 5, joinGap + 5, 4}}, []stretch{{0, 0, 4}, {joinGap + 5, joinGap + 5, 4}}},
		{[]stretch{{0, 0, 4}, {512, 256, 4}}, []stretch{{0, 0, 4}, {512, 256, 4}}}, // another distance
		{[]stretch{{512, 512, 4}, {0, 0, 4}}, []stretch{{512, 512, 4}, {0, 0, 4}}}, // another order
		{[]stretch{{0, 0, 4}, {0, 256, 4}}, []stretch{{0, 0, 4}, {0, 256, 4}}},     // the same tensor twice
	} {
		if got := join(c.list); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v; want %v", c.list, got, c.want)
		}
	}
}

// TestWithin checks how stretches are divided among staging buffers.
func TestWithin(t *testing.T) {
	list := []stretch{{1000, 0, 100}, {5000, 256, 1000}}
	for _, c := range []struct {
		from, n int64
		want    []stretch
	}{
		{0, 2000, list},
		{0, 256, []stretch{{1000, 0, 100}}},
		{256, 256, []stretch{{5000, 0, 256}}},
		{512, 512, []stretch{{5256, 0, 512}}},
		{1024, 512, []stretch{{5768, 0, 232}}},
		{1536, 512, nil},
		{100, 100, nil},
	} {
		if got := within(list, c.from, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%d bytes from %d: %v; want %v", c.n, c.from, got, c.want)
		}
	}
}
