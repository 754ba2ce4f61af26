package text

import (
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/task"
)

// Bounds of rows such as those of cpu, and of backends for GPUs.
var (
	ofCPU = &rlx.RowBounds{Products: []int{1, 2, 3, 4, 5, 6, 7, 8}, Queries: []int{16}}
	ofGPU = &rlx.RowBounds{Products: []int{1, 2, 3, 4, 5, 6, 7, 8, 64, 96}, Queries: []int{8, 64, 96}}
)

// TestAsPieces checks which beginnings of a prompt may be copied with Alike: after it, no piece has another order of
// sums than in the whole prompt, where chunks have 512 tokens.
func TestAsPieces(t *testing.T) {
	b := &Batch{spec: (*spec)(task.NewText(17, 4096, 512, 0))}
	b.spec.Chunk = 512
	for _, c := range []struct {
		bounds          *rlx.RowBounds
		k, prompt, want int
	}{
		{ofCPU, 127, 128, 64}, {ofCPU, 64, 80, 0}, {ofCPU, 500, 600, 448}, {ofCPU, 520, 530, 512},
		// of 128 rows or more, 64 would be computed in another way
		{ofGPU, 127, 128, 0}, {ofGPU, 127, 200, 64}, {ofGPU, 500, 600, 384}, {ofGPU, 520, 530, 512},
		// 80 rows are not computed like 16
		{ofGPU, 64, 80, 0}, {ofGPU, 600, 700, 576}, {ofGPU, 63, 700, 0},
		// a backend that says nothing may compute each number of rows in another way; whole chunks are the same
		{nil, 500, 600, 0}, {nil, 520, 530, 512}, {nil, 1100, 1200, 1024}, {&rlx.RowBounds{}, 500, 600, 448},
	} {
		b.bounds = c.bounds
		if got := b.asPieces(c.k, c.prompt); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestRows checks how many rows runs have that add a token to each of some texts.
func TestRows(t *testing.T) {
	for _, c := range []struct {
		bounds         *rlx.RowBounds
		device, alike  bool
		n, slots, want int
	}{
		{ofCPU, false, false, 9, 64, 9}, {ofGPU, true, false, 7, 64, 7}, {ofGPU, true, false, 9, 64, 16},
		{ofGPU, true, false, 57, 60, 60}, {nil, true, false, 9, 64, 16},
		{ofCPU, false, true, 1, 64, 9}, {ofGPU, true, true, 1, 64, 9}, {ofGPU, true, true, 1, 8, 8},
		{ofGPU, true, true, 1, 80, 65}, {ofGPU, true, true, 70, 80, 70}, {ofGPU, true, true, 1, 200, 97},
		{nil, true, true, 1, 64, 64}, {&rlx.RowBounds{}, false, true, 1, 64, 1},
	} {
		if got := rowsOf(c.n, c.slots, c.bounds, c.device, c.alike, true); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestPiece checks how many tokens of a prompt are computed next.
func TestPiece(t *testing.T) {
	b := &Batch{spec: (*spec)(task.NewText(17, 4096, 2048, 0)), Budget: 512, slots: make([]batchSlot, 1)}
	b.spec.Chunk = 2048
	many := &rlx.RowBounds{Products: []int{64, 1024}}
	for _, c := range []struct {
		bounds     *rlx.RowBounds
		alike      bool
		left, want int
	}{
		{ofGPU, false, 2000, 512}, {ofGPU, true, 2000, 512}, {ofGPU, true, 600, 600}, {ofGPU, true, 620, 512},
		{many, false, 2000, 512}, {many, true, 2000, 2000}, {many, true, 1000, 512}, {many, true, 570, 570},
		{nil, false, 2000, 512}, {nil, true, 2000, 2000}, {nil, true, 300, 300},
	} {
		b.bounds, b.Alike = c.bounds, c.alike
		if got := b.piece(&BatchText{rest: make([]int, c.left)}); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
