package kernels

import "testing"

// TestChooseTile: the sizes that BenchmarkTiles of package backend times get the tile that was fastest there, and a device with little workgroup
// memory gets a tile that fits.
func TestChooseTile(t *testing.T) {
	for _, c := range []struct {
		m, n int
		want string
	}{
		{4096, 2304, "128x192"}, {4096, 768, "128x192"}, {4096, 3072, "128x192"},
		{4096, 3840, "128x192"}, {4096, 1280, "128x64"}, {4096, 5120, "128x128"},
		{4096, 256, "128x64"}, {4096, 128, "64x64"}, {100, 100, "64x64"}, {0, 0, "64x64"},
		{4096, 4096, "128x128"},
	} {
		p := product{m: c.m, n: c.n, k: 768, matrix: 1}
		if got := chooseTile(p, Limits{WorkgroupStorage: 48 << 10}).String(); got != c.want {
			t.Errorf("%d x %d: tile %s; want %s", c.m, c.n, got, c.want)
		}
		if small := chooseTile(p, Limits{WorkgroupStorage: 16 << 10}); small.bytes() > 16<<10 {
			t.Errorf("%d x %d: tile %v needs %d bytes", c.m, c.n, small, small.bytes())
		}
	}
}
