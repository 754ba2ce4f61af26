package kernels

import "testing"

// TestChosenAttention checks the tiles chosen for the sizes of SAM's attentions, and that a tile too large for the device is replaced.
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
