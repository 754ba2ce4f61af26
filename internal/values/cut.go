package values

import (
	"context"
	"fmt"
	"io"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/release"
)

// WriteCase writes an artifact with only this step. Its operands are weights, so that it runs without inputs. A step
// copies each operand that was not a weight in the model, so that the backend sees computed values as before. The sizes
// are those of the run. meta gets the producer and the methods.
func (w *Wrong) WriteCase(ctx context.Context, path string, p *Plan, meta format.Meta) error {
	x := p.Split.Segments[w.segment]
	c := caseOf(x, w)
	if c.err != nil {
		return w.uncut(c.err)
	}
	return c.write(ctx, path, p, meta)
}

// write writes an artifact with the graph as the method of p.
func (c *cut) write(ctx context.Context, path string, p *Plan, meta format.Meta) error {
	c.g.Name = p.Split.Method
	return writeCuts(ctx, path, p, c.w.segment, p.Split.Segments[c.w.segment].Target, meta, c)
}

// writeCuts writes an artifact with graphs as methods. Weights of the same name are the same; the graphs may also read
// those of a segment of p.
func writeCuts(ctx context.Context, path string, p *Plan, segment int, target string, meta format.Meta,
	cuts ...*cut) error {
	var weights []format.Weight
	have := map[string]bool{}
	for _, c := range cuts {
		for _, w := range c.weights {
			if !have[w.Name] {
				have[w.Name] = true
				weights = append(weights, w)
			}
		}
	}
	for _, c := range cuts {
		params, err := paramWeights(c.g, p, segment, have)
		if err != nil {
			return c.w.uncut(err)
		}
		weights = append(weights, params...)
	}
	dir, err := format.Layout(weights)
	if err != nil {
		return err
	}
	meta.Producer = format.Producer{Name: "rlxrun", Version: release.Version}
	a := format.Artifact{Meta: meta}
	for _, c := range cuts {
		prog, _, err := sched.Build(c.g, sched.Options{Method: c.g.Name, Target: target, Weights: dir.Offset})
		if err != nil {
			return c.w.uncut(err)
		}
		a.Programs = append(a.Programs, prog)
	}
	_, err = format.Write(ctx, path, a, weights)
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
	name, data := fmt.Sprint("operand", k), c.w.operands[k].Data[:t.Bytes(nil)] // perhaps the first rows only
	c.weights = append(c.weights, format.Weight{Name: name, Type: t, Write: func(to io.Writer) error {
		_, err := to.Write(data)
		return err
	}})
	return op.Param(c.g, name, t)
}
