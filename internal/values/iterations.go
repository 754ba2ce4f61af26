package values

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// An Inner is a value that an iteration of a loop computes, as the reference does, rounded to its element type.
type Inner struct {
	Node    *ir.Node // of a graph of the loop
	In, Out []*tensor.Array
	At      []At // the iterations to which it belongs: of the step's loop and of loops in it
}

// At is an iteration of a loop.
type At struct {
	Loop      string // its label
	Iteration int    // from 0
}

// String describes the place of a value: "iteration 3", or "iteration 3, iteration 0 of loop z in it".
func (i *Inner) String() string {
	var b strings.Builder
	for k, at := range i.At {
		if k == 0 {
			fmt.Fprintf(&b, "iteration %d", at.Iteration)
		} else {
			fmt.Fprintf(&b, ", iteration %d of loop %s in it", at.Iteration, at.Loop)
		}
	}
	return b.String()
}

// ErrWork is the error of Iterations if the loop has more arithmetic than the reference does in about ten seconds.
var ErrWork = errors.New("the loop has too much work for the reference")

// IsLoop reports whether the step is a loop, whose iterations no backend shows.
func (s *Step) IsLoop() bool { return s.Node.Op.Nested }

// Iterations evaluates a loop by the reference and calls visit for each node of each iteration, until it returns an
// error. The results are the loop's.
func (s *Step) Iterations(visit func(*Inner) error) ([]*tensor.Array, error) {
	in, err := s.Operands()
	if err != nil {
		return nil, err
	}
	e := evaluator{params: s.f.plan.params(s.Segment), syms: s.f.given.Sizes, visit: visit, work: maxWork}
	return e.node(s.Node, in, nil)
}

// params returns a function that reads the weights of a segment, for the graphs of a loop.
func (p *Plan) params(segment int) interp.Params {
	return func(name string) (*tensor.Array, error) {
		n, ok := p.Split.Segments[segment].Graph.Find(name)
		if !ok {
			return nil, fmt.Errorf("the program has no weight %q", name)
		}
		t, err := p.Param(segment, n)
		if err != nil {
			return nil, err
		}
		return t.Array(), nil
	}
}

type evaluator struct {
	params interp.Params
	syms   map[string]int64
	visit  func(*Inner) error
	work   int64 // that may still be done
}

// node evaluates a node that is in the iterations at.
func (e *evaluator) node(n *ir.Node, in []*tensor.Array, at []At) (out []*tensor.Array, err error) {
	if !n.Op.Nested {
		if out, err = interp.EvalWith(n, e.syms, in, e.params); err != nil {
			return nil, err
		}
	} else {
		for _, t := range n.ResultTypes() {
			out = append(out, tensor.NewArray(t.DType, t.Shape.Eval(e.syms)...))
		}
		body, now := n.Body("body"), At{Loop: n.Values()[0].Label()}
		err = n.Op.EvalBodies(n.Attrs, func(g *ir.Graph, in []*tensor.Array) ([]*tensor.Array, error) {
			results, err := e.graph(g, in, append(slices.Clone(at), now))
			if g == body {
				now.Iteration++
			}
			return results, err
		}, in, out...)
	}
	for _, x := range out {
		round(x)
	}
	return out, err
}

func (e *evaluator) graph(g *ir.Graph, in []*tensor.Array, at []At) ([]*tensor.Array, error) {
	values := make([]*tensor.Array, len(g.Nodes))
	for k, x := range g.Inputs() {
		values[x.ID] = in[k]
	}
	for _, n := range g.Nodes {
		switch {
		case n.Op.Name == "input" || n.Op == ir.ResultDef:
			continue
		case n.Op.Name == "param":
			x, err := e.params(n.Name)
			if err != nil {
				return nil, err
			}
			values[n.ID] = x
			continue
		}
		args := make([]*tensor.Array, len(n.In))
		for k, x := range n.Operands() {
			args[k] = values[x.ID]
		}
		out, err := e.node(n, args, at)
		if err != nil {
			return nil, err
		}
		for k, v := range n.Values() {
			values[v.ID] = out[k]
		}
		if !n.Op.Nested {
			types := func(list []*tensor.Array) (types []ir.Type) {
				for _, x := range list {
					types = append(types, typeOf(x))
				}
				return types
			}
			if e.work -= 1 + n.Op.FLOPs(n.Attrs, types(args), types(out)...); e.work < 0 {
				return nil, ErrWork
			}
		}
		if err := e.visit(&Inner{Node: n, In: args, Out: out, At: at}); err != nil {
			return nil, err
		}
	}
	var out []*tensor.Array
	for _, o := range g.Outputs {
		out = append(out, values[o.Node.ID])
	}
	return out, nil
}

// typeOf returns the type of a value, and the zero type of an absent one.
func typeOf(x *tensor.Array) ir.Type {
	if x == nil {
		return ir.Type{}
	}
	return interp.TypeOf(x)
}

var errFound = errors.New("found")

// insideLoop is inside for a loop: it names the first node that makes a bad element of sound operands, and its
// iteration.
func (s *Step) insideLoop(bad func(*tensor.Array) bool) (name string, at []At, sound bool, err error) {
	out, err := s.Iterations(func(x *Inner) error {
		made := slices.ContainsFunc(x.Out, bad) && !slices.ContainsFunc(x.In, bad)
		if !made || x.Node.Op.Nested || len(x.Node.In) == 0 {
			return nil
		}
		what, failed := partOf(x.Node, x.In, typeOf(x.Out[0]), bad)
		if failed != nil {
			return failed
		}
		if what == "" {
			what = x.Node.OpName()
		}
		name, at = fmt.Sprintf("%s (%s) in %v", what, x.Node.Values()[0].Label(), x), slices.Clone(x.At)
		return errFound
	})
	if err != nil || name != "" { // bad data, which the step itself reports, or too much work
		return name, at, false, nil
	}
	return "", nil, !slices.ContainsFunc(out, bad), nil
}
