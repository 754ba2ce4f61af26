package product

import "github.com/rlx-go/rlx/plugins/cpu/kernels/pool"

// FMAFlops runs n rounds of fused multiply-adds on every worker and returns the number of floating-point operations.
// Timed, it gives the processor's peak. It returns 0 if the instruction set has no loop for this.
func FMAFlops(p *pool.Pool, n int) float64 {
	if On(p.Set).fmaLoop == nil || n <= 0 {
		return 0
	}
	const pieces = 16
	p.Run(pieces*p.Threads(), func(_, _ int) { On(p.Set).fmaLoop(n) })
	return float64(pieces*p.Threads()) * float64(n) * 12 * 2 * float64(p.Set.Lanes)
}

// HalfFlops is like FMAFlops, for bfloat16 products: in tiles if the instruction set has them, else in vectors. It
// returns 0 if the set has neither.
func HalfFlops(p *pool.Pool, n int) float64 {
	loop, each := On(p.Set).halfLoop, 12*2*2*float64(p.Set.Lanes)
	if On(p.Set).tileLoop != nil {
		loop, each = On(p.Set).tileLoop, 4*2*16*16*32
	}
	if loop == nil || n <= 0 {
		return 0
	}
	const pieces = 16
	p.Run(pieces*p.Threads(), func(_, _ int) { loop(n) })
	return float64(pieces*p.Threads()) * float64(n) * each
}
