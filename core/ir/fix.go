package ir

import (
	"fmt"
	"reflect"
)

// Fix returns the graph with some of its symbols replaced by their values. It ignores symbols that the graph does not
// have. It returns an error if a value is outside the range of its symbol, or contradicts a node: a reshape of f32[S]
// to f32[2,T] holds only for some values of S and T. The bodies of blocks, which have the symbols of g, are fixed, too.
func (g *Graph) Fix(values map[string]int64) (*Graph, error) {
	return g.fix(values, map[*Graph]*Graph{})
}

// fix keeps fixed bodies in done, because nodes share them.
func (g *Graph) fix(values map[string]int64, done map[*Graph]*Graph) (*Graph, error) {
	out, sizes := &Graph{Name: g.Name}, map[string]Dim{}
	for _, s := range g.Syms {
		switch v, fixed := values[s.Name]; {
		case !fixed:
			out.Syms = append(out.Syms, s)
		case v < s.Min || v > s.Max:
			return nil, fmt.Errorf("%s of graph %s is from %d to %d", s.Name, g.Name, s.Min, s.Max)
		default:
			sizes[s.Name] = Static(v)
		}
	}
	if at, err := g.copyTo(out, sizes, func(n *Node) (any, error) { return n.fixBodies(values, done) }); err != nil {
		return nil, fmt.Errorf("%s of graph %s: %w", at.Label(), g.Name, err)
	}
	return out, nil
}

// fixBodies returns the node's attributes with fixed bodies. The symbols of other ops' graphs are their own.
func (n *Node) fixBodies(values map[string]int64, done map[*Graph]*Graph) (any, error) {
	if !n.Op.Block || len(n.Bodies()) == 0 {
		return n.Attrs, nil
	}
	attrs := reflect.New(reflect.TypeOf(n.Attrs)).Elem()
	attrs.Set(reflect.ValueOf(n.Attrs))
	for _, f := range n.Op.attrs.fields {
		if !f.graph {
			continue
		}
		b := attrs.Field(f.index).Interface().(*Graph)
		if b == nil {
			continue
		}
		if done[b] == nil {
			fixed, err := b.fix(values, done)
			if err != nil {
				return nil, err
			}
			done[b] = fixed
		}
		attrs.Field(f.index).Set(reflect.ValueOf(done[b]))
	}
	return attrs.Interface(), nil
}
