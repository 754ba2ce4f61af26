package ir

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Verify checks a graph from scratch: symbols, order, arity, attributes, inferred types, names and outputs, and its
// bodies likewise. Tests call it after each pass, and every graph is verified before it is planned.
func (g *Graph) Verify() error {
	if err := g.verifyBodies(); err != nil {
		return err
	}
	return g.verify()
}

// verify is Verify without bodies.
func (g *Graph) verify() error {
	if g.err != nil {
		return g.err
	}
	if err := g.Syms.verify(); err != nil {
		return err
	}
	if g.Name != "" {
		if err := CheckName(g.Name); err != nil {
			return fmt.Errorf("graph: %w", err)
		}
	}
	names, updated := map[string]bool{}, map[*Node]bool{}
	for i, n := range g.Nodes {
		if n.ID != i || n.Graph != g {
			return fmt.Errorf("%s: node %d has number %d, or belongs to another graph", n.Label(), i, n.ID)
		}
		if n.Name != "" {
			if err := CheckName(n.Name); err != nil {
				return err
			}
			if names[n.Name] {
				return fmt.Errorf("%s: name is used twice", n.Name)
			}
			names[n.Name] = true
		}
		if err := g.verifyOperands(n); err != nil {
			return err
		}
		if err := g.verifyTypes(n); err != nil {
			return err
		}
		if err := n.CheckUpdate(updated); err != nil {
			return fmt.Errorf("%s: %w", n.Label(), err)
		}
		if n.Op.Tuple {
			if err := g.checkSelected(n); err != nil {
				return err
			}
		}
	}
	return g.verifyOutputs()
}

// verifyOperands checks that a node has a place for each operand, and that all operands come before it.
func (g *Graph) verifyOperands(n *Node) error {
	if len(n.In) < len(n.Op.Operands) {
		return fmt.Errorf("%s: %s has %d places for operands; want %d", n.Label(), n.OpName(), len(n.In),
			len(n.Op.Operands))
	}
	for k, x := range n.Operands() {
		if x.ID >= n.ID || g.Nodes[x.ID] != x {
			return fmt.Errorf("%s: operand %s (%s) does not come before it", n.Label(), n.Op.OperandName(k), x.Label())
		}
	}
	return nil
}

// verifyTypes checks that a node has the types that follow from its operands.
func (g *Graph) verifyTypes(n *Node) error {
	t, results, err := n.Infer(n.Type, g.Syms)
	if err != nil {
		return fmt.Errorf("%s: %w", n.Label(), err)
	}
	if !t.Equal(n.Type) || !slices.EqualFunc(results, n.Results, Type.Equal) {
		return fmt.Errorf("%s: type is %s, inferred is %s", n.Label(), typeText(n.Type, n.Results),
			typeText(t, results))
	}
	return nil
}

// verifyOutputs checks that there are outputs, that they are values of the graph, and that their names differ.
func (g *Graph) verifyOutputs() error {
	seen := map[string]bool{}
	for _, o := range g.Outputs {
		if o.Node.ID >= len(g.Nodes) || g.Nodes[o.Node.ID] != o.Node {
			return fmt.Errorf("output %s is not a node of the graph", o.Name)
		}
		if o.Node.Op.Tuple {
			return fmt.Errorf("output %s is the node of an op with several results; want one of its results", o.Name)
		}
		if err := CheckName(o.Name); err != nil {
			return fmt.Errorf("output: %w", err)
		}
		if seen[o.Name] {
			return fmt.Errorf("output name %q is used twice", o.Name)
		}
		seen[o.Name] = true
	}
	if len(g.Outputs) == 0 {
		return fmt.Errorf("graph %s has no outputs", g.Name)
	}
	return nil
}

func (s Syms) verify() error {
	if len(s) > MaxSyms {
		return fmt.Errorf("%d symbols; at most %d", len(s), MaxSyms)
	}
	seen := map[string]bool{}
	for _, x := range s {
		if err := x.verify(); err != nil {
			return err
		}
		if seen[x.Name] {
			return fmt.Errorf("symbol %s is declared twice", x.Name)
		}
		seen[x.Name] = true
	}
	return nil
}

func (x Sym) verify() error {
	switch {
	case !IsSymbol(x.Name):
		return fmt.Errorf("symbol %q is not a name of letters, digits and _", x.Name)
	case x.Min < 0 || x.Min > x.Max || x.Max > MaxDim:
		return fmt.Errorf("symbol %s: range %d..%d; want 0 <= min <= max <= %d", x.Name, x.Min, x.Max, int64(MaxDim))
	}
	return nil
}

// MaxName is the longest name, in bytes.
const MaxName = 512

// CheckName returns an error for a name of a graph, node or output that the text form cannot hold. Names must not have
// spaces, control characters, or any of , = { } and quotes, must not begin with % or #, and must not be graph, sym or
// return.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName || !utf8.ValidString(name) {
		return fmt.Errorf("name %.40q is empty, longer than %d bytes or not UTF-8", name, MaxName)
	}
	for i, r := range name {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(",={}\"", r) || i == 0 &&
			(r == '%' || r == '#') {
			return fmt.Errorf("name %.40q: character %q is not allowed", name, r)
		}
	}
	if name == "graph" || name == "sym" || name == "return" {
		return fmt.Errorf("name %q is a word of the text form", name)
	}
	return nil
}
