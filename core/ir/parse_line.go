package ir

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

type parser struct {
	g        *Graph
	names    map[string]*Node
	returned bool
	limits   Limits
	graphs   map[string]*body // that attributes may refer to
	depth    int              // see Graph.Nesting

	inputs, operands, bodyNodes int // so far
}

func (p *parser) line(s string) error {
	if p.returned {
		return fmt.Errorf("text after return")
	}
	if rest, ok := strings.CutPrefix(s, "graph "); ok && len(p.g.Nodes) == 0 {
		p.g.Name = strings.TrimSpace(rest)
		return CheckName(p.g.Name)
	}
	if rest, ok := strings.CutPrefix(s, "sym "); ok && len(p.g.Nodes) == 0 {
		return p.sym(rest)
	}
	if rest, ok := strings.CutPrefix(s, "return "); ok {
		p.returned = true
		return p.outputs(rest)
	}
	return p.node(s)
}

func (p *parser) sym(s string) error {
	name, rng, _ := strings.Cut(s, "=")
	lo, hi, ok := strings.Cut(rng, "..")
	name = strings.TrimSpace(name)
	min, err1 := strconv.ParseInt(strings.TrimSpace(lo), 10, 64)
	max, err2 := strconv.ParseInt(strings.TrimSpace(hi), 10, 64)
	if !ok || !IsSymbol(name) || err1 != nil || err2 != nil {
		return fmt.Errorf("symbol %q: want sym NAME = MIN..MAX", s)
	}
	p.g.Syms = append(p.g.Syms, Sym{name, min, max})
	return p.g.Syms.verify() // before a type uses it
}

func (p *parser) outputs(s string) error {
	for part := range strings.SplitSeq(s, ",") {
		name, label, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			label = name
		}
		name, label = strings.TrimSpace(name), strings.TrimSpace(label)
		n, found := p.names[label]
		if !found {
			return fmt.Errorf("return of unknown value %q", label)
		}
		if err := CheckName(name); err != nil {
			return fmt.Errorf("return: %w", err)
		}
		p.g.Return(name, n)
		if err := check(len(p.g.Outputs), p.limits.Signature, "outputs"); err != nil {
			return err
		}
	}
	return nil
}

