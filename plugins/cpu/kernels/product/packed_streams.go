package product

import "github.com/rlx-go/rlx/plugins/cpu/kernels/stored"

// dotStrip returns the number of columns in the smallest piece of a product of few rows of activations. Their weights
// have about 32 KB: more, and workers would end at different times; less, and each would begin to read from memory too
// often.
func (g *GemmArgs) dotStrip() int {
	row := max(1, g.K*g.B.Kind.Size()/g.B.Kind.Values())
	return min(gemvStrip, max(stored.DotStreams, 32<<10/row/stored.DotStreams*stored.DotStreams))
}

// rowStrip returns the number of columns whose weights are multiplied by one row of activations after the other. They
// come from memory for the first row, and from the second-level cache for the others. Streams end with a strip, so it
// is as long as such caches allow.
func (g *GemmArgs) rowStrip() int { return 4 * g.dotStrip() }
