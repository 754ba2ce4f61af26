package reduce

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// AllFinite reports whether no element is infinite or NaN.
func AllFinite(s *isa.Set, x []float32) bool {
	if sum := On(s).Sum(x); sum-sum == 0 {
		return true
	}
	for _, v := range x { // the sum of finite numbers may be infinite
		if v-v != 0 {
			return false
		}
	}
	return true
}
