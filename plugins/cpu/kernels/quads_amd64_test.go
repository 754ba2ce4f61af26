package kernels

// withoutQuads makes a set of AVX-512 multiply integers of 16 bits.
func withoutQuads(s *isa) {
	s.setHalves(
		[]quadsAsm{halves1x32AVX512, halves2x32AVX512, halves3x32AVX512, halves4x32AVX512, halves5x32AVX512,
			halves6x32AVX512, halves7x32AVX512, halves8x32AVX512,
			halves9x32AVX512, halves10x32AVX512, halves11x32AVX512, halves12x32AVX512, halves13x32AVX512,
			halves14x32AVX512}, requantizeAVX512)
}
