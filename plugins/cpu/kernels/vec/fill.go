package vec

// Fill sets the elements of x to v. It copies what it has set, because in a loop the compiler stores elements one
// by one.
func Fill[T any](x []T, v T) {
	const most = 1 << 10 // elements of a copy, so that the source stays in the L1 cache
	n := min(len(x), 16)
	for i := range n {
		x[i] = v
	}
	for n < len(x) {
		n += copy(x[n:], x[:min(n, most)])
	}
}
