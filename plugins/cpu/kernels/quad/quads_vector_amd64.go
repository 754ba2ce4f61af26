package quad

import (
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// Adapters for the routines that multiply integers; native.go has those of the other routines.

type quadsAsm = func(k int, a, b, c *float32, ldc int)

func quadsOf(kernels []quadsAsm, nr int) func(rows, k int, a, b []float32, c []int32, ldc, panels int, tmp []float32) {
	return func(rows, k int, a, b []float32, c []int32, ldc, panels int, _ []float32) {
		if len(a) < rows*k || len(b) < panels*nr*k {
			panic("BUG: integer panel is short")
		}
		_ = c[(rows-1)*ldc+panels*nr-1]
		for q := range panels {
			kernels[rows-1](k, isa.Head(a), isa.Head(b[q*nr*k:]), (*float32)(unsafe.Pointer(&c[q*nr])), ldc)
		}
	}
}

// pairBytesOf is Product.pairBytes.
func pairBytesOf(dst []int16, a, b []uint8, signed bool) {
	dst, b = dst[:2*len(a)], b[:len(a)]
	done := len(a) / 16 * 16
	if done > 0 {
		pairBytes(&dst[0], &a[0], &b[0], done/16, 0x00800080*uint32(elementwise.Bit(signed)))
	}
	o := Operand{Signed: signed}
	for i := done; i < len(a); i++ {
		dst[2*i], dst[2*i+1] = int16(o.value(a[i])), int16(o.value(b[i]))
	}
}

type quadTilesAsm = func(config *byte, steps int, a *float32, lda int, b *float32, bStep int, c *float32, ldc,
	panels int)

// quadTilesOf adapts a routine for 16 rows and one for 32 rows.
func quadTilesOf(few, many quadTilesAsm) func(rows, k int, a, b []float32, c []int32, ldc, panels int, tmp []float32) {
	return func(rows, k int, a, b []float32, c []int32, ldc, panels int, _ []float32) {
		f, made := few, 16
		if rows > 16 {
			f, made = many, 32
		}
		if k == 0 {
			for r := range rows {
				clear(c[r*ldc:][:panels*32])
			}
			return
		}
		_, _, _ = a[made*k-1], b[panels*32*k-1], c[(made-1)*ldc+panels*32-1]
		f(&product.TileConfig[0], k/16, &a[0], k, &b[0], 32*k, (*float32)(unsafe.Pointer(&c[0])), ldc, panels)
	}
}

// setQuadTiles makes a set multiply 8-bit integers with AMX.
func (s *Routines) setQuadTiles() {
	s.Quads = [2]Product{
		{Unit: 4, MR: 32, deep: 16, tiles: true, leftUnsigned: true,
			Multiply: quadTilesOf(quadTilesLeft16, quadTilesLeft32)},
		{Unit: 4, MR: 32, deep: 16, tiles: true, rightUnsigned: true,
			Multiply: quadTilesOf(quadTilesRight16, quadTilesRight32)},
	}
}

// halvesOf returns routines that multiply 8-bit integers as integers of 16 bits.
func halvesOf(set *isa.Set, kernels []quadsAsm,
	requantize func(dst *uint8, acc, add *int32, mult *float32, blocks int, base int32, lo, hi float32,
		zero int32)) *Routines {
	p := product.On(set)
	q := Product{Unit: 2, MR: p.MR, deep: 1, Multiply: quadsOf(kernels, p.NR), pairBytes: pairBytesOf}
	s := &Routines{Quads: [2]Product{q, q}}
	lanes := set.Lanes
	s.Requantize = func(dst []uint8, acc, add []int32, mult []float32, to *Requantizing) {
		acc, add, mult = acc[:len(dst)], add[:len(dst)], mult[:len(dst)]
		n := len(dst) / lanes
		if n > 0 {
			requantize(&dst[0], &acc[0], &add[0], &mult[0], n, to.Base, to.lo, to.hi, to.zero)
		}
		if n *= lanes; n < len(dst) {
			requantizeGeneric(dst[n:], acc[n:], add[n:], mult[n:], to)
		}
	}
	return s
}

// setQuads makes a set multiply 8-bit integers with VNNI. left has the routines for an unsigned left operand, right
// those for an unsigned right one.
func (s *Routines) setQuads(set *isa.Set, left, right []quadsAsm) *Routines {
	p := product.On(set)
	s.Quads = [2]Product{
		{Unit: 4, MR: p.MR, deep: 1, leftUnsigned: true, Multiply: quadsOf(left, p.NR)},
		{Unit: 4, MR: p.MR, deep: 1, rightUnsigned: true, Multiply: quadsOf(right, p.NR)},
	}
	return s
}
