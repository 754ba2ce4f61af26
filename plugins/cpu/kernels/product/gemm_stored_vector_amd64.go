package product

import (
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// storedAsm is the signature of the generated kernels for rows of A as they are stored.
type storedAsm = func(k int, a *float32, lda int, b, c *float32, ldc int, accumulate int, bias, residual *float32,
	ldr int, ahead uintptr, aheadStep int)

func storedOf(kernels []storedAsm, nr int) func(rows, k int, a []float32, lda int, b, c []float32, ldc int,
	accumulate bool, bias, residual []float32, ldr int, next []float32) {
	mr := len(kernels)
	return func(rows, k int, a []float32, lda int, b, c []float32, ldc int, accumulate bool, bias, residual []float32,
		ldr int, next []float32) {
		const lines = 4 // that a kernel prefetches for every 4 elements of k, at most
		left := pool.CeilDiv(len(next), 16)
		ahead, step := uintptr(unsafe.Pointer(unsafe.SliceData(next))), 0
		if left > 0 {
			step = 64 * min(lines, pool.CeilDiv(left, max(1, pool.CeilDiv(rows, mr)*(k/4))))
		}
		_, _, _ = a[(rows-1)*lda+k-1], b[nr*k-1], c[(rows-1)*ldc+nr-1]
		acc := 0
		if accumulate {
			acc = 1
		}
		if bias != nil {
			_ = bias[nr-1]
		}
		if residual != nil {
			_ = residual[(rows-1)*ldr+nr-1]
		}
		for {
			h := panelHeight(mr, rows)
			kernels[h-1](k, &a[0], lda, &b[0], &c[0], ldc, acc, isa.Head(bias), isa.Head(residual), ldr, ahead, step)
			if rows -= h; rows == 0 {
				return
			}
			ahead += uintptr(k / 4 * step)
			if left -= k / 4 * step / 64; left <= 0 {
				step = 0
			}
			a, c = a[h*lda:], c[h*ldc:]
			if residual != nil {
				residual = residual[h*ldr:]
			}
		}
	}
}
