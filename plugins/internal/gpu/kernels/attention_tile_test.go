package kernels

import (
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/metal/msl"
)

// TestChosenAttention checks the tiles chosen for the sizes of SAM's attentions, and that a tile too large for the
// device is replaced.
func TestChosenAttention(t *testing.T) {
	gpu := Limits{WorkgroupStorage: 48 << 10}
	forced := func(tile AttentionTile, storage int) Limits {
		return Limits{WorkgroupStorage: storage, AttentionTile: &tile}
	}
	for _, c := range []struct {
		name             string
		d, queries, keys int
		limits           Limits
		want             AttentionTile
	}{
		{"global, head dim 64", 64, 4096, 4096, gpu, attentionLarge},
		{"global, head dim 80", 80, 4096, 4096, gpu, attentionColumns},
		{"window", 64, 196, 196, gpu, attentionWindow},
		{"window, head dim 80", 80, 196, 196, gpu, attentionWindow},
		{"window that large tiles divide", 64, 256, 256, gpu, attentionLarge},
		{"tokens to image", 16, 1, 4096, gpu, attentionFew},
		{"image to tokens", 16, 4096, 7, gpu, attentionFew},
		{"little memory", 64, 4096, 4096, Limits{WorkgroupStorage: 16 << 10}, attentionFew},
		{"software", 64, 4096, 4096, forced(attentionShort, 32<<10), attentionShort},
	} {
		if s, ok := chooseAttention(c.d, c.queries, c.keys, c.limits); !ok || s.AttentionTile != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, s, ok, c.want)
		}
	}
	if s, ok := chooseAttention(64, 4096, 4096, Limits{WorkgroupStorage: 1 << 10}); ok {
		t.Errorf("%v fits 1 KiB with %d bytes", s, s.bytes())
	}
}

// TestAttentionMatrices checks that attention with matrices takes as much workgroup memory as was calculated, and that
// a head dim that needs more gets a kernel without matrices.
func TestAttentionMatrices(t *testing.T) {
	for _, c := range []struct {
		d        int64
		grid     bool
		tile     AttentionMatrices
		matrices bool
	}{
		{16, false, attentionMatrices[0], true}, {80, true, attentionMatrices[0], true},
		{128, false, attentionMatrices[0], true}, {192, false, attentionMatrices[0], true},
		{256, false, attentionMatrices[0], false}, {64, true, AttentionMatrices{4, 2, 32}, true},
		{128, true, AttentionMatrices{4, 2, 32}, false},
		{64, false, AttentionMatrices{4, 1, 64}, true}, {128, false, AttentionMatrices{2, 4, 16}, false},
	} {
		g := ir.NewGraph("attention")
		l := Limits{WorkgroupStorage: 32 << 10, Matrices: true, AttentionMatrices: &c.tile}
		f32 := func(dims ...int64) ir.Type { return ir.TypeOf(dtype.F32, dims...) }
		var n *ir.Node
		if c.grid {
			x := inputs(g, f32(1, 20, 20, 3*c.d), f32(3*c.d), f32(14, 14, c.d), f32(14, 14, c.d))
			n = op.GridAttention(x[0], x[1], x[2], x[3], op.GridAttentionAttrs{Heads: 1, Window: 14})
		} else {
			x := inputs(g, f32(1, 100, c.d), f32(1, 100, c.d))
			n = op.Attention(x[0], x[1], x[1], op.AttentionOperands{},
				op.AttentionAttrs{Heads: 1, Layout: op.BSE, Mask: op.MaskCausal})
		}
		k, _ := Find(n)
		shaders := k.Shaders(n, l)
		s := shaders[len(shaders)-1]
		views := make([]View, len(s.Bindings))
		for i := range views {
			views[i].Windows = []Window{{0, 4096}}
		}
		text, err := s.Text(views)
		if err != nil {
			t.Fatal(err)
		}
		m, err := msl.Translate(text)
		if err != nil {
			t.Fatal(err)
		}
		if m.Matrices != c.matrices || m.Shared > l.WorkgroupStorage {
			t.Errorf("head dim %d, tile %v: matrices %t, %d bytes of workgroup memory; want matrices %t", c.d, c.tile,
				m.Matrices, m.Shared, c.matrices)
		}
		if a, ok := s.Consts.(attentionMatrixConsts); ok && (m.Shared+15)/16 != (a.bytes()+4*a.KeyPlaces+15)/16 {
			t.Errorf("head dim %d, tile %v: %d bytes of workgroup memory; want %d and %d for key places", c.d, c.tile,
				m.Shared, a.bytes(), 4*a.KeyPlaces)
		}
	}
}
