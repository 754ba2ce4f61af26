package sample

import (
	"testing"

	"github.com/rlx-go/rlx/core/random"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// TestThreefry compares the vector routine with package random, whose own test has the published vectors.
func TestThreefry(t *testing.T) {
	for _, name := range isa.Features() {
		s := kerneltest.NewPool(t, 1, name).Set
		if on(s).threefry == nil {
			continue
		}
		r, got := kerneltest.RNG(6), make([]uint32, 5*s.Lanes)
		for range 50 {
			key, counter, first := [2]uint32{r.Uint32(), r.Uint32()}, r.Uint32(), r.Uint32() // first+i may wrap around
			on(s).threefry(got, counter, first, key)
			for i, w := range got {
				if want := random.Threefry([2]uint32{counter, first + uint32(i)}, key)[0]; w != want {
					t.Fatalf("%s: word %d from (%x, %x) on, key %x, is %x; want %x", name, i, counter, first, key, w,
						want)
				}
			}
		}
	}
}
