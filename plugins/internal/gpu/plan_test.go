package gpu

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// TestParams checks that a shader has a value for each word of its parameter struct.
func TestParams(t *testing.T) {
	s := kernels.Shader{Name: "mine", Fields: []string{"n", "scale:f32", "batch:2"}}
	if got := appendParams([]byte{7}, s, []uint32{1, 2, 3, 0x04050607}); !bytes.Equal(
		got, []byte{7, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 7, 6, 5, 4}) {
		t.Errorf("the bytes are %v", got)
	}
	if got := appendParams(nil, kernels.Shader{}, []uint32{}); len(got) != 0 {
		t.Errorf("no fields: the bytes are %v", got)
	}
	for n := range 7 {
		if n == 4 {
			continue
		}
		func() {
			defer func() {
				if why, _ := recover().(string); !strings.HasPrefix(why, "BUG: shader mine has ") {
					t.Errorf("%d values for 4 words: panic %q", n, why)
				}
			}()
			appendParams(nil, s, make([]uint32, n))
		}()
	}
}

// TestMerge checks that weights near each other are merged, and that the results begin at multiples of the unit.
func TestMerge(t *testing.T) {
	for _, c := range []struct {
		unit, gap int64
		in, want  []interval
	}{
		{256, 0, []interval{{from: 512, to: 600}, {from: 0, to: 100}, {from: 256, to: 300}},
			[]interval{{from: 0, to: 600}}},
		{256, 0, []interval{{from: 0, to: 256}, {from: 512, to: 600}},
			[]interval{{from: 0, to: 256}, {from: 512, to: 600}}},
		{256, 0, []interval{{from: 0, to: 5000}, {from: 256, to: 300}}, []interval{{from: 0, to: 5000}}},
		{1024, 0, []interval{{from: 768, to: 1000}, {from: 1280, to: 1300}}, []interval{{from: 0, to: 1300}}},
		{1024, 0, []interval{{from: 768, to: 1000}, {from: 2048, to: 3000}},
			[]interval{{from: 0, to: 1000}, {from: 2048, to: 3000}}},
		{1024, 1024, []interval{{from: 768, to: 1000}, {from: 2304, to: 3000}, {from: 8000, to: 9000}},
			[]interval{{from: 0, to: 3000}, {from: 7168, to: 9000}}},
		{1024, 1024, nil, nil},
	} {
		if got := merge(c.in, c.unit, c.gap); !slices.Equal(got, c.want) {
			t.Errorf("in units of %d with gaps of %d: %v; want %v", c.unit, c.gap, got, c.want)
		}
	}
}
