package compile

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/weights"
)

// packedParam is a weight of an ONNX model or of a graph in text form that is stored in blocks of few bits.
type packedParam struct {
	of    string  // the weight
	from  ir.Type // of the weight
	trans bool    // the blocks are along axis 0 of the weight
	to    ir.Type
}

// quantizeProducts packs the weights of products of f32 in the graphs: matrices [k,n], or [n,k] with trans_b, whose
// depth k is a multiple of the type's block, and those of the blocks linear, mlp and swiglu. For a depth that is only a
// multiple of 32, q8_0 takes the place of types with larger blocks. What other ops read stays as it is.
func (m *Model) quantizeProducts() error {
	if !m.options.quantizes() {
		return nil
	}
	want, ok := dtype.Parse(m.options.Quantize)
	if !ok {
		want = dtype.Q4_K // the mixed scheme chooses by names that other models do not have
	}
	m.values.packed = map[string]packedParam{}
	for i, g := range m.built.Methods {
		params := map[string]*ir.Node{}
		param := func(g *ir.Graph, p packedParam) *ir.Node {
			name := fmt.Sprintf("%s/%v", p.of, p.to.DType)
			if p.trans {
				name += "/transposed"
			}
			if params[name] == nil {
				params[name] = op.Param(g, name, p.to)
				m.values.packed[name] = p
			}
			return params[name]
		}
		out, err := g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
			if n.Is(op.MatMulDef) {
				if p, ok := packableProduct(n, want); ok {
					return op.DequantMatMul(lookup(n.In[0]), param(out, p), op.ActivationsF32)
				}
				return nil
			}
			var in []*ir.Node
			for _, k := range matrices[n.Op] {
				if p, ok := packable(n.In[k], false, want); ok && n.In[0].Type.DType == dtype.F32 {
					if in == nil {
						in = n.MapIn(lookup)
					}
					in[k] = param(out, p)
				}
			}
			if in == nil {
				return nil
			}
			return out.Add(n.Op, n.Attrs, in...)
		})
		if err != nil {
			return err
		}
		m.built.Methods[i] = out
	}
	m.values.packings = m.packings.add
	if len(m.values.packed) == 0 {
		return usage("--quantize "+m.options.Quantize,
			"the model has no products of f32 with weights whose depth is a multiple of 32").
			WithHint("leave the flag out")
	}
	return nil
}

// matrices lists the operands of blocks that are matrices [n,k].
var matrices = map[*ir.OpDef][]int{hir.LinearDef: {1}, hir.MLPDef: {1, 3}, hir.SwiGLUDef: {1, 2, 3}}

// packableProduct returns how to pack the weight of a product.
func packableProduct(n *ir.Node, want dtype.DType) (p packedParam, ok bool) {
	a := n.Attrs.(op.MatMulAttrs)
	w, trans := n.In[1], !a.TransB
	if a.TransA || n.In[0].Type.DType != dtype.F32 || n.In[0].Type.Rank() == 0 {
		return p, false
	}
	if w.Is(op.TransposeDef) && w.Type.Rank() == 2 {
		if perm := w.Attrs.(op.TransposeAttrs).Perm; perm[0] == 1 {
			trans = !trans
		}
		w = w.In[0]
	}
	return packable(w, trans, want)
}

// packable returns how to pack the weight w, [k,n] if trans is set, else [n,k].
func packable(w *ir.Node, trans bool, want dtype.DType) (p packedParam, ok bool) {
	t := w.Type
	if !w.Is(op.ParamDef) || t.Rank() != 2 || !t.Shape.IsStatic() ||
		!slices.Contains([]dtype.DType{dtype.F32, dtype.F16, dtype.BF16}, t.DType) {
		return p, false
	}
	k, width := t.Shape[1], t.Shape[0]
	if trans {
		k, width = width, k
	}
	if k.Const%int64(want.Values()) != 0 {
		want = dtype.Q8_0
	}
	if k.Const == 0 || width.Const == 0 || k.Const%int64(want.Values()) != 0 {
		return p, false
	}
	to := ir.Type{DType: want, Shape: ir.Shape{width, ir.Static(k.Const / int64(want.Values()))}}
	return packedParam{of: w.Name, from: t, trans: trans, to: to}, true
}

// writePacked encodes a weight.
func (v *values) writePacked(to io.Writer, p packedParam) error {
	var b bytes.Buffer
	if err := v.copy(&b, p.of); err != nil {
		return err
	}
	shape := p.from.Shape.Eval(nil)
	rows, depth := shape[0], shape[1]
	x := make([]float32, rows*depth)
	width := p.from.DType.Size()
	for i := range rows { // one row at a time, since an array takes eight bytes for an element
		row := tensor.Tensor{DType: p.from.DType, Shape: []int{depth},
			Data: b.Bytes()[i*depth*width : (i+1)*depth*width]}.Array()
		for j := range depth {
			if p.trans {
				x[j*rows+i] = float32(row.At(j))
			} else {
				x[i*depth+j] = float32(row.At(j))
			}
		}
	}
	out := make([]byte, len(x)/p.to.DType.Values()*p.to.DType.Size())
	if bad := quant.Encode(out, p.to.DType, x); bad >= 0 {
		return diag.New(weights.CodeDType, p.of, "weight %q: one of %d values is NaN, infinite or too large for %v",
			p.of, p.to.DType.Values(), p.to.DType).WithHint("leave --quantize out, or choose another type")
	}
	back := make([]float32, len(x))
	quant.Decode(back, p.to.DType, out)
	var wrong, all float64
	for i, a := range x {
		e := float64(a) - float64(back[i])
		wrong, all = wrong+e*e, all+float64(a)*float64(a)
	}
	if v.packings != nil {
		e := 0.0
		if all > 0 {
			e = math.Sqrt(wrong / all)
		}
		v.packings(weights.Packing{Name: p.of, DType: p.to.DType, Before: p.from.Bytes(nil), After: int64(len(out)),
			Error: e})
	}
	_, err := to.Write(out)
	return err
}
