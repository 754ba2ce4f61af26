package vec

// Fill sets the elements of x to v. It copies the elements that it has set, because the compiler makes a loop store
// elements one by one.
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
