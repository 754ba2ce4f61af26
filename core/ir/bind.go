package ir

import "fmt"

// Replace returns d with other dims in place of symbols. Symbols that values lacks stay. ok is false if the result
// exceeds the limits of a dim.
func (d Dim) Replace(values map[string]Dim) (out Dim, ok bool) {
	out = Static(d.Const)
	for _, t := range d.terms() {
		x := Static(t.coef)
		for _, f := range t.factors {
			v, known := values[f.sym]
			switch {
			case f.sym == "":
				if v, ok = f.num.Replace(values); ok {
					v, ok = v.FloorDiv(f.den)
				}
				if !ok {
					return Dim{}, false
				}
			case !known:
				v = Named(f.sym)
			}
			if x, ok = x.Mul(v); !ok {
				return Dim{}, false
			}
		}
		if out, ok = out.Add(x); !ok {
			return Dim{}, false
		}
	}
	return out, true
}

// replace replaces symbols in a type.
func (t Type) replace(values map[string]Dim) (Type, error) {
	out := Type{t.DType, make(Shape, len(t.Shape))}
	for i, d := range t.Shape {
		var ok bool
		if out.Shape[i], ok = d.Replace(values); !ok {
			return Type{}, fmt.Errorf("size %v of %v is beyond the limits of a dim", d, t)
		}
	}
	return out, nil
}

// Bind returns b for inputs of the given types, whose symbols are syms. The symbols of b stand for sizes of its inputs:
// with x = input : f32[N,2*N] and the type f32[3*M,6*M], N is 3*M. Each symbol must be a whole size of an input, and
// the size must stay within the symbol's range. Sizes that differ and may be equal in some run are a Mismatch.
func (b *Graph) Bind(in []Type, syms Syms) (*Graph, error) {
	inputs := b.Inputs()
	values, err := b.bindSizes(inputs, in, syms)
	if err != nil {
		return nil, err
	}
	out := &Graph{Name: b.Name, Syms: syms}
	if at, err := b.copyTo(out, values, func(n *Node) (any, error) { return n.Attrs, nil }); err != nil {
		return nil, fmt.Errorf("graph %s: %s: %w", b.Name, at.Label(), err)
	}
	return out, nil
}

// copyTo adds the nodes and outputs of g to out, with other dims in place of symbols and with the attributes that attrs
// returns. If it returns an error, at is the node that caused it.
func (g *Graph) copyTo(out *Graph, sizes map[string]Dim, attrs func(n *Node) (any, error)) (at *Node, err error) {
	to := make([]*Node, len(g.Nodes))
	for _, n := range g.Nodes {
		if n.Op == ResultDef { // added with its tuple node
			continue
		}
		t, err := n.Type.replace(sizes)
		if err != nil {
			return n, err
		}
		own, err := attrs(n)
		if err != nil {
			return n, err
		}
		args := n.MapIn(func(x *Node) *Node { return to[x.ID] })
		made := []*Node{nil}
		if n.Op.Tuple {
			made = out.AddResults(len(n.Results), n.Op, own, args...)
		} else {
			made[0] = out.AddDeclared(n.Op, own, t, args...)
		}
		if err := out.Err(); err != nil {
			return n, err
		}
		for k, v := range n.Values() {
			to[v.ID] = made[k].Named(v.Name)
		}
	}
	for _, o := range g.Outputs {
		out.Return(o.Name, to[o.Node.ID])
	}
	return nil, nil
}

// BindTypes returns the types of the outputs of Bind's result. It infers no types again: those of b hold for all sizes
// in the ranges of its symbols.
func (b *Graph) BindTypes(in []Type, syms Syms) (out []Type, err error) {
	values, err := b.bindSizes(b.Inputs(), in, syms)
	for i := 0; i < len(b.Outputs) && err == nil; i++ {
		var t Type
		t, err = b.Outputs[i].Node.Type.replace(values)
		out = append(out, t)
	}
	return out, err
}

// bindSizes returns the size that each symbol of b stands for.
func (b *Graph) bindSizes(inputs []*Node, in []Type, syms Syms) (map[string]Dim, error) {
	if len(in) != len(inputs) {
		return nil, fmt.Errorf("%d operands; want %d, the inputs of graph %s", len(in), len(inputs), b.Name)
	}
	values := map[string]Dim{}
	for k, x := range inputs {
		if in[k].DType != x.Type.DType || in[k].Rank() != x.Type.Rank() {
			return nil, fmt.Errorf("%s is %v; want %v", x.Label(), in[k], x.Type)
		}
		for i, d := range x.Type.Shape {
			if names := d.Symbols(); len(names) == 1 && d == Named(names[0]) {
				if _, bound := values[names[0]]; !bound {
					values[names[0]] = in[k].Shape[i]
				}
			}
		}
	}
	for _, s := range b.Syms {
		d, ok := values[s.Name]
		if !ok {
			return nil, fmt.Errorf("graph %s: size %s is not a whole size of an input", b.Name, s.Name)
		}
		if lo, hi := syms.Bounds(d); lo < s.Min || hi > s.Max {
			return nil, fmt.Errorf("size %s is %s; want %d to %d", s.Name, rangeText(d, lo, hi), s.Min, s.Max)
		}
	}
	for k, x := range inputs {
		want, err := x.Type.replace(values)
		if err != nil {
			return nil, err
		}
		if !in[k].Equal(want) {
			return nil, TypesDiffer(in[k], want, "%s is %v; want %v", x.Label(), in[k], want)
		}
	}
	return values, nil
}

func rangeText(d Dim, lo, hi int64) string {
	if d.IsStatic() {
		return d.String()
	}
	return fmt.Sprintf("%v, which is %d to %d", d, lo, hi)
}

// CheckGeneric returns an error unless the ops of b compute and need only their operands, and Bind accepts b for all
// sizes in the ranges of its symbols. Verify checks the nodes themselves.
func (b *Graph) CheckGeneric() error {
	inputs := b.Inputs()
	in := make([]Type, len(inputs))
	for k, x := range inputs {
		in[k] = x.Type
	}
	if _, err := b.bindSizes(inputs, in, b.Syms); err != nil {
		return err
	}
	for _, n := range b.Nodes {
		switch {
		case n.Op.Block:
			return fmt.Errorf("graph %s: %s: op %s is a block; write it in tensor ops", b.Name, n.Label(), n.OpName())
		case n.Op.Updates || n.Op.Effects && n.Op.Name != "input":
			return fmt.Errorf("graph %s: %s: op %s is not allowed; a value from outside must be an input", b.Name, n.Label(),
				n.OpName())
		case len(n.Bodies()) > 0:
			return fmt.Errorf("graph %s: %s: op %s has a graph of its own; write its nodes here", b.Name, n.Label(),
				n.OpName())
		}
	}
	if r := b.Requires(); len(r) > 0 {
		return fmt.Errorf("graph %s: %v requires that %v equals %v; write them as one size", b.Name, r[0].Node, r[0].A,
			r[0].B)
	}
	return b.err
}