// node parses LABEL, ... = OP OPERAND, ..., NAME=OPERAND, ... {ATTRS} : TYPE, .... There are several labels and types
// if the op has several results.
func (p *parser) node(s string) error {
	left, rest, ok := strings.Cut(s, " = ")
	if !ok {
		return fmt.Errorf("%q: want LABEL = OP OPERANDS {ATTRIBUTES} : TYPE", s)
	}
	labels, err := p.labels(left)
	if err != nil {
		return err
	}
	label := strings.Join(labels, ",")
	i := strings.LastIndex(rest, " : ")
	if i < 0 {
		return fmt.Errorf("%s has no type; want \" : TYPE\" at the end", label)
	}
	types, err := parseTypes(rest[i+3:])
	if err != nil {
		return fmt.Errorf("%s: %w", label, err)
	}
	head, attrText := rest[:i], ""
	if j := strings.IndexByte(head, '{'); j >= 0 {
		end := strings.LastIndexByte(head, '}')
		if end < j || strings.TrimSpace(head[end+1:]) != "" {
			return fmt.Errorf("%s: attributes are not closed by }", label)
		}
		head, attrText = head[:j], head[j+1:end]
	}
	name, operands, _ := strings.Cut(plainCall(strings.TrimSpace(head)), " ")
	list, err := parseAttrs(attrText, p.value)
	if err != nil {
		return fmt.Errorf("%s: %w", label, err)
	}
	def, known := Find(name)
	var attrs any
	var attrsOf func([]Attr, []Type) (any, error) // of an op that is not registered
	switch {
	case known:
		attrs, err = def.MakeAttrs(list)
	case p.limits.Unknown == nil:
		return fmt.Errorf("%s: unknown op %q", label, name)
	default:
		def, attrsOf, err = p.limits.Unknown(name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", label, err)
	}
	in, err := p.operandList(def, strings.TrimSpace(operands))
	if err == nil && attrsOf != nil {
		attrs, err = attrsOf(list, (&Node{In: in}).InTypes())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", label, err)
	}
	if len(types) != len(labels) {
		return fmt.Errorf("%s: %d results with %d types", label, len(labels), len(types))
	}
	var values []*Node
	switch {
	case def.Tuple:
		values = p.g.AddResults(len(labels), def, attrs, in...)
	case len(labels) == 1:
		values = []*Node{p.g.AddDeclared(def, attrs, types[0], in...)}
	default:
		return fmt.Errorf("%s: %d results; %s has one", label, len(labels), name)
	}
	if p.g.err != nil {
		return fmt.Errorf("%s: %w", label, p.g.err)
	}
	if def.Name == "input" {
		p.inputs++
	}
	if err := cmp.Or(check(p.inputs, p.limits.Signature, "inputs"),
		check(len(p.g.Nodes)+p.bodyNodes, p.limits.Nodes, "nodes")); err != nil {
		return fmt.Errorf("%s: %w", label, err)
	}
	for k, n := range values {
		if !n.Type.Equal(types[k]) {
			return fmt.Errorf("%s: type is written as %v, inferred is %v", labels[k], types[k], n.Type)
		}
		p.names[labels[k]] = n
		if !strings.HasPrefix(labels[k], "%") {
			n.Name = labels[k]
		}
	}
	return nil
}

// plainCall returns OP X, Y, Z for OP(X; Y, Z), the other way to write an op with a variadic last operand.
func plainCall(head string) string {
	name, rest, ok := strings.Cut(head, "(")
	inner, closed := strings.CutSuffix(rest, ")")
	first, others, parts := strings.Cut(inner, ";")
	def, known := Find(name)
	if !ok || !closed || !parts || !known || !def.Variadic() || strings.Contains(others, ";") {
		return head
	}
	return name + " " + first + "," + others
}

// operandList parses the operands of a node of op def, such as x, w, bias=b. Optional operands are named. If the op has
// only one, the name may be left out.
func (p *parser) operandList(def *OpDef, s string) (in []*Node, err error) {
	if s == "" {
		return nil, nil
	}
	positional, named := 0, false
	for part := range strings.SplitSeq(s, ",") {
		name, label, ok := strings.Cut(part, "=")
		name, label = strings.TrimSpace(name), strings.TrimSpace(label)
		k := def.Operand(name)
		switch {
		case !ok && named:
			return nil, fmt.Errorf("%s: operand %q comes after a named one; want those without a name first", def.Name,
				name)
		case !ok:
			label, k = name, positional
			positional++
		case k < 0 || def.Operands[k].Variadic:
			return nil, fmt.Errorf("%s: has no operand %q to name; want %s", def.Name, name, def.Signature())
		default:
			named = true
		}
		x, known := p.names[label]
		if !known {
			return nil, fmt.Errorf("unknown operand %q", label)
		}
		for len(in) <= k {
			in = append(in, nil)
		}
		if in[k] != nil {
			return nil, fmt.Errorf("%s: operand %s is given twice", def.Name, name)
		}
		in[k] = x
		p.operands++
		if err := cmp.Or(check(len(in), p.limits.Operands, "operands"),
			check(p.operands, p.limits.AllOperands, "operands of all nodes")); err != nil {
			return nil, err
		}
	}
	if optional := len(def.Operands) - def.Required(); positional > def.Required() && positional <= len(def.Operands) &&
		optional > 1 {
		return nil, fmt.Errorf("%s: %d operands without a name; want %d, and any others by name: %s", def.Name,
			positional, def.Required(),
			def.usage(func(Operand) bool { return true }))
	}
	return in, nil
}

// usage shows how an op is written with the optional operands that shown is true for.
func (d *OpDef) usage(shown func(o Operand) bool) string {
	var parts []string
	for _, o := range d.Operands {
		if !o.Optional {
			parts = append(parts, o.String())
		} else if shown(o) {
			parts = append(parts, o.Name+"=NAME")
		}
	}
	return d.Name + " " + strings.Join(parts, ", ")
}

// labels parses a list of new labels.
func (p *parser) labels(s string) ([]string, error) {
	labels := strings.Split(s, ",")
	if err := check(len(labels), MaxResults, "results"); err != nil {
		return nil, err
	}
	for k, l := range labels {
		l = strings.TrimSpace(l)
		labels[k] = l
		if p.names[l] != nil || slices.Contains(labels[:k], l) {
			return nil, fmt.Errorf("%s is defined twice", l)
		}
		if err := CheckName(strings.TrimPrefix(l, "%")); err != nil {
			return nil, err
		}
	}
	return labels, nil
}

// parseTypes parses a list of types, such as f32[2,3], i32[4].
func parseTypes(s string) ([]Type, error) {
	var types []Type
	for {
		part := s
		end := strings.IndexByte(s, ']')
		if end >= 0 {
			part = s[:end+1]
		}
		t, err := ParseType(part)
		if err != nil {
			return nil, err
		}
		types = append(types, t)
		if err := check(len(types), MaxResults, "types"); err != nil {
			return nil, err
		}
		rest := strings.TrimSpace(s[len(part):])
		if rest == "" {
			return types, nil
		}
		if s, _ = strings.CutPrefix(rest, ","); len(s) == len(rest) {
			return nil, fmt.Errorf("type %q is followed by %q; want a comma and another type, or nothing",
				strings.TrimSpace(part), rest)
		}
	}
}

// maxAttrs bounds the attributes of a node. No op has more.
const maxAttrs = 64

// parseAttrs parses a list of attributes, such as a=1, b=[2,3], c="x, y", d=@step. value parses one of their values.
func parseAttrs(s string, value func(string) (any, error)) ([]Attr, error) {
	var list []Attr
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		name, rest, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("attribute %q: want NAME=VALUE", s)
		}
		end := attrEnd(rest)
		v, err := value(strings.TrimSpace(rest[:end]))
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		list = append(list, Attr{strings.TrimSpace(name), v})
		if err := check(len(list), maxAttrs, "attributes"); err != nil {
			return nil, err
		}
		s = strings.TrimPrefix(rest[end:], ",")
	}
	return list, nil
}

// value parses the value of an attribute.
func (p *parser) value(s string) (any, error) {
	name, ok := strings.CutPrefix(s, "@")
	if !ok {
		return ParseValue(s)
	}
	b := p.graphs[name]
	if b == nil {
		return nil, fmt.Errorf("there is no graph %.40q before this one", name)
	}
	if p.depth = max(p.depth, 1+b.depth); p.depth > MaxNesting {
		return nil, tooDeep(p.g.Name, p.depth)
	}
	b.used = true
	p.bodyNodes += b.nodes
	if p.limits.Nodes > 0 {
		p.bodyNodes = min(p.bodyNodes, p.limits.Nodes+1) // without overflow
	}
	return b.g, nil
}

// attrEnd returns the index of the comma that ends a value. Commas in lists, in braces and in strings do not count.
func attrEnd(s string) int {
	if strings.HasPrefix(strings.TrimSpace(s), "@") { // names of graphs may have brackets
		if i := strings.IndexByte(s, ','); i >= 0 {
			return i
		}
		return len(s)
	}
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0:
			return i
		}
	}
	return len(s)
}
