package op

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// BackwardBlock bounds the memory of the lowering of attention_backward, which stores several values of the size of the
// scores at a time, with four bytes for each. If there are more than Scores scores, it takes the queries in blocks. A
// block has about that many scores, but at least Rows queries, so that products stay efficient. So memory grows with
// the number of keys, and not with the number of keys times that of queries. Only tests change the numbers.
var BackwardBlock = struct{ Scores, Rows int64 }{1 << 24, 64}

// blockRows returns the number of queries of a block, or 0 if there is to be only one block, or the sizes are not
// known.
func (a AttentionAttrs) blockRows(g *ir.Graph, in []*ir.Node, s AttentionShape) int {
	_, batch := g.Syms.Bounds(s.B)
	_, keys := g.Syms.Bounds(s.Sk)
	rows := max(BackwardBlock.Rows, BackwardBlock.Scores/max(1, batch*s.H*keys))
	if !s.Sq.IsStatic() || s.Sq.Const <= rows {
		return 0
	}
	if in[AttentionPosition] == nil && in[AttentionKVLen] == nil && a.positional() {
		if at, ok := a.symbolicOffset(s); !ok || !at.IsStatic() {
			return 0
		}
	}
	return int(rows)
}

// backwardInBlocks is lowerBackward for rows queries at a time.
func (a AttentionAttrs) backwardInBlocks(g *ir.Graph, in []*ir.Node, dy *ir.Node, s AttentionShape,
	rows int) []*ir.Node {
	axis, mask := 1, a.maskQueries(in) // of the queries
	if a.Layout == BHSD {
		axis = 2
	}
	var parts [][]*ir.Node // by result: those of the blocks
	queries := int(s.Sq.Const)
	for start := 0; start < queries; start += rows {
		count := min(rows, queries-start)
		block, size := slices.Clone(in), s
		block[0] = Narrow(in[0], axis, start, count)
		if mask >= 0 {
			block[AttentionMask] = Narrow(in[AttentionMask], mask, start, count)
		}
		if p := in[AttentionPosition]; p != nil {
			scalar := ir.TypeOf(p.Type.DType)
			const far = 1 << 30 // larger than any size, yet sums with positions do not wrap
			near := Min(Max(p, Const(g, -far, scalar)), Const(g, far, scalar))
			block[AttentionPosition] = Add(near, Const(g, float64(start), scalar))
		}
		size.Sq = ir.Static(int64(count))
		results := a.lowerBackward(g, block, Narrow(dy, axis, start, count), size,
			ir.Static(int64(count)*(s.H/max(s.HKV, 1))), a.firstOf(g, in, s, start))
		if parts == nil {
			parts = make([][]*ir.Node, len(results))
		}
		for k, x := range results {
			parts[k] = append(parts[k], x)
		}
	}
	results := make([]*ir.Node, len(parts))
	for k, p := range parts {
		switch {
		case k == 0:
			results[k] = Concat(axis, p...)
		case k == 3 && a.Mask == MaskBias && mask >= 0:
			results[k] = Concat(mask, p...)
		default:
			results[k] = p[0]
			for _, x := range p[1:] {
				results[k] = Add(results[k], x)
			}
		}
	}
	return results
}

// firstOf returns the position of query number start, i32 of shape [] or [B,1,1,1,1], if positions matter and are no
// operand. A number is read through a copy: otherwise the compiler would compute the masks of all blocks, and store
// them in the artifact.
func (a AttentionAttrs) firstOf(g *ir.Graph, in []*ir.Node, s AttentionShape, start int) *ir.Node {
	if !a.positional() || in[AttentionPosition] != nil {
		return nil
	}
	number := func(v int) *ir.Node { return Const(g, float64(v), ir.TypeOf(dtype.I32)) }
	if n := in[AttentionKVLen]; n != nil && !a.UseQOffset {
		if one := ir.Static(1); n.Type.Rank() > 0 {
			n = Reshape(n, ir.Shape{s.B, one, one, one, one})
		}
		return Add(n, number(start-int(s.Sq.Const)))
	}
	first, _ := a.symbolicOffset(s)
	return Copy(number(int(first.Const) + start))
}

// maskQueries returns the axis of the mask that has the queries, or -1 if it has no such axis.
func (a AttentionAttrs) maskQueries(in []*ir.Node) int {
	m := in[AttentionMask]
	if m == nil || m.Type.Rank() < 3 {
		return -1
	}
	if axis := m.Type.Rank() - 2; !m.Type.Shape[axis].Is(1) {
		return axis
	}
	return -1
}
