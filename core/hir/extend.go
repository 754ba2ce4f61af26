package hir

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// An Extension is a block of a program's own. A is the struct of its attributes, whose fields have tags such as
// `attr:"heads"`, or op.NoAttrs.
type Extension[A any] struct {
	Name     string // "acme_gate": lower-case letters, digits and underscores
	Doc      string // what it computes, with shapes
	Operands string // their names: "x, w, bias?"
	// Lower adds the block to g in terms of ops and other blocks, and returns its result. An absent operand is nil.
	// Lower must depend only on its arguments, because it also determines the block's type. The ops that it adds report
	// operands that do not fit. For faults that these ops cannot detect, call g.Fail.
	Lower func(g *ir.Graph, attrs A, in []*ir.Node) *ir.Node
}

// Extend registers a block, so that builders can add it with Graph.Add and graphs in text form can name it. The
// compiler expands it before anything else, like all blocks. So passes fuse its parts with the nodes around them, and
// neither backends nor artifacts need to know it. Call Extend while the program initialises. It fails if the name is
// invalid or taken.
func Extend[A any](x Extension[A]) (*ir.OpDef, error) {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789_"
	switch _, taken := ir.Find(x.Name); {
	case taken:
		return nil, fmt.Errorf("block %s: there is an op of this name", x.Name)
	case x.Name == "" || strings.Trim(x.Name, allowed) != "" || x.Name[0] < 'a':
		return nil, fmt.Errorf("block %q: want a name of lower-case letters, digits and underscores that begins with a letter",
			x.Name)
	case x.Doc == "" || x.Lower == nil:
		return nil, fmt.Errorf("block %s: Doc or Lower is missing", x.Name)
	}
	def := ir.Define(ir.Def[A]{Name: x.Name, Doc: x.Doc, Operands: x.Operands, Block: true,
		Infer: func(s ir.Sig[A]) (ir.Type, error) { return x.infer(s) }})
	ir.Lower(def, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
		before := len(g.Nodes)
		y := x.Lower(g, n.Attrs.(A), in)
		for _, made := range g.Nodes[before:] { // parts have names such as layers.0.gate.act
			if made != y && made.Name != "" && n.Name != "" && !strings.HasPrefix(made.Name, n.Name+".") {
				made.Named(n.Name + "." + made.Name)
			}
		}
		return y
	})
	return def, nil
}

// infer returns the type of the result, by adding the block to a graph whose inputs are the operands.
func (x Extension[A]) infer(s ir.Sig[A]) (t ir.Type, err error) {
	g := ir.NewGraph(x.Name, s.Syms...)
	in := make([]*ir.Node, len(s.In))
	for k, operand := range s.In {
		if operand.Present() {
			in[k] = op.Input(g, fmt.Sprint("operand", k), operand)
		}
	}
	var y *ir.Node
	err = g.Build(func() { y = x.Lower(g, s.Attrs, in) })
	if err == nil && y == nil {
		err = errors.New("its Lower returned no node")
	}
	if err != nil {
		return ir.Type{}, err
	}
	return y.Type, nil
}
