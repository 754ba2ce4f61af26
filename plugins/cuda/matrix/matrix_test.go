package matrix

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/cuda/ptx"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// devices are one of each kind.
var devices = map[string]Device{
	"sm_80": {Capability: 80, Processors: 108, Shared: 163 << 10},
	"sm_89": {Capability: 89, Processors: 128, Shared: 99 << 10},
	"sm_90": {Capability: 90, Processors: 132, Shared: 227 << 10},
	"sm_75": {Capability: 75, Processors: 40, Shared: 64 << 10},
}

// shadersOf returns the shaders for a node, nil if the device has no kernel for it.
func shadersOf(d Device, n *ir.Node, precision string) []kernels.Shader {
	l := kernels.Limits{WorkgroupStorage: 48 << 10, Precision: precision, Own: Kernels(d)}
	if o, ok := l.Own[n.Op.Name]; ok {
		return o.Shaders(n, l)
	}
	return nil
}

// texts makes the texts of shaders and checks that they are WGSL that package ptx translates, or kernels of this
// package that declare all registers that they use.
func texts(t *testing.T, list []kernels.Shader) (own int) {
	t.Helper()
	declared := regexp.MustCompile(`\.reg \.\w+ %([a-z]+)<`)
	used := regexp.MustCompile(`%([rdfp])\d+`)
	for _, s := range list {
		var views []kernels.View
		for range s.Bindings {
			views = append(views, kernels.View{Windows: []kernels.Window{{Size: 1 << 20}}, Skip: 8})
		}
		text, err := s.Text(views)
		if err != nil {
			t.Fatal(err)
		}
		k, ok := Kernel(text)
		if !ok {
			if _, err := ptx.Translate(text); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
			continue
		}
		own++
		have := map[string]bool{}
		for _, m := range declared.FindAllStringSubmatch(k.Text, -1) {
			have[m[1]] = true
		}
		for _, m := range used.FindAllStringSubmatch(k.Text, -1) {
			if !have[m[1]] {
				t.Fatalf("%s: register %s is not declared", s.Name, m[0])
			}
		}
		if k.Threads%32 != 0 || strings.Count(k.Text, ".param .u64") != 2*(len(s.Bindings)+1) {
			t.Errorf("%s: %d threads; parameters for %d bindings", s.Name, k.Threads, len(s.Bindings))
		}
	}
	return own
}

// TestProducts: which products run on matrix units, and that their texts can be made.
func TestProducts(t *testing.T) {
	f32 := func(dims ...int64) ir.Type { return ir.TypeOf(dtype.F32, dims...) }
	for _, c := range []struct {
		x, w  ir.Type
		attrs op.FusedMatMulAttrs
		packs int // operands that are rounded first; -1: not on matrix units
	}{
		{f32(512, 256), f32(512, 256), op.FusedMatMulAttrs{TransB: true, Act: "gelu"}, 2},
		{f32(512, 256), ir.TypeOf(dtype.BF16, 512, 256), op.FusedMatMulAttrs{TransB: true}, 1},
		{f32(512, 250), ir.TypeOf(dtype.BF16, 512, 250), op.FusedMatMulAttrs{TransB: true, Act: "silu"}, 2},
		{f32(2, 512, 256), f32(256, 130), op.FusedMatMulAttrs{}, 2},
		{f32(3, 256, 512), f32(3, 256, 130), op.FusedMatMulAttrs{TransA: true}, 2},
		{f32(512, 256), f32(512, 256), op.FusedMatMulAttrs{TransB: true, Act: "mish"}, -1},
		{f32(4, 8), f32(8, 8), op.FusedMatMulAttrs{}, -1},
		{f32(4, 1, 64, 64), f32(4, 3, 64, 64), op.FusedMatMulAttrs{}, -1},
	} {
		g := ir.NewGraph("g")
		n := op.FusedMatMul(op.Input(g, "x", c.x), op.Input(g, "w", c.w), nil, nil, c.attrs)
		g.Return("y", n)
		for name, d := range devices {
			want := c.packs
			if d.Capability < 80 {
				want = -1
			}
			list := shadersOf(d, n, "bf16")
			if len(list)-1 != want {
				t.Errorf("%s: %v by %v %+v: %d shaders; want %d that round operands", name, c.x, c.w, c.attrs,
					len(list), want)
			}
			if own := texts(t, list); own > 1 || own == 1 != (want >= 0) {
				t.Errorf("%s: %d kernels of its own", name, own)
			}
		}
		if list := shadersOf(devices["sm_90"], n, ""); list != nil {
			t.Errorf("at f32 there are %d shaders", len(list))
		}
	}
}

