package kernels

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
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
	for _, s := range isa.Available() {
		t.Run(s.Name, func(t *testing.T) {
			f := func(n int) []float32 { return edge[float32](t, n) }
			for _, p := range []panel{productOn(s).panel, productOn(s).narrow} {
				for rows := 1; rows <= productOn(s).mr; rows++ {
					for _, k := range []int{0, 1, 2, 3, 4, 5, 9} {
						p.gemm(rows, k, f(rows*k), f(p.nr*k), f(rows*p.nr), p.nr, true, f(p.nr), f(rows*p.nr), p.nr)
						if p.pairs != nil {
							p.pairs(rows, k, f(rows*k), f(p.nr*k), f(rows*p.nr), p.nr, true, f(p.nr), f(rows*p.nr),
								p.nr)
						}
					}
				}
			}
			for w, p := range []passes{normOn(s).passes, normOn(s).narrow} {
				nr := 2 * s.Lanes >> w
				for keys := range 4 {
					p.scoreMax(f(keys*nr), 2, f(nr))
					p.scoreBiasMax(f(keys*nr), 2, f(nr), f(keys*nr), f(nr))
					p.expSum(f(keys*nr), f(nr), f(nr))
					p.scaleRows(f(keys*nr), f(nr))
				}
			}
			index := [16]int32{1, -1, 2, 0}
			for rows := 1; rows <= s.Lanes; rows++ {
				for _, blocks := range []int{1, 2, 3} {
					cols := blocks * s.Lanes
					vecOn(s).transpose(f((cols-1)*rows+s.Lanes), rows, f((rows-1)*(cols+1)+cols), cols+1, rows, cols)
				}
				vecOn(s).copyRows(f((rows-1)*3+s.Lanes), 3, f((rows-1)*5+s.Lanes), 5, rows)
				vecOn(s).gatherRows(f((rows-1)*3+s.Lanes), 3, f((rows-1)*5+3), 5, rows, index[:])
				for k := range 40 {
					vecOn(s).dotRows(f((rows-1)*2+1), 2, f((rows-1)*(k+1)+k), k+1, rows, f(k))
				}
			}
			for n := range 3*s.Lanes + 2 {
				for _, op := range allUnaries() {
					apply(s, op, f(n), f(n))
				}
				for _, g := range elemOn(s).binary {
					if g != nil {
						g(f(n), f(n), f(n))
					}
				}
				for _, g := range elemOn(s).compare {
					g(edge[uint8](t, n), f(n), f(n))
				}
				for _, g := range elemOn(s).test {
					g(edge[uint8](t, n), f(n))
				}
				elemOn(s).choose(f(n), edge[uint8](t, n), f(n), f(n))
				for _, g := range elemOn(s).bits {
					g(edge[uint8](t, n), edge[uint8](t, n), edge[uint8](t, n))
				}
				productOn(s).round(f(n), f(n))
				vecOn(s).stencil(f(n), f(n+3), []int{3, 0}, 3, f(2), 1)
				vecOn(s).stencilEvens(f(n), f(2*n+3), []int{3, 0}, 3, f(2), 1)
				vecOn(s).stencilEach(f(n), f(n+3), []int{3, 0}, f(n+2), []int{0, 2}, f(n))
				vecOn(s).widenF16(f(n), edge[uint16](t, n))
				vecOn(s).widenBF16(f(n), edge[uint16](t, n))
				vecOn(s).narrowF16(edge[uint16](t, n), f(n))
				vecOn(s).narrowBF16(edge[uint16](t, n), f(n))
				reduceOn(s).sum(f(n))
				reduceOn(s).deviations(f(n), 1)
				reduceOn(s).normalize(f(n), f(n), f(n), f(n), 1, 2, 3)
			}
		})
	}
}
