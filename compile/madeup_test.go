package compile

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// TestMadeUp compares params that are generated in pieces with interp.Random, which generates them one after another.
func TestMadeUp(t *testing.T) {
	g := ir.NewGraph("f")
	var params []*ir.Node
	for _, d := range dtype.All() {
		for _, shape := range [][]int64{{}, {0, 3}, {piece + 5}, {2, 3, 5}} {
			if d.IsPacked() && len(shape) != 3 {
				shape = []int64{700, 100} // more blocks than a piece
			}
			params = append(params, op.Param(g, "p", ir.TypeOf(d, shape...)))
		}
	}
	if g.Err() != nil {
		t.Fatal(g.Err())
	}
	for i, n := range params {
		n.Name = string(rune('A'+i/26)) + string(rune('a'+i%26))
	}
	const seed = 7
	m, rng := newMadeUp(params, seed), rand.New(rand.NewPCG(seed, stream))
	for _, n := range params {
		r := ir.Range{Lo: -0.5, Hi: 0.5}
		if !n.Type.DType.IsFloat() {
			r = ir.Range{Lo: 0, Hi: 3}
		}
		want := interp.Random(rng, n.Type, nil, r).Tensor()
		var b bytes.Buffer
		if err := m.copy(&b, m.params[n.Name]); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), want.Data) {
			t.Errorf("%v: %d bytes differ from the %d of interp.Random", n.Type, b.Len(), len(want.Data))
		}
		if a := m.array(m.params[n.Name]).Tensor(); !bytes.Equal(a.Data, want.Data) {
			t.Errorf("%v: the array differs", n.Type)
		}
	}
}
