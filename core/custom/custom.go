// Package custom reads definitions of ops that are not registered: the ops of a model's author, or of a backend's. A
// definition gives an op a name, attributes, and a meaning, which is a graph of other ops:
//
//	op acme.wave
//	attr alpha = 0.5
//	replaces expansion
//
//	graph expansion
//	sym N = 0..1048576
//	x = input : f32[N]
//	a = const {value=$alpha} : f32[]
//	s = sin x : f32[N]
//	y = mul s, a : f32[N]
//	return y=y
//
// In a graph such a node is of op "custom" and has the expansion with it (op.CustomDef), so nothing but the compiler
// needs the definition. $NAME in a graph stands for the value of an attribute. docs/custom-ops.md describes the file,
// and docs/rationale.md has the reasons.
//
// The package imports core/op, core/ir and what these import, core/code and core/diag. It knows no pass and no target.
package custom

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// Definition is the definition of one op.
type Definition struct {
	Name     string
	Source   string           // the file, for errors
	Defaults []ir.Attr        // the op's own attributes with their defaults, sorted by name
	Abs, Rel float64          // see op.CustomAttrs
	Sizes    []map[string]any // attributes and sizes of the cases to test; see Cases
	Ranges   map[string]ir.Range

	expansion template
	gradient  template // empty if the op has no gradient rule
	patterns  []template
	line      int
	reads     map[string]string // attributes of element types that inputs of the expansion have, by input
	made      map[string]*ir.Graph
}

// Library is a set of definitions. The zero value is empty.
type Library struct {
	list []*Definition // in the order of Add
	by   map[string]*Definition
}

// Find returns the definition of an op.
func (l *Library) Find(name string) (*Definition, bool) {
	if l == nil {
		return nil, false
	}
	d, ok := l.by[name]
	return d, ok
}

// Definitions returns all definitions in the order in which they were added.
func (l *Library) Definitions() []*Definition {
	if l == nil {
		return nil
	}
	return l.list
}

// Resolve finds the op of that name, for ir.Limits.Unknown and for importers of models, whose files name such ops by a
// vendor's domain. attrs returns the attributes of a node. The error for an unknown name with a dot has the code
// code.UnknownOp.
func (l *Library) Resolve(name string) (
	def *ir.OpDef, attrs func(given []ir.Attr, in []ir.Type) (any, error), err error) {
	d, ok := l.Find(name)
	switch {
	case !ok && !op.IsCustomName(name):
		return nil, nil, fmt.Errorf("unknown op %q", name)
	case !ok:
		return nil, nil, l.unknown(name)
	}
	return op.CustomDef, func(given []ir.Attr, in []ir.Type) (any, error) { return d.Attrs(given, in) }, nil
}

// unknown returns the error for an op that is neither registered nor defined.
func (l *Library) unknown(name string) error {
	e := diag.New(code.UnknownOp, fmt.Sprintf("op %.80q", name),
		"is not an op of RLX, and no definition of it is given")
	if len(l.Definitions()) > 0 {
		var known []string
		for _, d := range l.list {
			known = append(known, d.Name)
		}
		slices.Sort(known)
		return e.WithHint("defined are %s; --op FILE gives further definitions", strings.Join(known, ", "))
	}
	return e.WithHint("spec/ops.md lists the ops; --op FILE defines one of your own")
}

// Attrs returns the attributes of a node of op "custom" for operands of the given types. Attributes that given lacks
// have their defaults. An attribute that is the element type of an operand has that operand's type.
func (d *Definition) Attrs(given []ir.Attr, in []ir.Type) (op.CustomAttrs, error) {
	own, err := d.own(given, in)
	if err != nil {
		return op.CustomAttrs{}, err
	}
	a := op.CustomAttrs{Name: d.Name, Own: own, Abs: d.Abs, Rel: d.Rel}
	if a.Expansion, err = d.expand(own); err == nil && d.gradient.text != "" {
		a.Gradient, err = d.fill(d.gradient, d.Name+".gradient", own)
	}
	if err != nil {
		return op.CustomAttrs{}, err
	}
	return a, nil
}

// own returns the values of all of the op's own attributes, sorted by name.
func (d *Definition) own(given []ir.Attr, in []ir.Type) ([]ir.Attr, error) {
	own := slices.Clone(d.Defaults)
	seen := map[string]bool{}
	for _, a := range given {
		k := slices.IndexFunc(own, func(o ir.Attr) bool { return o.Name == a.Name })
		if k < 0 {
			return nil, fmt.Errorf("%s: unknown attribute %.40q; known: %v", d.Name, a.Name, d.attrNames())
		}
		if seen[a.Name] {
			return nil, fmt.Errorf("%s: attribute %q is given twice", d.Name, a.Name)
		}
		v, ok := convert(a.Value, own[k].Value)
		if !ok {
			return nil, fmt.Errorf("%s: attribute %q is %s; want a value like its default, %s", d.Name, a.Name,
				a.Text(), own[k].Text())
		}
		own[k].Value, seen[a.Name] = v, true
	}
	for k, x := range d.expansionInputs() {
		name := d.reads[x]
		i := slices.IndexFunc(own, func(o ir.Attr) bool { return o.Name == name })
		if i >= 0 && k < len(in) && !seen[name] {
			own[i].Value, seen[name] = in[k].DType, true
		}
	}
	return own, nil
}

func (d *Definition) attrNames() (names []string) {
	for _, a := range d.Defaults {
		names = append(names, a.Name)
	}
	return names
}

// convert returns v in the type of like. An integer stands for a float, too.
func convert(v, like any) (any, bool) {
	if n, ok := v.(int64); ok {
		if _, float := like.(float64); float {
			return float64(n), true
		}
	}
	return v, fmt.Sprintf("%T", v) == fmt.Sprintf("%T", like)
}

