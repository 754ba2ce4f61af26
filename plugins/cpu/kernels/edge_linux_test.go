package kernels

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/core/tensor"
)

// edge returns n elements, small whole numbers, that end at a protected page: a read or write past them faults.
func edge[T float32 | uint16 | uint8](t *testing.T, n int) []T {
	t.Helper()
	const page = 4096
	size := (n*4 + page - 1) / page * page
	mapped, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mapped) })
	if err := unix.Mprotect(mapped[size:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	all := tensor.View[T](mapped[:size])
	x := all[len(all)-n:]
	for i := range x {
		x[i] = T(i % 5)
	}
	return x
}

// TestOperandsEndWithMemory runs the routines of every set on operands that are exactly as long as the routines'
// contracts allow.
func TestOperandsEndWithMemory(t *testing.T) {
	for _, s := range available() {
		t.Run(s.name, func(t *testing.T) {
			f := func(n int) []float32 { return edge[float32](t, n) }
			for _, p := range []panel{s.panel, s.narrow} {
				for rows := 1; rows <= s.mr; rows++ {
					for _, k := range []int{0, 1, 2, 3, 4, 5, 9} {
						p.gemm(rows, k, f(rows*k), f(p.nr*k), f(rows*p.nr), p.nr, true, f(p.nr), f(rows*p.nr), p.nr)
						if p.pairs != nil {
							p.pairs(rows, k, f(rows*k), f(p.nr*k), f(rows*p.nr), p.nr, true, f(p.nr), f(rows*p.nr),
								p.nr)
						}
					}
				}
				for keys := range 4 {
					p.scoreMax(f(keys*p.nr), 2, f(p.nr))
					p.scoreBiasMax(f(keys*p.nr), 2, f(p.nr), f(keys*p.nr), f(p.nr))
					p.expSum(f(keys*p.nr), f(p.nr), f(p.nr))
					p.scaleRows(f(keys*p.nr), f(p.nr))
				}
			}
			index := [16]int32{1, -1, 2, 0}
			for rows := 1; rows <= s.lanes; rows++ {
				for _, blocks := range []int{1, 2, 3} {
					cols := blocks * s.lanes
					s.transpose(f((cols-1)*rows+s.lanes), rows, f((rows-1)*(cols+1)+cols), cols+1, rows, cols)
				}
				s.copyRows(f((rows-1)*3+s.lanes), 3, f((rows-1)*5+s.lanes), 5, rows)
				s.gatherRows(f((rows-1)*3+s.lanes), 3, f((rows-1)*5+3), 5, rows, index[:])
				for k := range 40 {
					s.dotRows(f((rows-1)*2+1), 2, f((rows-1)*(k+1)+k), k+1, rows, f(k))
				}
			}
			for n := range 3*s.lanes + 2 {
				for _, op := range allUnaries() {
					s.apply(op, f(n), f(n))
				}
				for _, g := range s.binary {
					if g != nil {
						g(f(n), f(n), f(n))
					}
				}
				for _, g := range s.compare {
					g(edge[uint8](t, n), f(n), f(n))
				}
				for _, g := range s.test {
					g(edge[uint8](t, n), f(n))
				}
				s.choose(f(n), edge[uint8](t, n), f(n), f(n))
				for _, g := range s.bits {
					g(edge[uint8](t, n), edge[uint8](t, n), edge[uint8](t, n))
				}
				s.round(f(n), f(n))
				s.stencil(f(n), f(n+3), []int{3, 0}, 3, f(2), 1)
				s.stencilEvens(f(n), f(2*n+3), []int{3, 0}, 3, f(2), 1)
				s.stencilEach(f(n), f(n+3), []int{3, 0}, f(n+2), []int{0, 2}, f(n))
				s.widenF16(f(n), edge[uint16](t, n))
				s.widenBF16(f(n), edge[uint16](t, n))
				s.narrowF16(edge[uint16](t, n), f(n))
				s.narrowBF16(edge[uint16](t, n), f(n))
				s.sum(f(n))
				s.deviations(f(n), 1)
				s.normalize(f(n), f(n), f(n), f(n), 1, 2, 3)
			}
		})
	}
}
