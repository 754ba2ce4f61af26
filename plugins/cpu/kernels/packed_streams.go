package kernels

// dotStrip returns the number of columns in the smallest piece of a product of few rows of activations. Their weights
// have about 32 KB: more, and workers would end at different times; less, and each would begin to read from memory too
// often.
func (g *GemmArgs) dotStrip() int {
	row := max(1, g.K*g.B.kind.Size()/g.B.kind.Values())
	return min(gemvStrip, max(dotStreams, 32<<10/row/dotStreams*dotStreams))
}