// expand returns the expansion for the values of the op's attributes. Its name is that of the op; see fill.
func (d *Definition) expand(own []ir.Attr) (*ir.Graph, error) {
	return d.fill(d.expansion, d.Name, own)
}

// fill returns a graph of the definition for the values of the op's attributes, under a name to which a digest of its
// text is added unless the values are the defaults.
func (d *Definition) fill(from template, name string, own []ir.Attr) (*ir.Graph, error) {
	text, err := from.fill(own)
	if err != nil {
		return nil, err
	}
	if g := d.made[text]; g != nil {
		return g, nil
	}
	g, err := from.parse(d, text)
	if err != nil {
		return nil, err
	}
	g.Name = name
	if !slices.EqualFunc(own, d.Defaults, func(a, b ir.Attr) bool { return a.Text() == b.Text() }) {
		g.Name += fmt.Sprintf("-%x", sha256.Sum256([]byte(g.String())))[:9]
	}
	if d.made == nil {
		d.made = map[string]*ir.Graph{}
	}
	d.made[text] = g
	return g, nil
}

// expansionInputs returns the names of the inputs of the expansion, in order.
func (d *Definition) expansionInputs() (names []string) {
	for _, m := range inputLine().FindAllStringSubmatch(d.expansion.text, -1) {
		names = append(names, m[1])
	}
	return names
}

var (
	hole      = lazy(`\$[a-z][a-z0-9_]*`)
	inputLine = lazy(`(?m)^\s*([^\s=]+) = input : ([^\s\[]+)\[`)
	holeAttr  = lazy(`([a-z_][a-z0-9_]*)=(\$[a-z][a-z0-9_]*)\s*[,}]`)
)

// lazy returns a function that compiles an expression when it is first called, because most programs need none.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// template is the text of a graph in which $NAME stands for an attribute of the op.
type template struct {
	line int // of the line "graph ..."
	text string
}

// fill replaces the holes of the text.
func (t template) fill(own []ir.Attr) (text string, err error) {
	text = hole().ReplaceAllStringFunc(t.text, func(name string) string {
		k := slices.IndexFunc(own, func(a ir.Attr) bool { return a.Name == name[1:] })
		if k < 0 {
			err = cmp.Or(err, error(fmt.Errorf("line %d: %s is not an attribute of the op", t.line, name)))
			return name
		}
		return own[k].Text()
	})
	return text, err
}

// parse parses the text that fill returned. Errors have the line of the file.
func (t template) parse(d *Definition, text string) (*ir.Graph, error) {
	g, err := ir.Parse(strings.Repeat("\n", t.line-1) + text)
	if err != nil {
		return nil, err
	}
	fail := func(err error) error { return fmt.Errorf("line %d: %w", t.line, err) }
	if err := g.Verify(); err != nil {
		return nil, fail(err)
	}
	if n := len(g.Nodes); n > op.MaxExpansion {
		return nil, fail(fmt.Errorf("has %d nodes; at most %d", n, op.MaxExpansion))
	}
	if len(g.Inputs()) == 0 {
		return nil, fail(fmt.Errorf("has no inputs; want one or more"))
	}
	if err := g.CheckGeneric(); err != nil {
		return nil, fail(err)
	}
	return g, nil
}

// Cases returns attributes and operand types to test the op with: those of the definition's lines "case", or a few
// small sizes.
func (d *Definition) Cases() ([]ir.Case[any], error) {
	g, err := d.expand(d.Defaults)
	if err != nil {
		return nil, err
	}
	list := d.Sizes
	if list == nil {
		list = defaultSizes(g.Syms)
	}
	var out []ir.Case[any]
	for _, values := range list {
		var given []ir.Attr
		sizes := map[string]int64{}
		for _, s := range g.Syms {
			sizes[s.Name] = max(s.Min, min(s.Max, 4))
		}
		for name, v := range values {
			if _, ok := g.Syms.Find(name); ok {
				sizes[name] = v.(int64)
			} else {
				given = append(given, ir.Attr{Name: name, Value: v})
			}
		}
		a, err := d.Attrs(given, nil)
		if err != nil {
			return nil, err
		}
		if err := a.Expansion.Syms.Check(sizes); err != nil {
			return nil, fmt.Errorf("%s: case: %w", d.Name, err)
		}
		plain := a
		plain.Gradient = nil // backends have no use for it
		c := ir.Case[any]{Attrs: plain}
		for _, x := range a.Expansion.Inputs() {
			c.In = append(c.In, x.Type.At(sizes))
			r, ok := d.Ranges[x.Name]
			if !ok {
				r = ir.Range{Lo: -2, Hi: 2}
				if !x.Type.DType.IsFloat() {
					r = ir.Range{Lo: 0, Hi: 3}
				}
			}
			c.Fill = append(c.Fill, r)
		}
		out = append(out, c)
	}
	return out, nil
}

// defaultSizes returns small sizes within the ranges of symbols: the least ones, ones that no vector length divides,
// and some of which vectors are made.
func defaultSizes(syms ir.Syms) (out []map[string]any) {
	for _, base := range []int64{0, 1, 5, 8, 33, 64} {
		values := map[string]any{}
		for i, s := range syms {
			n := base
			if base > 1 {
				n += int64(i) // sizes that differ find operands that are mixed up
			}
			values[s.Name] = max(s.Min, min(s.Max, n))
		}
		if !slices.ContainsFunc(out, func(m map[string]any) bool { return fmt.Sprint(m) == fmt.Sprint(values) }) {
			out = append(out, values)
		}
	}
	return out
}
