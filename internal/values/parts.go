package values

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// maxWork limits the ops that a Finder evaluates, in FLOPs. The reference computes about 1e8 a second.
const maxWork = 1 << 30

// part evaluates the parts of a step's op one after the other, and rounds each to its element type as a backend would.
// It returns the first part whose result is bad although its own operands are not: "v1=log(v0)". name is empty if no
// part is bad, or if the op has no parts or too much work.
func (s *Step) part(bad func(*tensor.Array) bool) (name string, err error) {
	if !s.Node.Op.CanLower() || s.work() > maxWork {
		return "", nil
	}
	operands, err := s.Operands()
	if err != nil {
		return "", err
	}
	return partOf(s.Node, operands, statics(s.Outs)[0], bad)
}

// partOf is part for a node with operands, whose first result is of type out.
func partOf(by *ir.Node, operands []*tensor.Array, out ir.Type, bad func(*tensor.Array) bool) (name string, err error) {
	if !by.Op.CanLower() {
		return "", nil
	}
	types := make([]ir.Type, len(operands))
	for k, x := range operands {
		types[k] = typeOf(x)
	}
	g, err := interp.LowerOne(by.Op, by.Attrs, types, out)
	if err != nil {
		return "", nil
	}
	values, names := make([]*tensor.Array, len(g.Nodes)), make([]string, len(g.Nodes))
	next := 0
	for _, n := range g.Nodes {
		if n.Op.Name == "input" {
			var k int
			if _, err := fmt.Sscanf(n.Name, "x%d", &k); err != nil {
				return "", err
			}
			values[n.ID], names[n.ID] = operands[k], fmt.Sprint("i", k)
			continue
		}
		if n.Op == ir.ResultDef {
			continue // the tuple node has computed it
		}
		in, texts := make([]*tensor.Array, len(n.In)), []string{}
		for k, x := range n.Operands() {
			in[k], texts = values[x.ID], append(texts, names[x.ID])
		}
		if n.Op.Eval == nil {
			return "", nil
		}
		results, err := interp.Eval(n, nil, in)
		if err != nil {
			return "", nil // bad data, which the step itself reports
		}
		text := n.OpName() + "(" + strings.Join(append(texts, n.Op.AttrTexts(n.Attrs)...), ",") + ")"
		for k, v := range n.Values() {
			round(results[k])
			values[v.ID] = results[k]
			if n.Op.Name == "const" && results[k].Len() > 0 {
				names[v.ID] = fmt.Sprint(results[k].At(0)) // in a region, the operand is a number
				continue
			}
			names[v.ID] = fmt.Sprint("v", next)
			next++
			if bad(results[k]) && !slices.ContainsFunc(in, bad) {
				return names[v.ID] + "=" + text, nil
			}
		}
	}
	return "", nil
}

// round rounds the elements of an f32 value, which the reference computes in 64 bits, to f32.
func round(a *tensor.Array) {
	if a.DType != dtype.F32 {
		return
	}
	for i, v := range a.Floats {
		if !math.IsNaN(v) {
			a.Floats[i] = float64(float32(v))
		}
	}
}

// work returns the number of arithmetic operations of a step.
func (s *Step) work() int64 { return s.Node.Op.FLOPs(s.Node.Attrs, statics(s.In), statics(s.Outs)...) }

// reference evaluates a step on operands. The results are rounded to their element types.
func (s *Step) reference(in []*tensor.Array) ([]*tensor.Array, error) {
	out := make([]*tensor.Array, len(s.Outs))
	for k, o := range s.Outs {
		out[k] = tensor.NewArray(o.DType, o.Shape...)
	}
	var err error
	if s.IsLoop() { // its graphs may read weights
		out, err = interp.EvalWith(s.Node, s.f.given.Sizes, in, s.f.plan.params(s.Segment))
	} else {
		err = s.Node.Op.Eval(s.Node.Attrs, in, out...)
	}
	for _, a := range out {
		round(a)
	}
	return out, err
}
