package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// Few queries with many keys would leave most of a device idle, so the keys are divided among workgroups. Each writes a partial
// result with the sum and the reference of its weights to scratch memory, and a second shader combines them.

//go:embed attention_combine.wgsl
var attentionCombineWGSL string

const (
	splitKeys = 128  // keys are divided in multiples of this; tiles must divide it
	splitRows = 4096 // partial results at most, where there are more than rows of the result
)

// resultRows are the rows of a result, queries times heads and batch.
func resultRows(batch, heads, sq int) int { return batch * heads * sq }

// splitMost is the largest number of splits of a node, 1 if it is not split.
func splitMost(s op.AttentionShape) int {
	if !s.Sk.IsStatic() || s.Sk.B < 8*splitKeys {
		return 1
	}
	return int(s.Sk.B) / splitKeys
}

// splits returns the number of splits of a call, and the keys of each.
func splits(most, rows, keys int) (n, each int) {
	n = max(1, min(most, splitRows/max(rows, 1)))
	each = ceilDiv(ceilDiv(keys, n), splitKeys) * splitKeys
	return ceilDiv(keys, each), each
}

// splitBytes is the scratch memory of a node: f32[rows, splits, D+2].
func splitBytes(n *ir.Node) int64 {
	s, split := splitNode(n)
	if !split {
		return 0
	}
	most := n.Graph.Syms.Largest(ir.Shape{s.B, s.Sq})
	rows := resultRows(most[0], int(s.H), most[1])
	return int64(max(rows, splitRows)) * (s.D + 2) * 4
}

// splitNode reports whether a node is split: if it has many keys, and few queries at the symbols' lower bounds.
func splitNode(n *ir.Node) (s op.AttentionShape, ok bool) {
	s, err := n.Attrs.(op.AttentionAttrs).Sizes(n.In[0].Type, n.In[1].Type)
	if err != nil || splitMost(s) == 1 {
		return s, false
	}
	least := n.Graph.Syms.Smallest(ir.Shape{s.B, s.Sq})
	return s, resultRows(least[0], int(s.H), least[1]) <= splitRows/8
}

// combine is the shader that adds up the partial results of a row.
func combine(n *ir.Node, c attentionConsts, fields []string, params func(*Call) []uint32) Shader {
	s := mapped(n, "attention", attentionCombineWGSL, c, fields, params).withLoops(n, func(call *Call) int { return 2 * loop(int(params(call)[1]), 0) })
	s.Bindings = []Binding{{Name: "part", Operand: Scratch, DType: dtype.F32}, {Name: "y", Operand: Out, DType: n.Type.DType}}
	return s
}
