package custom

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// Limits of files with definitions.
const (
	MaxText     = 4 << 20 // bytes
	maxOps      = 256     // in one file
	maxAttrs    = 32      // of one op
	maxPatterns = 16      // of one op
	maxCases    = 64      // of one op
)

// Parse reads definitions and adds them to the library. source is the file's name, for errors, which have the code
// code.OpFile and give the line.
func (l *Library) Parse(source, text string) error {
	fail := func(err error) error { return diag.New(code.OpFile, source, "%w", err) }
	if len(text) > MaxText || !utf8.ValidString(text) {
		return fail(fmt.Errorf("has %d bytes or is not UTF-8; want at most %d bytes of UTF-8", len(text), MaxText))
	}
	f := file{source: source}
	for i, line := range strings.Split(text, "\n") {
		if err := f.line(i+1, strings.TrimRight(line, "\r")); err != nil {
			return fail(fmt.Errorf("line %d: %w", i+1, err))
		}
	}
	if len(f.list) == 0 {
		return fail(fmt.Errorf("defines no op; want a line \"op NAME\""))
	}
	for _, d := range f.list {
		if err := d.check(); err != nil {
			return fail(err)
		}
		if old, ok := l.Find(d.Name); ok {
			return fail(fmt.Errorf("line %d: op %s is defined in %s already", d.line, d.Name, old.Source))
		}
		if l.by == nil {
			l.by = map[string]*Definition{}
		}
		l.by[d.Name], l.list = d, append(l.list, d)
	}
	return nil
}

// file is a file that is being read.
type file struct {
	source string
	list   []*Definition
	graph  *template // of the last definition; nil in its head
}

func (f *file) line(number int, line string) error {
	text := strings.TrimSpace(line)
	word, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	if i := strings.Index(rest, " #"); i >= 0 && f.graph == nil && !strings.Contains(rest, `"`) {
		rest = strings.TrimSpace(rest[:i])
	}
	switch {
	case word == "op" && (f.graph == nil || !strings.Contains(rest, "=")):
		return f.begin(number, rest)
	case f.graph != nil && word == "graph":
		return f.begun(number, rest)
	case f.graph != nil:
		f.graph.text += line + "\n"
		return nil
	case text == "" || text[0] == '#':
		return nil
	case len(f.list) == 0:
		return fmt.Errorf("found %.40q; want a line \"op NAME\" first", text)
	case word == "graph":
		return f.begun(number, rest)
	}
	d := f.list[len(f.list)-1]
	switch word {
	case "attr":
		return d.attr(rest)
	case "tolerance":
		return d.tolerance(rest)
	case "replaces":
		if rest != "expansion" {
			return fmt.Errorf("replaces %.40q; want replaces expansion, or a graph pattern", rest)
		}
		d.patterns = append(d.patterns, template{}) // the expansion, see check
		return nil
	case "case":
		return d.oneCase(rest)
	case "range":
		return d.rangeOf(rest)
	}
	return fmt.Errorf("found %.40q; want attr, tolerance, replaces, case, range, or the line \"graph expansion\"", text)
}

// begin begins the definition of an op.
func (f *file) begin(number int, name string) error {
	switch {
	case len(f.list) == maxOps:
		return fmt.Errorf("more than %d ops", maxOps)
	case !op.IsCustomName(name):
		return fmt.Errorf("op %.80q: want a name with a dot, such as acme.wave, of lower-case letters, digits and _",
			name)
	case slices.ContainsFunc(f.list, func(d *Definition) bool { return d.Name == name }):
		return fmt.Errorf("op %s is defined twice", name)
	}
	f.list, f.graph = append(f.list, &Definition{Name: name, Source: f.source, line: number}), nil
	return nil
}

// begun begins a graph.
func (f *file) begun(number int, what string) error {
	d := f.list[len(f.list)-1]
	t := template{line: number, text: "graph " + what + "\n"}
	switch {
	case what == "expansion" && d.expansion.text != "":
		return fmt.Errorf("op %s has two expansions", d.Name)
	case what == "expansion":
		d.expansion = t
		f.graph = &d.expansion
	case what == "gradient" && d.gradient.text != "":
		return fmt.Errorf("op %s has two gradients", d.Name)
	case what == "gradient":
		d.gradient = t
		f.graph = &d.gradient
	case what == "pattern" && len(d.patterns) == maxPatterns:
		return fmt.Errorf("op %s has more than %d patterns", d.Name, maxPatterns)
	case what == "pattern":
		d.patterns = append(d.patterns, t)
		f.graph = &d.patterns[len(d.patterns)-1]
	default:
		return fmt.Errorf("graph %.40q; want graph expansion, graph gradient or graph pattern", what)
	}
	return nil
}

// reserved are names that the conditions of target rules use for something else.
var reserved = []string{"name", "own", "expansion", "gradient", "abs", "rel", "broadcast", "parts"}

