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
//	z = conv1d v, w, bias=b {layout="ncw"} : f32[2,2]
//	return probs=y, best=i
//
// Optional operands are written by name. Attributes are sorted by name, and zero values are omitted. An op with several
// results is one line, which names them all. The graphs that attributes refer to come first, see body.go; a graph
// without a name is then called main.
func (g *Graph) String() string {
	var b strings.Builder
	name, printed := g.Name, map[string]bool{}
	for _, body := range g.Bodies() {
		if !printed[body.Name] {
			printed[body.Name] = true
			b.WriteString(body.text(body.Name) + "\n")
		}
	}
	if len(printed) > 0 && name == "" {
		for name = "main"; printed[name]; {
			name += "_"
		}
	}
	b.WriteString(g.text(name))
	return b.String()
}

// text prints the graph under a name, without the graphs that its attributes refer to.
func (g *Graph) text(name string) string {
	var b strings.Builder
	if name != "" {
		fmt.Fprintf(&b, "graph %s\n", name)
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

// String returns one line with label, op, operands, attributes and type. For a tuple node it has the labels and types
// of all results.
func (n *Node) String() string {
	var b strings.Builder
	if n.Op.Tuple {
		b.WriteString(strings.Join(n.valueLabels(), ", "))
	} else {
		b.WriteString(n.Label())
	}
	b.WriteString(" = " + n.Op.Name)
	sep := " "
	for k, x := range n.Operands() {
		b.WriteString(sep)
		if k < len(n.Op.Operands) && n.Op.Operands[k].Optional {
			b.WriteString(n.Op.Operands[k].Name + "=")
		}
		b.WriteString(x.Label())
		sep = ", "
	}
	if a := n.AttrText(); a != "" {
		b.WriteString(" " + a)
	}
	b.WriteString(" : " + n.TypeText())
	return b.String()
}

// TypeText returns the type of the node as text. For a tuple node it returns those of all results, such as f32[2,5],
// i32[2,5].
func (n *Node) TypeText() string { return typeText(n.Type, n.Results) }

// typeText returns the types of a tuple node's results, or the type of any other node, as text.
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

// AttrText returns the attributes that are not zero as text, such as {a=1, b=[2,3]}. It is empty if all are zero.
func (n *Node) AttrText() string {
	if parts := n.Op.AttrTexts(n.Attrs); parts != nil {
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return ""
}

// AttrTexts returns each attribute that is not zero as text of the form name=value.
func (d *OpDef) AttrTexts(attrs any) (texts []string) {
	for _, a := range d.Attrs(attrs) {
		if !a.isZero() {
			texts = append(texts, a.Name+"="+a.Text())
		}
	}
	return texts
}
