package op_test

import (
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// TestAttentionBackwardBlocks checks that the lowering in blocks of queries agrees with the definition, for every case
// with more queries than a block.
func TestAttentionBackwardBlocks(t *testing.T) {
	divided, old := 0, op.BackwardBlock
	defer func() { op.BackwardBlock = old }()
	for _, rows := range []int64{1, 3} {
		op.BackwardBlock.Scores, op.BackwardBlock.Rows = 1, rows
		for i, c := range op.AttentionBackwardDef.Cases() {
			if c.In[0].Bytes(nil) > 4<<10 { // many blocks of one row
				continue
			}
			t.Run(fmt.Sprint(rows, "/", i), func(t *testing.T) {
				g, err := interp.LowerOne(op.AttentionBackwardDef, c.Attrs, c.In, c.Out)
				if err != nil {
					t.Fatal(err)
				}
				if g.Outputs[0].Node.Is(op.ConcatDef) {
					divided++
				}
				in := interp.CaseInputs(c, 2)
				got, err := interp.Run(g, nil, interpInputs(g, in), nil)
				if err != nil {
					t.Fatal(err)
				}
				for k, want := range results(t, op.AttentionBackwardDef, c, in) {
					if err := interp.Compare(got[g.Outputs[k].Name], want, loweredTolerance(want.DType)); err != nil {
						t.Errorf("result %d of %v %+v: %v", k, c.In, c.Attrs, err)
					}
				}
			})
		}
	}
	if divided < 20 {
		t.Errorf("only %d cases were divided", divided)
	}
}

// TestAttentionBackwardMemory checks that the scores of a block alone are stored, and not those of all queries.
func TestAttentionBackwardMemory(t *testing.T) {
	x := ir.TypeOf(dtype.F32, 1, 8, 4096, 64)
	a := op.AttentionAttrs{Heads: 8, Layout: op.BHSD, Mask: op.MaskCausal}
	g, err := interp.LowerOne(op.AttentionBackwardDef, a, []ir.Type{x, x, x, x}, ir.Type{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range g.Nodes {
		if size := n.Type.Bytes(nil); size > 64<<20 {
			t.Fatalf("%v has %d MiB; want at most 64", n, size>>20)
		}
	}
}
