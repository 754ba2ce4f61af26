package kernels

import (
	_ "embed"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed attention_few.wgsl
var attentionFewWGSL string

const (
	fewQueries = 8   // most queries per head for this kernel
	fewThreads = 128 // invocations per workgroup, a power of two
	fewLanes   = 4   // invocations that read one key together
	mostShares = 512 // most shares of the keys; longer sequences use the tiled kernel
	mostShare  = 256 // keys in a share, a multiple of leastShare
	leastShare = 64
	fewGroups  = 512 // workgroups that keep a large GPU busy; shares are halved until there are this many
)

// fewShape is the shape of the kernel for few queries: head dims D and DV in vectors of four, and the rows that a
// workgroup computes.
type fewShape struct{ D4, DV4, FewRows int }

// Constants for the template.
func (s fewShape) FewThreads() int  { return fewThreads }
func (s fewShape) Lanes() int       { return fewLanes }
func (s fewShape) PassKeys() int    { return s.FewThreads() / fewLanes }
func (s fewShape) LaneVecs() int    { return ceilDiv(s.D4, fewLanes) }
func (s fewShape) RowVecs4() int    { return s.FewRows / 4 }
func (s fewShape) ValueGroups() int { return s.FewThreads() / s.DV4 }
func (s fewShape) MostShares() int  { return mostShares }
func (s fewShape) MostShare() int   { return mostShare }

// LastLane reports whether vector i of a row exists only for some lanes.
func (s fewShape) LastLane(i int) bool { return (i+1)*fewLanes > s.D4 }

func (s fewShape) bytes() int {
	return 16 * (s.FewRows*s.D4 + s.RowVecs4()*s.MostShare() + s.RowVecs4()*s.FewThreads())
}

// fewKernel is a kernel for runs with least to most rows. Rows are the queries of all heads that share keys.
type fewKernel struct {
	fewShape
	least, most int
	batch       int // at the symbols' upper bounds
}

// fewAlike is the number of batch elements up to which the division of the keys depends on that number. Larger batches
// divide them like the largest possible batch, so a text is the same in batches of all these sizes.
const fewAlike = 8

// shares divides the keys like fewShape.shares, with regard to fewAlike.
func (f fewKernel) shares(g op.AttentionGeometry) (count, keys, rowTiles int) {
	if g.B > fewAlike {
		g.B = f.batch
	}
	return f.fewShape.shares(g)
}

// chooseFew returns the kernels for a node that has few queries in some runs: one for up to four rows and one for more,
// if both are needed.
func chooseFew(n *ir.Node, s op.AttentionShape, l Limits) []fewKernel {
	syms := n.Graph.Syms
	least, most := syms.Smallest(ir.Shape{s.Sq})[0], syms.Largest(ir.Shape{s.Sq, s.Sk, s.B})
	heads := int(s.H / s.HKV)
	fits := func(f fewShape) bool {
		return s.D%4 == 0 && s.DV%4 == 0 && f.DV4 <= fewThreads && least <= fewQueries &&
			most[1] <= mostShares*f.MostShare() && f.bytes() <= l.WorkgroupStorage
	}
	four, eight := fewShape{int(s.D) / 4, int(s.DV) / 4, 4}, fewShape{int(s.D) / 4, int(s.DV) / 4, 8}
	rows := heads * min(most[0], fewQueries)
	switch {
	case !fits(four):
		return nil
	case rows <= 4 || !fits(eight):
		return []fewKernel{{four, 0, rows, most[2]}}
	case heads*least > 4:
		return []fewKernel{{eight, 0, rows, most[2]}}
	}
	return []fewKernel{{four, 0, 4, most[2]}, {eight, 5, rows, most[2]}}
}

// shares divides the keys of a call among workgroups, as in split-KV ("flash") decoding. It returns the number of
// shares, the keys in each, and the number of row tiles.
func (f fewShape) shares(g op.AttentionGeometry) (count, keys, rowTiles int) {
	rowTiles = ceilDiv(g.H/g.HKV*g.Sq, f.FewRows)
	keys = f.MostShare()
	for keys > leastShare && (g.B*g.HKV*rowTiles*ceilDiv(g.Sk, keys) < fewGroups) &&
		ceilDiv(g.Sk, keys/2) <= mostShares {
		keys /= 2
	}
	return max(1, ceilDiv(g.Sk, keys)), keys, rowTiles
}

// fewBytes is the scratch memory of a node in bytes, for the most queries that the kernel takes.
func fewBytes(n *ir.Node) int64 {
	a := n.Attrs.(op.AttentionAttrs)
	s, err := a.SizesOf(n.InTypes())
	if err != nil || !fewOperands(n) {
		return 0
	}
	most := n.Graph.Syms.Largest(ir.Shape{s.B, s.Sq, s.Sk})
	return int64(most[0]) * s.H * int64(min(most[1], fewQueries)) * int64(
		max(1, ceilDiv(most[2], leastShare))) * (s.DV + 4) * 4
}

// fewOperands reports whether q, k and v can be read in vectors.
func fewOperands(n *ir.Node) bool {
	a := n.Attrs.(op.AttentionAttrs)
	for i, x := range n.In[:3] {
		if last := x.Type.Shape[x.Type.Rank()-1]; !last.IsStatic() || last.Const%4 != 0 || len(a.Packed) > 0 &&
			a.Packed[i]%4 != 0 {
			return false
		}
	}
	return allAligned(n.In[:3])
}

// fewShaders returns the shaders for runs with few queries.
func fewShaders(n *ir.Node, a op.AttentionAttrs, c attentionConsts, f fewKernel) []Shader {
	consts := struct {
		attentionConsts
		fewShape
	}{c, f.fewShape}
	fields := append([]string{"groups", "shares", "share_keys", "row_tiles", "batch"}, attentionFields...)
	groups := func(call *Call) int {
		g := attentionGeometry(a, call)
		count, _, tiles := f.shares(g)
		return g.B * g.HKV * tiles * count
	}
	params := func(call *Call) []uint32 {
		g := attentionGeometry(a, call)
		if rows := g.H / g.HKV * g.Sq; numel(call.Out.Shape) == 0 || g.Sq > fewQueries || rows < f.least ||
			rows > f.most {
			return nil
		}
		count, keys, tiles := f.shares(g)
		return append([]uint32{uint32(groups(call)), uint32(count), uint32(keys), uint32(tiles), uint32(g.B)},
			attentionParams(a, call)...)
	}
	parts := Binding{Name: "part", Operand: Scratch, Vec: 4, DType: dtype.F32}
	main := Shader{Name: "attention", Body: attentionMaskWGSL + attentionKeysWGSL + part(attentionFewWGSL, "few"),
		Consts: consts, Fields: fields, Params: params, Groups: groups,
		Bindings: append(slices.Clone(c.operands(n, 4)), parts),
		Loops: func(call *Call) int {
			_, keys, _ := f.shares(attentionGeometry(a, call))
			pass := loop(ceilDiv(f.PassKeys()*f.RowVecs4(), f.FewThreads()), 4)
			rows := f.RowVecs4() * 2 * loop(ceilDiv(keys, f.FewThreads()), 0)
			return loop(ceilDiv(f.FewRows*f.D4, f.FewThreads()), 0) + loop(ceilDiv(keys, f.PassKeys()), pass) + rows +
				2*loop(10, 0) + c.keyPages.loops(call, f.FewThreads()) +
				loop(ceilDiv(keys, 4*f.ValueGroups()), 0) + f.FewRows*loop(f.ValueGroups(), 0)
		}}
	sum := Shader{Name: "attention", Body: attentionMaskWGSL + part(attentionFewWGSL, "combine"), Consts: consts,
		Fields: fields, Params: params,
		Groups: func(call *Call) int {
			g := attentionGeometry(a, call)
			return g.B * g.H * g.Sq
		},
		Loops: func(call *Call) int {
			count, _, _ := f.shares(attentionGeometry(a, call))
			return 4*loop(count, 0) + loop(f.ValueGroups(), 0)
		}}
	for _, b := range c.operands(n, 4) {
		if i := b.Operand; i == Status || i > 0 && slices.Contains([]int{c.Position, c.KVLen, c.Sinks, c.Sequence}, i) {
			sum.Bindings = append(sum.Bindings, b)
		}
	}
	sum.Bindings = append(sum.Bindings, parts, Binding{Name: "y", Operand: Out, Vec: 4, DType: n.Type.DType})
	return []Shader{main, sum}
}
