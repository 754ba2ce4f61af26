package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// InPages makes g the geometry of an attention with the operand pages. pages is its number of pages per batch element.
func (g *AttentionGeometry) InPages(a AttentionAttrs, pages int) {
	g.Page = g.Sk
	g.Sk *= pages
	if !a.UseQOffset {
		g.QOffset = g.Sk - g.Sq
	}
}

// CheckPages checks the values of the operand pages. each is the number of pages per batch element, and have the number
// of pages of k.
func CheckPages[T int32 | int64](pages []T, each, have int) error {
	for i, p := range pages {
		if p < 0 || int64(p) >= int64(have) {
			return fmt.Errorf("page %d, number %d of batch element %d, is out of range 0 to %d", p, i%each, i/each,
				have-1)
		}
	}
	return nil
}

// SizesOf returns the sizes of an attention from the types of its operands. The operand pages must have two axes.
func (a AttentionAttrs) SizesOf(in []ir.Type) (AttentionShape, error) {
	pages := ir.Type{}
	if len(in) > AttentionPages {
		pages = in[AttentionPages]
	}
	s, err := a.sizes(in[0], in[1], in[2], pages.Present())
	if err != nil || !pages.Present() {
		return s, err
	}
	keys, ok := pages.Shape[1].Mul(s.Sk)
	if !ok {
		return s, fmt.Errorf("k is %v and pages %v; their number of keys is not a size", in[1], pages)
	}
	s.Page, s.Sk = s.Sk, keys
	return s, nil
}

// checkPages checks the type of the operand pages.
func checkPages(q, sequence, pages ir.Type) error {
	switch {
	case !pages.Present() || q.Rank() == 0:
		return nil
	case sequence.Present():
		return fmt.Errorf("has the operands sequence and pages; want one of them")
	case pages.DType != dtype.I32 || pages.Rank() != 2:
		return fmt.Errorf("pages is %v; want i32[B,P], the pages of each of %v batch elements", pages, q.Shape[0])
	case pages.Shape[0] != q.Shape[0]:
		return ir.Differ(pages.Shape[0], q.Shape[0], "pages is %v; want i32[%v,P], a row for each batch element of q",
			pages, q.Shape[0])
	}
	return nil
}

// gatherPages returns k or v with the keys of each batch element of q one after the other. x has the pages.
func (a AttentionAttrs) gatherPages(x, pages *ir.Node, s AttentionShape) *ir.Node {
	y := Gather(x, pages, 0) // [B,P] ++ x[1..]
	if a.Layout == BHSD {
		y = Transpose(y, 0, 2, 1, 3, 4)
	}
	shape := slices.Clone(x.Type.Shape)
	shape[0], shape[attentionAxes[a.Layout].seq] = s.B, s.Sk
	return Reshape(y, shape)
}

// addPages adds the gradient of the result of gatherPages to the pages of which it was made. shape is theirs.
func (a AttentionAttrs) addPages(dy, pages *ir.Node, shape ir.Shape) *ir.Node {
	p := pages.Type.Shape
	all, ok := p.Numel()
	if !ok {
		panic("BUG: op: the number of pages is no size")
	}
	if a.Layout == BHSD {
		dy = Transpose(Reshape(dy, ir.Shape{p[0], shape[1], p[1], shape[2], shape[3]}), 0, 2, 1, 3, 4)
	}
	each := slices.Clone(shape)
	each[0] = all
	return ScatterAdd(Reshape(dy, each), Reshape(pages, ir.Shape{all}), shape[0])
}
