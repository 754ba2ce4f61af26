package kernels

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// Decoding describes attention of one query to keys and values of f32, for a device's own kernels. Two shaders run it.
// The first divides the keys that the query sees into shares. For each batch element, head and share it writes D+4
// numbers to scratch memory: the sum of weighted values, the reference m of the weights 2^(score-m), whose scores are
// in units of log2(e), and the sum of weights. The second adds the shares.
type Decoding struct {
	Heads, KVHeads, D int
	Shares            int
	Mask              string // op.MaskNone, op.MaskCausal or op.MaskSliding
	Position          bool   // an operand has the position of the query, and else an attribute
	PositionEach      bool   // it has one for each batch element
	PageRows          int    // number of keys of a page, 0 without pages
}

// DecodingFields are the parameters of both shaders.
var DecodingFields = append([]string{"groups"}, attentionFields...)

// fewOrOne returns the shaders for runs with few queries. Those with one query run on the device's own shaders, if it
// has them.
func fewOrOne(n *ir.Node, a op.AttentionAttrs, s op.AttentionShape, c attentionConsts, l Limits) (few []Shader) {
	for _, f := range chooseFew(n, s, l) {
		few = append(few, fewShaders(n, a, c, f)...)
	}
	own := l.ownDecoding(n, a, s, c)
	if few == nil || own == nil {
		return few
	}
	for i := range few {
		params := few[i].Params
		few[i].Params = func(call *Call) []uint32 {
			if attentionGeometry(a, call).Sq == 1 {
				return nil
			}
			return params(call)
		}
	}
	return append(few, own...)
}

// ownDecoding returns the device's own shaders for runs with one query, or nil. The bindings of the first are q, k, v,
// position if there is one, pages and status with pages, and part; those of the second are part and y. With pages, the
// first also reports page numbers that are out of range.
func (l Limits) ownDecoding(n *ir.Node, a op.AttentionAttrs, s op.AttentionShape, c attentionConsts) []Shader {
	if l.OwnDecoding == nil || c.Softcap || c.KVLen > 0 || c.Sinks > 0 || c.Sequence > 0 || s.D != s.DV ||
		a.Mask == op.MaskCustom || a.Mask == op.MaskBias || !allF32(&ir.Node{In: n.In[:3], Type: n.Type}) {
		return nil
	}
	if c.Pages > 0 && (!s.Page.IsStatic() || s.Page.Const < 1 || n.Graph.Syms.Smallest(n.In[1].Type.Shape)[0] < 1) {
		return nil
	}
	most := n.Graph.Syms.Largest(ir.Shape{s.Sk})[0]
	shares := min(mostDecodingShares, max(1, ceilDiv(most, leastShare)))
	list := l.OwnDecoding(Decoding{Heads: int(s.H), KVHeads: int(s.HKV), D: int(s.D), Mask: a.Mask, Shares: shares,
		Position: c.Position > 0, PositionEach: c.PositionEach, PageRows: int(s.Page.Const)})
	part := Binding{Name: "part", Operand: Scratch, DType: dtype.F32}
	for i := range list {
		s := &list[i]
		s.Name, s.Fields = "attention", DecodingFields
		if i == 0 {
			for k, name := range []string{"q", "k", "v"} {
				s.Bindings = append(s.Bindings, Binding{Name: name, Operand: k, DType: dtype.F32})
			}
			if c.Position > 0 {
				s.Bindings = append(s.Bindings, Binding{Name: "position", Operand: c.Position, DType: dtype.I32})
			}
			if c.Pages > 0 {
				s.Bindings = append(s.Bindings, Binding{Name: "pages", Operand: op.AttentionPages, DType: dtype.I32},
					Binding{Name: "status", Operand: Status, DType: dtype.U32})
			}
			s.Bindings = append(s.Bindings, part)
		} else {
			s.Bindings = []Binding{part, {Name: "y", Operand: Out, DType: dtype.F32}}
		}
		s.Groups = func(call *Call) int {
			g := attentionGeometry(a, call)
			if i == 0 {
				return g.B * g.HKV * shares
			}
			return g.B * g.H
		}
		s.Params = func(call *Call) []uint32 {
			if numel(call.Out.Shape) == 0 || attentionGeometry(a, call).Sq != 1 {
				return nil
			}
			return append([]uint32{uint32(s.Groups(call))}, attentionParams(a, call)...)
		}
	}
	return list
}

// mostDecodingShares is the largest number of shares. With eight heads of keys they keep all processors of a large GPU
// busy.
const mostDecodingShares = 16
