package kernels

import "testing"

// TestChosenAttention: the tiles that the sizes of SAM's attentions get, and that a tile which a device cannot hold, or which
// does not divide the keys that are dealt out, is replaced.
func TestChosenAttention(t *testing.T) {
	gpu := Limits{WorkgroupStorage: 48 << 10}
	forced := func(tile AttentionTile, storage int) Limits {
		return Limits{WorkgroupStorage: storage, AttentionTile: &tile}
	}
	for _, c := range []struct {
		name             string
		d, queries, keys int
		split            bool
		limits           Limits
		want             AttentionTile
	}{
		{"global, head dim 64", 64, 4096, 4096, false, gpu, attentionLarge},
		{"global, head dim 80", 80, 4096, 4096, false, gpu, attentionColumns},
		{"window", 64, 196, 196, false, gpu, attentionWindow},
		{"window, head dim 80", 80, 196, 196, false, gpu, attentionWindow},
		{"window that large tiles divide", 64, 256, 256, false, gpu, attentionLarge},
		{"tokens to image", 16, 1, 4096, true, gpu, attentionFew},
		{"image to tokens", 16, 4096, 7, false, gpu, attentionFew},
		{"40 keys do not divide 128", 64, 100, 4096, true, forced(attentionWindow, 48<<10), attentionFew},
		{"little memory", 64, 4096, 4096, false, Limits{WorkgroupStorage: 16 << 10}, attentionFew},
		{"software", 64, 4096, 4096, false, forced(attentionShort, 32<<10), attentionShort},
	} {
		if s, ok := chooseAttention(c.d, c.queries, c.keys, c.split, c.limits); !ok || s.AttentionTile != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, s, ok, c.want)
		}
	}
	if s, ok := chooseAttention(64, 4096, 4096, false, Limits{WorkgroupStorage: 1 << 10}); ok {
		t.Errorf("%v fits 1 KiB with %d bytes", s, s.bytes())
	}
}
