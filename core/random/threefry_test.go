package random

import (
	"math"
	"testing"
)

// TestThreefry holds the vectors of Random123's kat_vectors for threefry2x32 with 20 rounds.
func TestThreefry(t *testing.T) {
	const ones = 0xffffffff
	for _, c := range []struct{ ctr, key, want [2]uint32 }{
		{[2]uint32{0, 0}, [2]uint32{0, 0}, [2]uint32{0x6b200159, 0x99ba4efe}},
		{[2]uint32{ones, ones}, [2]uint32{ones, ones}, [2]uint32{0x1cb996fc, 0xbb002be7}},
		{[2]uint32{0x243f6a88, 0x85a308d3}, [2]uint32{0x13198a2e, 0x03707344}, [2]uint32{0xc4923a9c, 0x483df7a0}},
	} {
		if got := Threefry(c.ctr, c.key); got != c.want {
			t.Errorf("Threefry(%x, %x) = %x; want %x", c.ctr, c.key, got, c.want)
		}
	}
}

func TestGumbel(t *testing.T) {
	for _, c := range []struct {
		word uint32
		want float64
	}{
		{0, -math.Log(30 * math.Ln10)}, {255, -math.Log(30 * math.Ln10)}, {1 << 31, -math.Log(math.Ln2)},
		{math.MaxUint32, -math.Log(-math.Log1p(-0x1p-24))},
	} {
		if got := Gumbel(c.word); math.Abs(got-c.want) > 1e-8 {
			t.Errorf("Gumbel(%x) = %v; want %v", c.word, got, c.want)
		}
	}
}
