package ir

import (
	"fmt"
	"strings"
)

// String prints the graph so that Parse reads it back to an equal graph:
//
//	graph decode
//	sym N = 1..64
//	x = input : f32[2,N]
//	y = softmax x {axis=1} : f32[2,N]
//	v, i = top_k y {k=2} : f32[2,2], i32[2,2]
//	return probs=y, best=i
//
// Attributes stand in name order and are left out where zero. An op with several results is one line, which names them all.
func (g *Graph) String() string {
	var b strings.Builder
	if g.Name != "" {
		fmt.Fprintf(&b, "graph %s\n", g.Name)
	}
	for _, s := range g.Syms {
		fmt.Fprintf(&b, "sym %s = %d..%d\n", s.Name, s.Min, s.Max)
	}
	for _, n := range g.Nodes {
		if n.Op == ResultDef { // shown with its tuple node
			continue
		}
		b.WriteString(n.String())
		b.WriteByte('\n')
	}
	for i, o := range g.Outputs {
		sep := ", "
		if i == 0 {
			sep = "return "
		}
		b.WriteString(sep + o.Name + "=" + o.Node.Label())
	}
	if len(g.Outputs) > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}

// String prints one line: label, op, operands, attributes, type. That of a tuple node has the labels and types of its results.
func (n *Node) String() string {
	var b strings.Builder
	if n.Op.Tuple {
		b.WriteString(strings.Join(n.valueLabels(), ", "))
	} else {
		b.WriteString(n.Label())
	}
	b.WriteString(" = " + n.Op.Name)
	for i, x := range n.In {
		sep := ", "
		if i == 0 {
			sep = " "
		}
		b.WriteString(sep + x.Label())
	}
	if a := n.AttrText(); a != "" {
		b.WriteString(" " + a)
	}
	b.WriteString(" : " + n.TypeText())
	return b.String()
}

// TypeText prints the node's type, or those of a tuple node's results: f32[2,5], i32[2,5].
func (n *Node) TypeText() string { return typeText(n.Type, n.Results) }

// typeText prints the types of a tuple node's results, or the type of any other node.
func typeText(t Type, results []Type) string {
	if results == nil {
		return t.String()
	}
	parts := make([]string, len(results))
	for k, r := range results {
		parts[k] = r.String()
	}
	return strings.Join(parts, ", ")
}

// AttrText prints the attributes that are not zero as {a=1, b=[2,3]}, or nothing.
func (n *Node) AttrText() string {
	if parts := n.Op.AttrTexts(n.Attrs); parts != nil {
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return ""
}

// AttrTexts prints each attribute that is not zero as name=value.
func (d *OpDef) AttrTexts(attrs any) (texts []string) {
	for _, a := range d.Attrs(attrs) {
		if !a.isZero() {
			texts = append(texts, a.Name+"="+a.Text())
		}
	}
	return texts
}
