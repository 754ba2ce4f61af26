package conv

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// winogradRoutines transform tiles for convolutions by Winograd's algorithm.
type winogradRoutines struct {
	// input is dst[(4*i+j)*apart+c*ldd+runs[2*k]:][:wide] = element (i, j) of B^T d B for c < channels. d is the tile
	// with d[y][x] = src[c*b.channel+runs[2*k+1]+(y%2*2+x%2)*b.lines*b.line+y/2*b.line+x/2:][:wide]. wide is b.vector.
	// It stores in ascending order of c and then of k.
	input func(dst []float32, apart, ldd int, src []float32, b *flatCopy, channels int, runs []int)
	// output is dst[y*line+2*t+x] = bias + element (y, x) of A^T m A for t < n, with m[i][j] = src[(4*i+j)*apart+t]. n
	// is a multiple of lanes.
	output func(dst []float32, line int, src []float32, apart int, bias float32, n int)
	// split is even[l*ldd+i] = src[l*lds+2*i], odd[l*ldd+i] = src[l*lds+2*i+1] for l < lines and i < pairs. It adds the
	// magnitudes to m.
	split func(even, odd []float32, ldd int, src []float32, lds, lines, pairs int, m *magnitudes)
}

var winogradTable isa.Table[winogradRoutines]

func init() { winogradTable.Add(isa.Generic, winogradInGo) }

// winogradOn returns the routines of a set. They are nil if the set has none.
func winogradOn(s *isa.Set) *winogradRoutines { return winogradTable.On(s) }

func winogradInGo() *winogradRoutines {
	return &winogradRoutines{input: winogradInputGeneric, output: winogradOutputGeneric, split: winogradSplitGeneric}
}

func winogradInputGeneric(dst []float32, apart, ldd int, src []float32, b *flatCopy, channels int, runs []int) {
	plane := b.lines * b.line
	for c := range channels {
		for k := 0; k < len(runs); k += 2 {
			to, from := dst[c*ldd+runs[k]:], src[c*b.channel+runs[k+1]:]
			for l := range b.vector {
				var d [4][4]float32
				for y := range 4 {
					line := from[(y%2*2)*plane+y/2*b.line+l:]
					d[y] = [4]float32{line[0], line[plane], line[1], line[plane+1]}
				}
				var t [4][4]float32
				for x := range 4 {
					t[0][x], t[1][x] = d[0][x]-d[2][x], d[1][x]+d[2][x]
					t[2][x], t[3][x] = d[2][x]-d[1][x], d[1][x]-d[3][x]
				}
				for i := range 4 {
					at := to[4*i*apart+l:]
					at[0], at[apart] = t[i][0]-t[i][2], t[i][1]+t[i][2]
					at[2*apart], at[3*apart] = t[i][2]-t[i][1], t[i][1]-t[i][3]
				}
			}
		}
	}
}

func winogradOutputGeneric(dst []float32, line int, src []float32, apart int, bias float32, n int) {
	for t := range n {
		var s [2][4]float32
		for j := range 4 {
			m := src[j*apart+t:]
			a, b := m[4*apart]+m[8*apart], m[4*apart]-m[8*apart]
			s[0][j], s[1][j] = a+m[0], b-m[12*apart]
		}
		for y := range 2 {
			to := dst[y*line+2*t:]
			to[0] = s[y][1] + s[y][2] + s[y][0] + bias
			to[1] = s[y][1] - s[y][2] - s[y][3] + bias
		}
	}
}

func winogradSplitGeneric(even, odd []float32, ldd int, src []float32, lds, lines, pairs int, m *magnitudes) {
	for l := range lines {
		from := src[l*lds:][:2*pairs]
		for i := range pairs {
			even[l*ldd+i], odd[l*ldd+i] = from[2*i], from[2*i+1]
		}
		for _, v := range from {
			m.add(0, v)
		}
	}
}

// magnitudes has the largest magnitudes of numbers and their sums, which are of different numbers in each place. A sum
// is NaN if a number is.
type magnitudes struct{ most, sum [20]float32 }

func (m *magnitudes) add(i int, x float32) {
	x = max(x, -x)
	m.most[i], m.sum[i] = max(m.most[i], x), m.sum[i]+x
}

// total returns the largest magnitude and the sum.
func (m *magnitudes) total() (most, sum float64) {
	for i, x := range m.most {
		most, sum = max(most, float64(x)), sum+float64(m.sum[i])
	}
	return most, sum
}
