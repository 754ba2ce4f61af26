package llm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
)

// moe holds the sizes of mixtures of experts.
type moe struct {
	experts, used int64 // all experts; experts per token
	hidden        int64 // width of an expert
	shared        int64 // width of the expert that all tokens use, or 0
	fused         bool  // gate and up projection are one tensor
	normalise     bool  // scale the weights of a token's experts to add up to 1
}

// readExperts reads the sizes of feed-forward blocks and mixtures of experts.
func (c *config) readExperts(w *nn.Weights, r *reader) (err error) {
	if i := slices.IndexFunc(c.layers, func(l layer) bool { return !l.sparse }); i >= 0 {
		s := fmt.Sprintf("model.layers.%d.mlp.", i)
		if c.hidden, _, err = matrix(w, s+"gate_proj.weight", "[hidden, width]"); err != nil {
			return err
		}
		_, c.upBias = w.Type(s + "up_proj.bias")
		r.agree("intermediate_size", c.hidden)
	}
	i := slices.IndexFunc(c.layers, func(l layer) bool { return l.sparse })
	kind := kinds[c.kind]
	switch {
	case i < 0 && kind.experts > 0 || i >= 0 && kind.experts == 0:
		return diag.New(arch.ErrConfig, r.Origin(keyType), "%s is %q; the tensors have %s", keyType, c.kind,
			map[bool]string{true: "experts, which it has not", false: "no experts"}[i >= 0])
	case i < 0:
		return nil
	}
	s := fmt.Sprintf("model.layers.%d.mlp.", i)
	if c.moe.experts, _, err = matrix(w, s+"gate.weight", "[experts, width]"); err != nil {
		return err
	}
	up, ok := w.Type(s + "experts.gate_up_proj")
	c.moe.fused = ok
	if !ok {
		up, ok = w.Type(s + "experts.gate_proj.weight")
	}
	if up = nn.Unpacked(up); !ok || len(up.Shape) != 3 || up.Shape[1].Const < 2 || up.Shape[1].Const > maxSize ||
		c.moe.fused &&
			up.Shape[1].Const%2 != 0 {
		return diag.New(arch.ErrTensor, w.Source(s+"experts.gate_proj.weight"),
			"tensor is %v; expected those of %d experts, [hidden, width] each", up, c.moe.experts)
	}
	c.moe.hidden = up.Shape[1].Const
	if c.moe.fused {
		c.moe.hidden /= 2
	}
	if _, ok := w.Type(s + "shared_expert_gate.weight"); ok {
		if c.moe.shared, _, err = matrix(w, s+"shared_expert.gate_proj.weight", "[hidden, width]"); err != nil {
			return err
		}
	}
	c.moe.used, c.moe.normalise = r.int(keyUsed, 1, c.moe.experts, min(kind.experts, c.moe.experts)),
		r.bool(keyNormalise, kind.normalise)
	r.agree("num_experts", c.moe.experts)
	r.agree("num_local_experts", c.moe.experts) // the name under which Transformers 5 saves it for qwen3_moe
	r.agree("moe_intermediate_size", c.moe.hidden)
	r.agree("shared_expert_intermediate_size", c.moe.shared)
	step := r.int(keySparseStep, 1, maxSize, 1)
	dense, err := r.Ints(keyDense, 0, maxSize)
	r.fail(err)
	for i, l := range c.layers {
		if l.sparse != (int64(i+1)%step == 0 && !slices.Contains(dense, i)) {
			r.fail(
				diag.New(arch.ErrConfig, r.Origin(keyDense), "layer %d has experts: %v; %s is %v and %s %d", i,
					l.sparse, keyDense, dense, keySparseStep, step))
		}
	}
	return err
}

// mixture applies a feed-forward block of experts to x [B,T,width]. A token uses the experts for which the router has
// the largest logits, and the shared one.
func (d *decoder) mixture(s nn.Scope, x *ir.Node) *ir.Node {
	n := d.moe
	shape := x.Type.Shape
	tokens, ok := shape[0].Mul(shape[1])
	if !ok {
		panic("BUG: llm: B*T is no size")
	}
	used := ir.Static(n.used)
	rows, ok := tokens.Mul(used)
	if !ok {
		panic("BUG: llm: B*T*experts is not a size")
	}
	flat := op.Reshape(x, ir.Shape{tokens, ir.Static(d.width)})

	share, expert := op.TopK(op.Softmax(s.At("gate").LinearIf(false, flat, n.experts), 1), int(n.used))
	if n.normalise {
		share = op.Div(share, op.ReduceSum(share, true, 1))
	}
	expert = op.Reshape(expert, ir.Shape{rows})
	each := op.Reshape(
		op.Expand(op.Reshape(flat, ir.Shape{tokens, ir.Static(1), ir.Static(d.width)}),
			ir.Shape{tokens, used, ir.Static(d.width)}), ir.Shape{rows, ir.Static(d.width)})
	product := func(x *ir.Node, name string, out, in int64) *ir.Node {
		return op.GroupedMatMul(x, s.At("experts").Param(name, n.experts, out, in), expert,
			op.GroupedMatMulAttrs{TransB: true}).Named(s.Path() + ".experts." + strings.TrimSuffix(name, ".weight") +
			".rows")
	}
	var gate, up, y *ir.Node
	if n.fused {
		both := product(each, "gate_up_proj", 2*n.hidden, d.width)
		gate, up = op.Narrow(both, 1, 0, int(n.hidden)), op.Narrow(both, 1, int(n.hidden), int(n.hidden))
		y = product(op.Mul(op.Silu(gate), up), "down_proj", d.width, n.hidden)
	} else {
		gate, up = product(each, "gate_proj.weight", n.hidden, d.width),
			product(each, "up_proj.weight", n.hidden, d.width)
		y = product(op.Mul(op.Silu(gate), up), "down_proj.weight", d.width, n.hidden)
	}
	y = op.Mul(op.Reshape(y, ir.Shape{tokens, used, ir.Static(d.width)}),
		op.Reshape(share, ir.Shape{tokens, used, ir.Static(1)}))
	y = op.Reshape(op.ReduceSum(y, false, 1), shape).Named(s.Path() + ".experts")
	if n.shared == 0 {
		return y
	}
	w := s.At("shared_expert_gate").Param("weight", 1, d.width)
	open := hir.Linear(x, w, nil, "sigmoid").Named(s.Path() + ".shared_expert_gate")
	return op.Add(y, op.Mul(d.feedForward(s.At("shared_expert"), x, false, n.shared), open)).Named(s.Path())
}
