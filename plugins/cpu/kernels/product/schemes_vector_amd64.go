package product

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

type (
	schemeDotAsm    = func(dst *float32, w *byte, ld, rows int, x, scale, zero *float32, vectors int)
	schemeDecodeAsm = func(dst *float32, ldd int, w *byte, ld, rows int, scale, zero *float32, vectors int)
)

// setSchemes gives a set its routines for SchemeWeights, by SchemeWeights.Values and int8_asym.
func (s *Routines) setSchemes(lanes int, dots map[string]schemeDotAsm, decoders map[string]schemeDecodeAsm) *Routines {
	s.schemes = map[string]schemeRoutines{}
	for name, dot := range dots {
		decode, perByte := decoders[name], 1
		if name == "int4" || name == "e2m1" {
			perByte = 2
		}
		s.schemes[name] = schemeRoutines{
			dot: func(dst []float32, w []byte, ld, rows int, x, scale, zero []float32) {
				cols := len(dst)
				_, _, _ = w[(rows-1)*ld+cols/perByte-1], x[rows-1], scale[cols-1]
				if zero != nil {
					_ = zero[cols-1]
				}
				dot(&dst[0], &w[0], ld, rows, &x[0], &scale[0], isa.Head(zero), cols/lanes)
			},
			decode: func(dst []float32, ldd int, w []byte, ld, rows, cols int, scale, zero []float32) {
				_, _, _ = dst[(rows-1)*ldd+cols-1], w[(rows-1)*ld+cols/perByte-1], scale[cols-1]
				if zero != nil {
					_ = zero[cols-1]
				}
				decode(&dst[0], ldd, &w[0], ld, rows, &scale[0], isa.Head(zero), cols/lanes)
			},
		}
	}
	return s
}