// TestAttention: attention in windows, with and without relative positions.
func TestAttention(t *testing.T) {
	for _, c := range []struct {
		grid, window, heads, d int
		rel                    bool
		shaders, exact         int // at f32, as products of terms
	}{{64, 0, 2, 64, true, 4, 4}, {32, 14, 2, 80, true, 4, 0}, {16, 8, 1, 128, false, 2, 0},
		{16, 8, 1, 12, false, 0, 0}, {6, 0, 1, 64, false, 0, 0}, {65, 0, 1, 64, true, 0, 0},
		{64, 0, 1, 96, false, 2, 2}, {64, 0, 1, 112, false, 2, 0}} {
		g := ir.NewGraph("g")
		typ := func(dims ...int) ir.Type {
			var out []int64
			for _, d := range dims {
				out = append(out, int64(d))
			}
			return ir.TypeOf(dtype.F32, out...)
		}
		width, side := 3*c.heads*c.d, c.window
		if side == 0 {
			side = c.grid
		}
		in := []*ir.Node{op.Input(g, "qkv", typ(1, c.grid, c.grid, width)), op.Input(g, "pad", typ(width)), nil, nil}
		if c.rel {
			in[2], in[3] = op.Input(g, "rh", typ(side, side, c.d)), op.Input(g, "rw", typ(side, side, c.d))
		}
		n := g.Add(op.GridAttentionDef, op.GridAttentionAttrs{Heads: c.heads, Window: c.window}, in...)
		g.Return("y", n)
		list := shadersOf(devices["sm_80"], n, "bf16")
		if len(list) != c.shaders {
			t.Errorf("%+v: %d shaders", c, len(list))
		}
		texts(t, list)
		for name, d := range devices {
			want := c.exact
			if d.Capability != 80 && d.Capability != 90 {
				want = 0
			}
			list := shadersOf(d, n, "")
			if len(list) != want {
				t.Errorf("%s, %+v: %d shaders at f32; want %d", name, c, len(list), want)
			}
			texts(t, list)
		}
	}
}

// TestSplits: the K of products with few tiles is divided where that pays.
func TestSplits(t *testing.T) {
	for _, c := range []struct {
		m, n, k int64
		shaders int
	}{{512, 2048, 8192, 3}, {512, 256, 8192, 3}, {512, 8192, 2048, 2}, {4096, 4096, 4096, 2}, {4096, 768, 3072, 2}} {
		g := ir.NewGraph("g")
		n := op.FusedMatMul(op.Input(g, "x", ir.TypeOf(dtype.F32, c.m, c.k)),
			op.Input(g, "w", ir.TypeOf(dtype.BF16, c.n, c.k)), nil, nil, op.FusedMatMulAttrs{TransB: true, Act: "gelu"})
		g.Return("y", n)
		list := shadersOf(devices["sm_90"], n, "bf16")
		if len(list) != c.shaders {
			t.Errorf("%v: %d shaders", c, len(list))
		}
		texts(t, list)
		p, _ := devices["sm_90"].productOf(n, kernels.Limits{Precision: "bf16"})
		t.Log(c, p.list)
	}
}

// TestTiles: every device finds a tile that it has the memory for, and large products get large tiles.
func TestTiles(t *testing.T) {
	for name, d := range devices {
		for _, s := range [][2]int{{1, 1}, {64, 64}, {512, 2048}, {4096, 4096}} {
			tile, _ := d.choose(d.tiles(), s[0], s[1], 1)
			if d.Capability < 80 {
				if tile.M != 0 {
					t.Errorf("%s has a tile", name)
				}
				continue
			}
			if tile.M == 0 || tile.shared() > d.Shared || s[0] == 4096 && tile.M*tile.N < 128*128 {
				t.Errorf("%s: %v for %v", name, tile, s)
			}
		}
	}
}

// TestTurns: warpgroups take turns in large products with few values of K.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		m, n, k int64
		want    int // columns of the tile; 0 for another kind of tile
	}{{4096, 2304, 768, 192}, {5184, 3072, 1024, 192}, {5184, 1024, 1024, 128}, {4096, 768, 768, 128},
		{4096, 4096, 4096, 0}, {5184, 1024, 4736, 0}, {64, 256, 768, 0}} {
		g := ir.NewGraph("g")
		n := op.FusedMatMul(op.Input(g, "x", ir.TypeOf(dtype.F32, c.m, c.k)),
			op.Input(g, "w", ir.TypeOf(dtype.BF16, c.n, c.k)), nil, nil, op.FusedMatMulAttrs{TransB: true})
		g.Return("y", n)
		for _, precision := range []string{"bf16", "f16", "tf32", ""} {
			p, ok := devices["sm_90"].productOf(n, kernels.Limits{Precision: precision})
			if !ok || len(p.list) == 0 { // few rows have kernels of their own
				continue
			}
			want := c.want
			if len(precision) == 0 || precision == "tf32" {
				want = 0
			}
			l := p.list[len(p.list)-1]
			if l.PingPong != (want > 0) || want > 0 && l.N != want {
				t.Errorf("%+v at %q: tile %v; want %d columns", c, precision, l.Tile, want)
			}
		}
	}
}
