package ir

import "fmt"

// Bind replaces symbols of d by their values and keeps the others: N*S with S = 3 becomes 3*N. ok is false if the
// result exceeds the limits of a dim.
func (d Dim) Bind(values map[string]int64) (out Dim, ok bool) {
	out = Static(d.Const)
	for _, t := range d.terms() {
		x := Static(t.coef)
		for _, f := range t.factors {
			y, ok := f.bind(values)
			if ok {
				x, ok = x.Mul(y)
			}
			if !ok {
				return Dim{}, false
			}
		}
		if out, ok = out.Add(x); !ok {
			return Dim{}, false
		}
	}
	return out, true
}

func (f factor) bind(values map[string]int64) (Dim, bool) {
	if f.sym == "" {
		num, ok := f.num.Bind(values)
		if !ok {
			return Dim{}, false
		}
		return num.FloorDiv(f.den)
	}
	if v, ok := values[f.sym]; ok {
		return small(v)
	}
	return Dim{sum: intern([]term{{1, []factor{f}}})}, true
}

// Bind returns the graph with some of its symbols replaced by their values. It ignores symbols that the graph does not
// have. It returns an error if a value is outside the range of its symbol, or contradicts a node: a reshape of f32[S]
// to f32[2,T] holds only for some values of S and T.
func (g *Graph) Bind(values map[string]int64) (*Graph, error) {
	out := &Graph{Name: g.Name}
	for _, s := range g.Syms {
		switch v, bound := values[s.Name]; {
		case !bound:
			out.Syms = append(out.Syms, s)
		case v < s.Min || v > s.Max:
			return nil, fmt.Errorf("%s of graph %s is from %d to %d", s.Name, g.Name, s.Min, s.Max)
		}
	}
	to := make([]*Node, len(g.Nodes))
	lookup := func(n *Node) *Node { return to[n.ID] }
	for _, n := range g.Nodes {
		if n.Op == ResultDef {
			to[n.ID].Name = n.Name
			continue
		}
		in := n.MapIn(lookup)
		if n.Op.Tuple {
			for k, v := range out.AddResults(len(n.Results), n.Op, n.Attrs, in...) {
				to[n.ID], to[n.ID+1+k] = v.In[0], v
			}
		} else {
			t, ok := n.Type.Bind(values)
			if !ok {
				return nil, fmt.Errorf("%s of graph %s: a size of %v is out of range", n.Label(), g.Name, n.Type)
			}
			to[n.ID] = out.AddDeclared(n.Op, n.Attrs, t, in...)
		}
		if err := out.Err(); err != nil {
			return nil, fmt.Errorf("%s of graph %s: %w", n.Label(), g.Name, err)
		}
		to[n.ID].Name = n.Name
	}
	for _, o := range g.Outputs {
		out.Return(o.Name, to[o.Node.ID])
	}
	return out, nil
}

// Bind replaces symbols of the shape by their values; see Dim.Bind.
func (t Type) Bind(values map[string]int64) (out Type, ok bool) {
	out = Type{t.DType, make(Shape, len(t.Shape))}
	for i, d := range t.Shape {
		if out.Shape[i], ok = d.Bind(values); !ok {
			return Type{}, false
		}
	}
	return out, true
}
