package ir

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// Operand declares an operand of an op. Operand k of a node is Node.In[k], and element k of every list of operands that
// a function of the op gets.
type Operand struct {
	Name string
	// Optional: a node may lack the operand. Its place in a list then has nil or the zero Type.
	Optional bool
	// Variadic: one operand or more. Such an operand is the last, and the op has no optional ones.
	Variadic bool
}

// String returns the operand as it is declared, such as x, bias? or x....
func (o Operand) String() string {
	switch {
	case o.Optional:
		return o.Name + "?"
	case o.Variadic:
		return o.Name + "..."
	}
	return o.Name
}

// parseOperands parses a declaration of operands, such as "x, w, bias?" or "x...". It panics if the declaration is
// malformed.
func parseOperands(op, text string) (list []Operand) {
	if text == "" {
		return nil
	}
	parts := strings.Split(text, ", ")
	for i, part := range parts {
		var o Operand
		o.Name, o.Optional = strings.CutSuffix(part, "?")
		o.Name, o.Variadic = strings.CutSuffix(o.Name, "...")
		known := slices.ContainsFunc(list, func(x Operand) bool { return x.Name == o.Name })
		late := i > 0 && list[i-1].Optional && !o.Optional
		if !IsSymbol(o.Name) || known || late || o.Variadic && (o.Optional || i < len(parts)-1) {
			panic(
				"BUG: op " + op + ": operands \"" + text +
					"\"; want different names, optional ones last, or a variadic one last")
		}
		list = append(list, o)
	}
	return list
}

// Required returns the number of operands that every node of the op has. They come before the optional ones.
func (d *OpDef) Required() int {
	if k := slices.IndexFunc(d.Operands, func(o Operand) bool { return o.Optional }); k >= 0 {
		return k
	}
	return len(d.Operands)
}

// Variadic reports whether the last operand stands for any number of them.
func (d *OpDef) Variadic() bool {
	n := len(d.Operands)
	return n > 0 && d.Operands[n-1].Variadic
}

// Operand returns the index of the operand of that name, or -1.
func (d *OpDef) Operand(name string) int {
	return slices.IndexFunc(d.Operands, func(o Operand) bool { return o.Name == name })
}

// OperandName returns the declared name of operand k, or a name such as x[2] for the third operand of x....
func (d *OpDef) OperandName(k int) string {
	if first := len(d.Operands) - 1; d.Variadic() && k >= first {
		return fmt.Sprintf("%s[%d]", d.Operands[first].Name, k-first)
	}
	return d.Operands[k].Name
}

// Signature returns the declaration of the operands, such as "x, w, bias?".
func (d *OpDef) Signature() string {
	parts := make([]string, len(d.Operands))
	for i, o := range d.Operands {
		parts[i] = o.String()
	}
	return strings.Join(parts, ", ")
}

// CheckOperands checks how many operands a node has. present reports whether operand k, one of the first n, is there.
// The error has no op name.
func (d *OpDef) CheckOperands(n int, present func(k int) bool) error {
	if n > len(d.Operands) && !d.Variadic() {
		want := d.Signature()
		if want == "" {
			want = "none"
		}
		return fmt.Errorf("%d operands; want %s", n, want)
	}
	for k := range max(n, d.Required()) {
		if (k >= n || !present(k)) && !(k < len(d.Operands) && d.Operands[k].Optional) {
			return fmt.Errorf("operand %s is missing; want %s", d.OperandName(k), d.Signature())
		}
	}
	return nil
}

// padded returns a list of operands with a place for each declared operand.
func padded[T any](d *OpDef, in []T) []T {
	if len(in) >= len(d.Operands) {
		return in
	}
	return append(slices.Clone(in), make([]T, len(d.Operands)-len(in))...)
}

// Operands returns the operands that the node has, with their indices in In.
func (n *Node) Operands() iter.Seq2[int, *Node] {
	return func(yield func(int, *Node) bool) {
		for k, x := range n.In {
			if x != nil && !yield(k, x) {
				return
			}
		}
	}
}

// Arity returns the number of operands that the node has.
func (n *Node) Arity() (count int) {
	for range n.Operands() {
		count++
	}
	return count
}

// MapIn returns a list like In with f of each operand. The places of absent operands stay empty.
func (n *Node) MapIn(f func(x *Node) *Node) []*Node {
	in := make([]*Node, len(n.In))
	for k, x := range n.Operands() {
		in[k] = f(x)
	}
	return in
}

// InTypes returns the types of the operands. The type of an absent operand is the zero Type.
func (n *Node) InTypes() []Type {
	t := make([]Type, len(n.In))
	for k, x := range n.Operands() {
		t[k] = x.Type
	}
	return t
}

// Types returns the types of the operands that the node has, followed by those of its results.
func (n *Node) Types() []Type {
	var t []Type
	for _, x := range n.Operands() {
		t = append(t, x.Type)
	}
	return append(t, n.ResultTypes()...)
}

// Present reports whether t is the type of a value. The zero Type stands for an absent operand.
func (t Type) Present() bool { return t.DType != dtype.Invalid }
