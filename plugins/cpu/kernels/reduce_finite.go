package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// allFinite reports whether no element is infinite or NaN.
func allFinite(s *isa.Set, x []float32) bool {
	if sum := reduceOn(s).sum(x); sum-sum == 0 {
		return true
	}
	for _, v := range x { // the sum of finite numbers may be infinite
		if v-v != 0 {
			return false
		}
	}
	return true
}
