//go:build amd64 || arm64

package product

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// gemmAsm is the signature of the generated gemm kernels.
type gemmAsm = func(k int, a, b, c *float32, ldc int, accumulate int, bias, residual *float32, ldr int)

func gemmOf(kernels []gemmAsm, nr int) func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias,
	residual []float32, ldr int) {
	mr := len(kernels)
	return func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int) {
		if len(a) < rows*k || len(b) < nr*k {
			panic("BUG: gemm panel is short")
		}
		_ = c[(rows-1)*ldc+nr-1]
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
			kernels[h-1](k, isa.Head(a), isa.Head(b), &c[0], ldc, acc, isa.Head(bias), isa.Head(residual), ldr)
			if rows -= h; rows == 0 {
				return
			}
			a, c = a[h*k:], c[h*ldc:]
			if residual != nil {
				residual = residual[h*ldr:]
			}
		}
	}
}

// rowsProductAsm is the signature of the generated kernels for rows as they are stored.
type rowsProductAsm = func(k int, a *float32, lda int, b, c *float32, ldc, panels, accumulate int, ahead uintptr,
	aheadStep, aheadRow int)

func rowsProductOf(mr, nr int, f rowsProductAsm) func(k int, a []float32, lda int, b, c []float32, ldc, panels int,
	accumulate bool, ahead rowsAhead) {
	return func(k int, a []float32, lda int, b, c []float32, ldc, panels int, accumulate bool, ahead rowsAhead) {
		_, _, _ = a[(mr-1)*lda+k-1], b[panels*nr*k-1], c[(mr-1)*ldc+panels*nr-1]
		acc := 0
		if accumulate {
			acc = 1
		}
		f(k, &a[0], lda, &b[0], &c[0], ldc, panels, acc, ahead.at, ahead.step, ahead.row)
	}
}

// unaryOf turns a routine for whole vectors into one for any length.
func unaryOf(lanes int, f func(dst, src *float32, blocks int)) func(dst, src []float32) {
	return func(dst, src []float32) { isa.WholeVectors(lanes, dst, src, f) }
}
