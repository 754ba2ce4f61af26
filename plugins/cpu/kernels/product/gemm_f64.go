package product

import "github.com/rlx-go/rlx/plugins/cpu/kernels/pool"

// GemmF64Args describes Batch products of f64, C[M,N] = A[M,K]·B[K,N]. The matrices of an operand are StrideA, StrideB
// or StrideC elements apart. LDA and LDB are the distances between the rows of A and B as they are stored, transposed
// or not.
type GemmF64Args struct {
	M, N, K, Batch            int
	A, B, C                   []float64
	TransA, TransB            bool
	LDA, LDB                  int
	StrideA, StrideB, StrideC int
}

const (
	f64Rows  = 32  // rows of a task
	f64Depth = 256 // values of k that are packed at a time, so that a task's rows stay in the second-level cache
)

// GemmF64 computes products in plain Go, two rows by four columns at a time. These eight sums fit the registers.
func GemmF64(p *pool.Pool, g GemmF64Args) {
	if g.M*g.N*g.Batch == 0 {
		return
	}
	pool.Split(p, g.Batch*((g.M+f64Rows-1)/f64Rows), 1+pool.Grain/max(1, f64Rows*g.N*g.K), gemmF64{g, p})
}

type gemmF64 struct {
	GemmF64Args
	p *pool.Pool
}

func (g *gemmF64) Do(lo, hi, worker int) {
	sc := g.p.Scratch(worker)
	a, b := pool.Numbers[float64](sc, f64Rows*f64Depth), pool.Numbers[float64](sc, 4*f64Depth)
	blocks := (g.M + f64Rows - 1) / f64Rows
	for t := lo; t < hi; t++ {
		first := t % blocks * f64Rows
		rows, c := min(f64Rows, g.M-first), g.C[t/blocks*g.StrideC+first*g.N:]
		for k := 0; k < g.K || k == 0; k += f64Depth {
			depth := min(f64Depth, g.K-k)
			g.packA(a, t/blocks*g.StrideA, first, rows, k, depth)
			for j := 0; j < g.N; j += 4 {
				g.packB(b, t/blocks*g.StrideB, j, k, depth)
				for i := 0; i < rows; i += 2 {
					sums := tileF64(a[i*depth:(i+2)*depth], b[:4*depth])
					for r := range min(2, rows-i) {
						row := c[(i+r)*g.N+j:][:min(4, g.N-j)]
						for l := range row {
							if k > 0 {
								sums[r][l] += row[l]
							}
							row[l] = sums[r][l]
						}
					}
				}
			}
		}
	}
}

// packA stores pairs of rows, the elements of a pair side by side; an odd last row is packed twice.
func (g *gemmF64) packA(dst []float64, at, first, rows, k, depth int) {
	row, col := g.LDA, 1
	if g.TransA {
		row, col = 1, g.LDA
	}
	for i := range rows + rows%2 {
		from := at + (first+min(i, rows-1))*row + k*col
		to := dst[i/2*2*depth+i%2:]
		for l := range depth {
			to[2*l] = g.A[from+l*col]
		}
	}
}

// packB stores four columns, side by side; columns past the end are 0.
func (g *gemmF64) packB(dst []float64, at, j, k, depth int) {
	row, col := g.LDB, 1
	if g.TransB {
		row, col = 1, g.LDB
	}
	for c := range 4 {
		to := dst[c:]
		for l := range depth {
			to[4*l] = 0
			if j+c < g.N {
				to[4*l] = g.B[at+(k+l)*row+(j+c)*col]
			}
		}
	}
}

func tileF64(a, b []float64) (s [2][4]float64) {
	var s00, s01, s02, s03, s10, s11, s12, s13 float64
	for len(a) >= 2 && len(b) >= 4 {
		x, y := a[0], a[1]
		s00 += x * b[0]
		s01 += x * b[1]
		s02 += x * b[2]
		s03 += x * b[3]
		s10 += y * b[0]
		s11 += y * b[1]
		s12 += y * b[2]
		s13 += y * b[3]
		a, b = a[2:], b[4:]
	}
	return [2][4]float64{{s00, s01, s02, s03}, {s10, s11, s12, s13}}
}
