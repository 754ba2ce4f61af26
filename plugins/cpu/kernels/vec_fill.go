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

// fillWith sets the elements of x to v. It copies what it has set, because in a loop the compiler stores elements one
// by one.
func fillWith[T any](x []T, v T) {
	const most = 1 << 10 // elements of a copy, so that the source stays in the L1 cache
	n := min(len(x), 16)
	for i := range n {
		x[i] = v
	}
	for n < len(x) {
		n += copy(x[n:], x[:min(n, most)])
	}
}
