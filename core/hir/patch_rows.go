package hir

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// PatchRowsAttrs has no fields, because the weight determines the sizes.
type PatchRowsAttrs struct{}

// PatchRowsDef maps patches of images and videos to tokens. A processor has cut out the patches and made each one a row
// in the order of the weight. So the op is a convolution whose stride is the size of its kernel. Vision encoders for
// images of any size begin with it (Qwen2-VL, arXiv:2409.12191).
var PatchRowsDef = ir.Define(ir.Def[PatchRowsAttrs]{
	Name: "patch_rows", Operands: "x, w, bias?", Block: true,
	Doc: "Tokens of patches. x [N,C*T*p*p], rows of (channel, frame, y, x), w [D,C,T,p,p], bias [D] -> [N,D].",
	Infer: func(s ir.Sig[PatchRowsAttrs]) (ir.Type, error) {
		x, w := s.In[0], s.In[1]
		if len(x.Shape) != 2 || len(w.Shape) != 5 || !w.Shape.IsStatic() || !w.DType.IsFloat() {
			return ir.Type{}, fmt.Errorf("rows %v and weight %v; want [N,C*T*p*p] and static floats [D,C,T,p,p]", x, w)
		}
		depth, ok := w.Shape[1:].Numel()
		if !ok || x.Shape[1] != depth {
			return ir.Type{}, fmt.Errorf("rows %v and weight %v; want rows of %v", x, w, depth)
		}
		var err error
		if bias := s.In[2]; bias.Present() {
			err = vector("bias", bias, w.Shape[0])
		}
		return ir.Type{DType: dtype.F32, Shape: ir.Shape{x.Shape[0], w.Shape[0]}}, err
	},
})

var _ = ir.Lower(PatchRowsDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	w := in[1]
	depth, _ := w.Type.Shape[1:].Numel()
	return Linear(in[0], op.Reshape(w, ir.Shape{w.Type.Shape[0], depth}), in[2], "")
})

// PatchRows adds the tokens of patches. b may be nil.
func PatchRows(x, w, b *ir.Node) *ir.Node {
	return x.Graph.Add(PatchRowsDef, PatchRowsAttrs{}, x, w, b)
}
