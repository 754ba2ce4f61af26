package conv

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	winogradTable.Add(isa.AVX2, func() *winogradRoutines {
		return winogradOf(isa.AVX2.Lanes, winogradInputAVX2, winogradOutputAVX2, winogradSplitAVX2)
	})
	winogradTable.Add(isa.AVX512, func() *winogradRoutines {
		return winogradOf(isa.AVX512.Lanes, winogradInputAVX512, winogradOutputAVX512, winogradSplitAVX512)
	})
}

// winogradOf adapts a set's routines. For the index expressions see package isa.
func winogradOf(lanes int,
	input func(dst *float32, apart, ldd int, src *float32, plane, line, channel, channels int, runs *int, n, wide int),
	output func(dst *float32, line int, src *float32, apart int, bias float32, blocks int),
	split func(even, odd *float32, ldd int, src *float32, lds, lines, pairs int,
		most, sum *float32)) *winogradRoutines {
	return &winogradRoutines{
		input: func(dst []float32, apart, ldd int, src []float32, b *flatCopy, channels int, runs []int) {
			if channels == 0 || len(runs) == 0 {
				return
			}
			plane, far, last := b.lines*b.line, 0, (channels-1)*ldd+15*apart
			for j := 1; j < len(runs); j += 2 {
				far = max(far, runs[j])
			}
			_ = dst[last+runs[len(runs)-2]+b.vector-1]
			_ = src[(channels-1)*b.channel+far+3*plane+b.line+b.vector]
			input(&dst[0], apart, ldd, &src[0], plane, b.line, b.channel, channels, &runs[0], len(runs)/2, b.vector)
		},
		output: func(dst []float32, line int, src []float32, apart int, bias float32, n int) {
			if n == 0 {
				return
			}
			_, _ = dst[line+2*n-1], src[15*apart+n-1]
			output(&dst[0], line, &src[0], apart, bias, n/lanes)
		},
		split: func(even, odd []float32, ldd int, src []float32, lds, lines, pairs int, m *magnitudes) {
			if lines == 0 || pairs == 0 {
				return
			}
			last := (lines-1)*ldd + pairs - 1
			_, _, _ = even[last], odd[last], src[(lines-1)*lds+2*pairs-1]
			split(&even[0], &odd[0], ldd, &src[0], lds, lines, pairs, &m.most[0], &m.sum[0])
		},
	}
}
