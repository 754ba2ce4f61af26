package values

import (
	"context"
	"fmt"
	"io"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/release"
)

// WriteCase writes an artifact with the step alone. Its operands are weights, so that it runs without inputs; those
// that were no weights in the model are copied by a step each, so that the backend sees computed values as before. The
// sizes are those of the run. meta gets the producer and the methods.
func (w *Wrong) WriteCase(ctx context.Context, path string, p *Plan, meta format.Meta) error {
	x := p.Split.Segments[w.segment]
	c := caseOf(x, w)
	if c.err != nil {
		return diag.New(code.Differs, w.label, "cannot be cut out: %w", c.err)
	}
	dir, err := format.Layout(c.weights)
	if err != nil {
		return err
	}
	prog, _, err := sched.Build(c.g, sched.Options{Method: p.Split.Method, Target: x.Target, Weights: dir.Offset})
	if err != nil {
		return diag.New(code.Differs, w.label, "cannot be cut out: %w", err)
	}
	meta.Producer = format.Producer{Name: "rlxrun", Version: release.Version}
	_, err = format.Write(ctx, path, format.Artifact{Meta: meta, Programs: []*program.Program{prog}}, c.weights)
	return err
}

// cut is a graph of one node under construction.
type cut struct {
	g       *ir.Graph
	w       *Wrong
	weights []format.Weight
	made    map[*ir.Node]*ir.Node // by operand in the model
	err     error
}

// caseOf makes the graph of a step.
func caseOf(x program.Segment, w *Wrong) *cut {
	c := &cut{g: ir.NewGraph(x.Method), w: w, made: map[*ir.Node]*ir.Node{}}
	n := w.step.Node
	if n.Op.Updates {
		c.err = fmt.Errorf("%s updates a state", n.OpName())
		return c
	}
	c.err = c.g.Build(func() {
		in := make([]*ir.Node, len(n.In))
		for k, o := range n.Operands() {
			in[k] = c.operand(k, o)
		}
		var out []*ir.Node
		if n.Op.Tuple {
			out = c.g.AddResults(len(n.Values()), n.Op, n.Attrs, in...)
		} else {
			out = []*ir.Node{c.g.AddDeclared(n.Op, n.Attrs, n.Type.At(w.sizes), in...)}
		}
		for k, v := range n.Values() {
			name := fmt.Sprint("y", k)
			if v.Name != "" {
				name = v.Name
			}
			c.g.Return(name, out[k].Named(name))
		}
	})
	return c
}

// operand adds operand k, the model's node o.
func (c *cut) operand(k int, o *ir.Node) *ir.Node {
	if n := c.made[o]; n != nil {
		return n
	}
	var n *ir.Node
	t := o.Type.At(c.w.sizes)
	switch src := o.Source(); {
	case len(o.In) == 0 && !o.Op.Effects: // such as a constant, which rules of targets may ask for
		n = c.g.AddDeclared(o.Op, o.Attrs, t)
	case src.Op.Name == "param":
		n = c.weight(k, t)
	default:
		n = op.Copy(c.weight(k, t))
	}
	c.made[o] = n
	return n
}

// weight adds a weight with the value of operand k.
func (c *cut) weight(k int, t ir.Type) *ir.Node {
	name, data := fmt.Sprint("operand", k), c.w.operands[k].Data
	c.weights = append(c.weights, format.Weight{Name: name, Type: t, Write: func(to io.Writer) error {
		_, err := to.Write(data)
		return err
	}})
	return op.Param(c.g, name, t)
}
