package kernels

// FMAFlops runs n rounds of fused multiply-adds on every worker and returns the floating-point operations done: the measure of
// the peak. It is 0 for an instruction set without a loop of its own.
func FMAFlops(p *Pool, n int) float64 {
	if p.isa.fmaLoop == nil || n <= 0 {
		return 0
	}
	const pieces = 16
	p.Run(pieces*len(p.workers), func(_, _ int) { p.isa.fmaLoop(n) })
	return float64(pieces*len(p.workers)) * float64(n) * 12 * 2 * float64(p.isa.lanes)
}
