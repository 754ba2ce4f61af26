package pass

import (
	"math/rand/v2"
	"testing"
)

// TestEmptyTaps compares with the positions of all taps, for the size itself and for smaller ones.
func TestEmptyTaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := 0
	for range 100000 {
		kernel, stride, dilation := 1+rng.IntN(7), 1+rng.IntN(4), 1+rng.IntN(6)
		padding, size := rng.IntN(20), rng.IntN(12)
		over := size + 2*padding - dilation*(kernel-1) - 1
		if over < 0 {
			continue
		}
		cut := emptyTaps(size, over/stride+1, kernel, stride, padding, dilation)
		if cut == 0 {
			continue
		}
		some++
		if 2*cut >= kernel || cut*dilation > padding {
			t.Fatalf("%d of %d taps are cut at each end, dilation %d, padding %d", cut, kernel, dilation, padding)
		}
		for small := range size + 1 {
			for o := range max(0, (small+2*padding-dilation*(kernel-1)-1)/stride+1) {
				for k := range kernel {
					at := o*stride - padding + k*dilation
					if (k < cut || k >= kernel-cut) && at >= 0 && at < small {
						t.Fatalf("tap %d of %d is cut and lies on pixel %d of %d: stride %d, padding %d, dilation %d", k,
							kernel, at, small, stride, padding, dilation)
					}
				}
			}
		}
	}
	if some < 1000 {
		t.Errorf("only %d of the kernels have taps to cut", some)
	}
}