func (d *Definition) attr(text string) error {
	name, value, ok := strings.Cut(text, "=")
	name = strings.TrimSpace(name)
	v, err := ir.ParseValue(strings.TrimSpace(value))
	switch {
	case !ok:
		return fmt.Errorf("attr %.40q; want attr NAME = DEFAULT", text)
	case err != nil:
		return fmt.Errorf("attribute %s: %w", name, err)
	case slices.Contains([]string{"graph", "attrs", "unknown"}, ir.ValueKind(v)):
		return fmt.Errorf("attribute %s is %s; want a bool, number, string, list of integers or element type", name,
			strings.TrimSpace(value))
	case !ir.IsSymbol(name) || strings.ToLower(name) != name || slices.Contains(reserved, name):
		return fmt.Errorf("attribute %.40q; want lower-case letters, digits and _, and none of %s", name,
			strings.Join(reserved, ", "))
	case len(d.Defaults) == maxAttrs:
		return fmt.Errorf("more than %d attributes", maxAttrs)
	case slices.ContainsFunc(d.Defaults, func(a ir.Attr) bool { return a.Name == name }):
		return fmt.Errorf("attribute %s is listed twice", name)
	}
	if x, ok := v.(float64); ok && (math.IsNaN(x) || math.IsInf(x, 0)) {
		return fmt.Errorf("attribute %s is %v; want a finite number", name, x)
	}
	d.Defaults = append(d.Defaults, ir.Attr{Name: name, Value: v})
	slices.SortFunc(d.Defaults, func(a, b ir.Attr) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// numbers reads n finite numbers.
func numbers(text string, n int) (out []float64, ok bool) {
	for word := range strings.FieldsSeq(text) {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, false
		}
		out = append(out, v)
	}
	return out, len(out) == n
}

func (d *Definition) tolerance(text string) error {
	v, ok := numbers(text, 2)
	if !ok || v[0] < 0 || v[1] < 0 || v[0]+v[1] == 0 {
		return fmt.Errorf("tolerance %.40q; want tolerance ABSOLUTE RELATIVE, such as 1e-6 1e-5", text)
	}
	d.Abs, d.Rel = v[0], v[1]
	return nil
}

func (d *Definition) rangeOf(text string) error {
	name, rest, _ := strings.Cut(text, " ")
	v, ok := numbers(rest, 2)
	if !ok || v[0] > v[1] {
		return fmt.Errorf("range %.40q; want range INPUT LEAST MOST, such as range x 0 1", text)
	}
	if d.Ranges == nil {
		d.Ranges = map[string]ir.Range{}
	}
	d.Ranges[name] = ir.Range{Lo: v[0], Hi: v[1]}
	return nil
}

func (d *Definition) oneCase(text string) error {
	values := map[string]any{}
	for _, part := range strings.Fields(text) {
		name, value, ok := strings.Cut(part, "=")
		v, err := ir.ParseValue(value)
		if !ok || err != nil {
			return fmt.Errorf("case %.40q; want case NAME=VALUE ..., such as case N=33 alpha=2.0: %w", part, err)
		}
		values[name] = v
	}
	if d.Sizes = append(d.Sizes, values); len(values) == 0 || len(d.Sizes) > maxCases {
		return fmt.Errorf("case without values, or more than %d cases", maxCases)
	}
	return nil
}

// checkGradient checks the types of the gradient rule, if there is one, for the given cases.
func (d *Definition) checkGradient(cases []ir.Case[any]) (err error) {
	if d.gradient.text == "" {
		return nil
	}
	for _, c := range cases {
		a := c.Attrs.(op.CustomAttrs)
		if a.Gradient, err = d.fill(d.gradient, d.Name+".gradient", a.Own); err != nil {
			return err
		}
		if _, err := op.CustomDef.InferResults(a, c.In, ir.Type{}, nil); err != nil {
			return fmt.Errorf("line %d: %w", d.gradient.line, err)
		}
	}
	return nil
}

// check checks a definition that was read completely.
func (d *Definition) check() error {
	fail := func(err error) error { return fmt.Errorf("op %s: %w", d.Name, err) }
	if d.expansion.text == "" {
		return fail(
			fmt.Errorf("line %d: has no expansion; want \"graph expansion\" and a graph that says what the op means",
				d.line))
	}
	d.reads = map[string]string{}
	for _, m := range inputLine().FindAllStringSubmatch(d.expansion.text, -1) {
		if name, ok := strings.CutPrefix(m[2], "$"); ok {
			d.reads[m[1]] = name
		}
	}
	g, err := d.expand(d.Defaults)
	if err != nil {
		return fail(err)
	}
	for _, s := range g.Syms {
		if slices.Contains(d.attrNames(), s.Name) {
			return fail(fmt.Errorf("line %d: %s is an attribute and a size", d.expansion.line, s.Name))
		}
	}
	for name := range d.Ranges {
		if n, ok := g.Find(name); !ok || n.Op.Name != "input" {
			return fail(fmt.Errorf("line %d: range of %.40q, which is not an input of the expansion", d.line, name))
		}
	}
	for _, values := range d.Sizes {
		for name, v := range values {
			_, size := g.Syms.Find(name)
			if _, ok := v.(int64); size && !ok {
				return fail(
					fmt.Errorf("line %d: case: size %s is a %s; want an integer", d.line, name, ir.ValueKind(v)))
			}
		}
	}
	cases, err := d.Cases()
	if err != nil {
		return fail(fmt.Errorf("line %d: %w", d.line, err))
	}
	if err := d.checkGradient(cases); err != nil {
		return fail(err)
	}
	for k := range d.patterns {
		if d.patterns[k].text == "" {
			d.patterns[k] = d.expansion
		}
		if err := d.checkPattern(d.patterns[k], g); err != nil {
			return fail(err)
		}
	}
	return nil
}
