package kernels

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// TestMatrixTiles checks that a device with matrices gets a tile of them.
func TestMatrixTiles(t *testing.T) {
	for _, c := range []struct {
		m, n int
		want string
	}{{4096, 2304, "64x64/8x4"}, {4096, 4096, "64x64/8x4"}, {100, 1280, "64x64/8x4"}, {0, 0, "64x64/8x4"}} {
		got := chooseTile(product{m: c.m, n: c.n, k: 768, matrix: 1},
			Limits{WorkgroupStorage: 32 << 10, Matrices: true})
		if got.String() != c.want || !got.Matrices {
			t.Errorf("%d x %d: tile %v; want %s of matrices", c.m, c.n, got, c.want)
		}
	}
	for _, tile := range matrixTiles {
		c := tiled{Tile: tile}.specialise(0, 0, 0)
		if c.BlockM()%8+c.BlockN()%8+c.Depth%8 > 0 || tile.bytes() != 16*(c.A.Size+c.B.Size) {
			t.Errorf("tile %v has blocks of %dx%d and %d bytes", tile, c.BlockM(), c.BlockN(), tile.bytes())
		}
	}
}

// TestChooseTile checks that the products that BenchmarkTiles of package backend times get the tile that was fastest
// there, or one at most 2 % slower. A device with little workgroup memory gets a tile that fits.
func TestChooseTile(t *testing.T) {
	for _, c := range []struct {
		m, n, k, splits int
		want            string
	}{
		{4096, 2304, 768, 0, "128x96/8x12"}, {4096, 768, 768, 0, "128x96/8x12"}, {4096, 3072, 768, 0, "128x96/8x12"},
		{4096, 768, 3072, 0, "128x96/8x12"},
		{5184, 3072, 1024, 0, "64x192/8x12"}, {5184, 1024, 1024, 0, "128x64/8x8"}, {5184, 4736, 1024, 0, "192x64/12x8"},
		{5184, 1024, 4736, 3, "192x64/12x8"},
		{512, 8192, 2048, 0, "128x128/8x16"}, {512, 2048, 8192, 3, "128x96/8x12"}, {512, 2048, 2048, 3, "128x96/8x12"},
		{512, 512, 2048, 8, "128x128/8x8"},
		{4096, 4096, 4096, 0, "128x128/8x16"},
		{4096, 256, 64, 0, "128x64/8x8"}, {4096, 128, 64, 0, "64x64/4x4"}, {100, 100, 64, 0, "64x64/4x4"},
		{0, 0, 0, 0, "64x64/4x4"},
	} {
		p := product{m: c.m, n: c.n, k: c.k, matrix: 1}
		got := chooseSplit(p, Limits{WorkgroupStorage: 48 << 10}, mostParts)
		if got.String() != c.want || got.Splits != c.splits {
			t.Errorf("%d x %d x %d: tile %v, %d parts; want %s, %d", c.m, c.n, c.k, got, got.Splits, c.want, c.splits)
		}
		if small := chooseSplit(p, Limits{WorkgroupStorage: 16 << 10}, mostParts); small.bytes() > 16<<10 {
			t.Errorf("%d x %d x %d: tile %v needs %d bytes", c.m, c.n, c.k, small, small.bytes())
		}
		p.patches = true
		if chooseTile(p, Limits{WorkgroupStorage: 48 << 10}).Dense {
			t.Errorf("%d x %d x %d: a convolution gets a dense tile", c.m, c.n, c.k)
		}
	}
}

// TestHalves checks that only products of f16 by f16, on devices with matrices, multiply halves. Activations of f32 are
// never rounded to them.
func TestHalves(t *testing.T) {
	for _, c := range []struct {
		x, w     dtype.DType
		n        int64
		matrices bool
		want     bool
	}{
		{dtype.F16, dtype.F16, 36, true, true}, {dtype.F16, dtype.F16, 36, false, false},
		{dtype.F16, dtype.F16, 35, true, false},
		{dtype.F32, dtype.F16, 36, true, false}, {dtype.F32, dtype.F32, 36, true, false},
		{dtype.BF16, dtype.BF16, 36, true, false},
	} {
		g := ir.NewGraph("product")
		x := inputs(g, ir.TypeOf(c.x, 40, 20), ir.TypeOf(c.w, c.n, 20))
		n := op.MatMul(x[0], x[1], op.MatMulAttrs{TransB: true})
		has := false
		for _, s := range products(n, Limits{WorkgroupStorage: 32 << 10, Matrices: c.matrices}) {
			has = has || strings.Contains(s.Body, "rlx_half8x8")
		}
		if has != c.want {
			t.Errorf("%v by %v, %d columns, matrices %t: halves are multiplied: %t", c.x, c.w, c.n, c.matrices, has)
		}
	}
}
