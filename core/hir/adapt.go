package hir

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// Adapt returns the graph with a low-rank adapter (LoRA, Hu et al. 2021, arXiv:2106.09685) at each linear layer whose
// weight is a param that adapts selects: x·wᵀ becomes x·wᵀ + (x·aᵀ)·bᵀ, with params a f32[rank,in] and b f32[out,rank].
// The factor alpha/r of adapters belongs to the values of b. The params are called like the weight, with the
// endings in place of ".weight"; made has their types.
func Adapt(g *ir.Graph, rank int64, endings [2]string, adapts func(weight string) bool) (
	out *ir.Graph, made map[string]ir.Type, err error) {
	a := adapter{rank: rank, endings: endings, adapts: adapts, params: map[string]*ir.Node{}}
	out, err = g.Rebuild(func(_ *ir.Graph, n *ir.Node, in []*ir.Node, _ func(*ir.Node) *ir.Node) *ir.Node {
		switch {
		case n.Is(LinearDef) && a.selects(in[1]):
			return a.linear(in[0], in[1], in[2], n.Attrs.(LinearAttrs).Act)
		case n.Is(SwiGLUDef) && (a.selects(in[1]) || a.selects(in[2]) || a.selects(in[3])):
			up := part(n, "up", a.linear(in[0], in[1], in[4], ""))
			gate := part(n, "gate", a.linear(in[0], in[2], in[5], "silu"))
			return a.linear(part(n, "hidden", op.Mul(up, gate)), in[3], in[6], "")
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", g.Name, err)
	}
	made = map[string]ir.Type{}
	for name, p := range a.params {
		made[name] = p.Type
	}
	return out, made, nil
}

// adapter adds adapters to one graph.
type adapter struct {
	rank    int64
	endings [2]string // of the names of a and b
	adapts  func(weight string) bool
	params  map[string]*ir.Node
}

func (a *adapter) selects(w *ir.Node) bool { return w.Is(op.ParamDef) && a.adapts(w.Name) }

// linear adds act(x·wᵀ + bias), with an adapter if w has one.
func (a *adapter) linear(x, w, bias *ir.Node, act string) *ir.Node {
	if !a.selects(w) {
		return Linear(x, w, bias, act)
	}
	t := w.Type
	in := channels(x.Type)
	name := strings.TrimSuffix(w.Name, ".weight")
	down := a.param(w.Graph, name+a.endings[0], ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Static(a.rank), in}})
	up := a.param(w.Graph, name+a.endings[1], ir.Type{DType: dtype.F32, Shape: ir.Shape{t.Shape[0], ir.Static(a.rank)}})
	low := Linear(Linear(x, down, nil, ""), up, nil, "")
	return op.Activate(op.Add(Linear(x, w, bias, ""), low), act)
}

// param returns the param of that name, and makes it if it is new.
func (a *adapter) param(g *ir.Graph, name string, t ir.Type) *ir.Node {
	if a.params[name] == nil {
		a.params[name] = op.Param(g, name, t)
	}
	return a.params[name]
}
