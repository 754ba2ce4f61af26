package text

import (
	"testing"

	"github.com/rlx-go/rlx/task"
)

// TestAsPieces checks which beginnings of a prompt may be copied with Alike: after it, no piece has another order of
// sums than in the whole prompt, where chunks have 512 tokens.
func TestAsPieces(t *testing.T) {
	b := &Batch{spec: (*spec)(task.NewText(17, 4096, 512, 0))}
	b.spec.Chunk = 512
	for _, c := range []struct {
		device          bool
		k, prompt, want int
	}{
		{false, 127, 128, 64}, {false, 64, 80, 0}, {false, 500, 600, 448}, {false, 520, 530, 512},
		// of 128 rows or more, 64 would be computed in another way
		{true, 127, 128, 0}, {true, 127, 200, 64}, {true, 500, 600, 384}, {true, 520, 530, 512},
		// 80 rows are not computed like 16
		{true, 64, 80, 0}, {true, 600, 700, 576}, {true, 63, 700, 0},
	} {
		b.device = c.device
		if got := b.asPieces(c.k, c.prompt); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestRows checks how many rows runs have that add a token to each of some texts.
func TestRows(t *testing.T) {
	for _, c := range []struct {
		device, alike  bool
		n, slots, want int
	}{
		{false, false, 9, 64, 9}, {true, false, 7, 64, 7}, {true, false, 9, 64, 16}, {true, false, 57, 60, 60},
		{false, true, 1, 64, 9}, {true, true, 1, 64, 9}, {true, true, 1, 8, 8}, {true, true, 1, 80, 65},
		{true, true, 70, 80, 70}, {true, true, 1, 200, 97},
	} {
		if got := rowsOf(c.n, c.slots, c.device, c.alike, true); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
