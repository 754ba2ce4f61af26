package spec_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	_ "github.com/rlx-go/rlx/core/grad"
	_ "github.com/rlx-go/rlx/core/hir" // its blocks
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

var update = flag.Bool("update", false, "rewrite generated files")

const specFile = "ops.md"

// TestSpec checks that spec/ops.md agrees with the definitions. With -update it writes the file.
func TestSpec(t *testing.T) {
	got := spec(t)
	if *update {
		if err := os.WriteFile(specFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(specFile)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s is stale (%v): run go test ./spec -run TestSpec -update", specFile, err)
	}
}

func spec(t *testing.T) []byte {
	var b bytes.Buffer
	b.WriteString(`# Ops

Made from the definitions in core/op by ` + "`go test ./spec -run TestSpec -update`" + `; do not edit.

Tensors are dense and row-major. Shapes broadcast as in NumPy if the op's definition says so: aligned at the right, a dim of 1 is
repeated. Sizes that must be equal are the same expression of symbols (spec/format.md, "Dims"). If they are different expressions, a reshape
before the op requires that they are equal. Arithmetic on f16, bf16 and f32 is done in f32 or better and rounded once;
NaN propagates through every op unless its definition says otherwise. Axes are counted from 0. Artifacts store every attribute.
An attribute that text leaves out, also in a region's expr, is zero: false, 0, 0.0, "", [] or no element type. If zero stands for another value,
the attribute says so: groups 0 means groups 1.

Operands have names. An optional one, marked ?, may be missing: text then leaves it out, and writes others by their names, as in
"conv2d x, w, bias=b". Text may leave out the name if the op has only one optional operand. The list of a variadic operand, marked ..., has one or more.
The tables list the element types that the op accepts for each operand, not all in every combination.

An *activation* is an op that the attribute act of fused_matmul and of fused convolutions may name.

An op with several results is followed by one *result* node for each of them. Other nodes read those (see result).

*Tolerance* bounds |got - want| against the reference evaluation in float64, for the op's first f32 case. f16 and
bf16 results may differ by one more unit in the last place, and sums of k products by 1e-6 * sqrt(k). *May overwrite*
lists the operands that the result may overwrite when nothing reads them later. An op that is not elementwise
may not overwrite an operand that it has twice. The results of one step overwrite different operands.

**Sizes that a run chooses.** Where a symbol is a size, a run computes with the actual size N: no element beyond N is read, and
means, norms, softmax and attention count N. The result is within the tolerance of the definition at N, and the same program
on the same device gives the same bits in every run of that size. Whether these are also the bits of a program that was
compiled for N alone, or for another bound, depends on the backend: it may choose the order of a sum by the bound, or by what divides the size.
An op that neither adds nor multiplies floats along an axis gives the same bits in all such programs on every backend, and the conformance suite checks that
("run/bounds"). The cpu backend gives the same bits for all ops.

No op is mandatory for a backend. Its target description (target.md) lists the ops that it runs, and the compiler rewrites the others in terms of these.
The primitive ops in the first part have no expansion. The ops in the second part have an *expansion* into the ops named there, each of which
the compiler runs or rewrites in turn. Which of them a node needs depends on its attributes and types. The lists are computed: the test cases of the
op are expanded, and variations of them with other attributes, half floats, and sizes that are symbols. They name iota and const
only for sizes that are symbols; others are stored as weights and need no kernel. ` + "`rlxc MODEL --target X --gaps`" +
		` says what a model needs of a target. The compiler may
also compute a node in f32 instead of f16 or bf16, broadcast its operands first, or, where noted, use a *plainer form* of the same op, such as one over the last axis.
`)
	comments := attrComments(t)
	for _, part := range []struct {
		title, about string
		has          func(def *ir.OpDef) bool
	}{
		{"Primitive ops", "", func(def *ir.OpDef) bool { return !def.Block && !def.CanLower() }},
		{"Ops with an expansion", "", func(def *ir.OpDef) bool { return !def.Block && def.CanLower() }},
		{"Blocks", `Models are built of these, and graphs in text form may have them. The compiler always expands
them, so backends and artifacts have none.
`, func(def *ir.OpDef) bool { return def.Block }},
	} {
		fmt.Fprintf(&b, "\n## %s\n", part.title)
		if part.about != "" {
			fmt.Fprintf(&b, "\n%s", part.about)
		}
		for _, def := range ir.Defs() {
			if part.has(def) {
				writeOp(t, &b, def, comments[reflect.TypeOf(def.NewAttrs()).Name()])
			}
		}
	}
	return b.Bytes()
}

func writeOp(t *testing.T, b *bytes.Buffer, def *ir.OpDef, comments map[string]string) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n", def.Name, def.Doc)
	facts := []string{"Operands: " + cmp.Or(def.Signature(), "none")}
	if def.Tuple {
		facts = append(facts, "results: "+def.Results)
	}
	for _, f := range []struct {
		set  bool
		text string
	}{{def.Declared, "type is declared"}, {def.Elementwise, "elementwise"},
		{slices.Contains(op.Activations(), def.Name), "an activation"}, {def.Commutative, "commutative"},
		{def.Effects, "never folded, merged or dropped"}} {
		if f.set {
			facts = append(facts, f.text)
		}
	}
	if len(def.InPlace) > 0 {
		names := make([]string, len(def.InPlace))
		for i, k := range def.InPlace {
			names[i] = def.OperandName(k)
		}
		facts = append(facts, "may overwrite "+strings.Join(names, " or "))
	}
	for r, list := range def.ResultsInPlace {
		names := make([]string, len(list))
		for i, k := range list {
			names[i] = def.OperandName(k)
		}
		if len(names) > 0 {
			facts = append(facts, strings.Split(def.Results, ", ")[r]+" may overwrite "+strings.Join(names, " or "))
		}
	}
	if tol, ok := toleranceText(def); ok {
		facts = append(facts, "tolerance "+tol)
	}
	if ops := expansion(t, def); ops != "" {
		facts = append(facts, "expansion: "+ops)
	}
	if def.HasPlainer() {
		facts = append(facts, "has a plainer form")
	}
	fmt.Fprintf(b, "%s.\n", strings.Join(facts, "; "))
	if len(def.Operands) > 0 {
		b.WriteString("\n| operand | | element types |\n|---|---|---|\n")
		types := operandTypes(def)
		for k, o := range def.Operands {
			number := "required"
			if o.Optional {
				number = "optional"
			} else if o.Variadic {
				number = "one or more"
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", o.Name, number,
				cmp.Or(strings.Join(types[k], ", "), "those of its expansion"))
		}
	}
	if names := def.AttrNames(); len(names) > 0 {
		b.WriteString("\n| attribute | type | |\n|---|---|---|\n")
		for _, name := range names {
			fmt.Fprintf(b, "| %s | %s | %s |\n", name, def.AttrKind(name),
				strings.ReplaceAll(comments[name], "|", `\|`))
		}
	}
}

// operandTypes lists the element types that an op accepts for each operand: those of its cases, and of its cases with
// another type in place of one.
func operandTypes(def *ir.OpDef) [][]string {
	known := dtype.Known()
	seen := make([]map[dtype.DType]bool, len(def.Operands))
	for k := range seen {
		seen[k] = map[dtype.DType]bool{}
	}
	try := func(c ir.Case[any]) {
		if _, err := def.InferResults(c.Attrs, c.In, c.Out, nil); err != nil {
			return
		}
		for k, t := range c.In {
			if t.Present() {
				seen[min(k, len(seen)-1)][t.DType] = true
			}
		}
	}
	change := func(c ir.Case[any], to dtype.DType, which func(k int, t ir.Type) bool) {
		c.In = slices.Clone(c.In)
		for k, t := range c.In {
			if t.Present() && which(k, t) {
				c.In[k].DType = to
			}
		}
		try(c)
	}
	for _, c := range def.Cases() {
		try(c)
		for _, to := range known {
			for k, from := range c.In {
				change(c, to, func(i int, _ ir.Type) bool { return i == k })
				change(c, to, func(_ int, t ir.Type) bool { return t.DType == from.DType })
			}
		}
	}
	names := make([][]string, len(seen))
	for k := range seen {
		for _, d := range known {
			if seen[k][d] {
				names[k] = append(names[k], d.String())
			}
		}
	}
	return names
}

// expansion lists the ops that expanding op def may give, without views and without constants that become weights.
func expansion(t *testing.T, def *ir.OpDef) string {
	if !def.CanLower() {
		return ""
	}
	if def == op.ElementwiseRegionDef {
		return "its steps"
	}
	seen := map[string]bool{}
	for i, c := range def.Cases() {
		if !expand(def, c, seen) {
			t.Errorf("%s: case %d cannot be expanded", def.Name, i)
		}
		for _, v := range variations(def, c) {
			expand(def, v, seen)
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
}

// expand adds the ops in the expansion of a case to seen. It reports whether the op takes such operands and has an
// expansion for them. Sizes N of operands are symbols.
func expand(def *ir.OpDef, c ir.Case[any], seen map[string]bool) bool {
	g := ir.NewGraph(def.Name, ir.Sym{Name: "N", Min: 1, Max: 64})
	in := make([]*ir.Node, max(len(c.In), len(def.Operands)))
	for k, t := range c.In {
		if t.Present() {
			in[k] = op.Input(g, fmt.Sprint("x", k), t)
		}
	}
	n := &ir.Node{ID: len(g.Nodes), Op: def, Attrs: c.Attrs, In: in, Graph: g}
	var err error
	if n.Type, n.Results, err = n.Infer(c.Out, g.Syms); err != nil {
		return false
	}
	var out []*ir.Node
	if err := g.Build(func() { out = def.LowerTo(g, n, in) }); err != nil || out == nil {
		return false
	}
	for _, x := range g.Nodes {
		_, view := x.View()
		static := !slices.ContainsFunc(x.ResultTypes(), func(t ir.Type) bool { return !t.Shape.IsStatic() })
		switch {
		case view, x.Op.Effects, x.Op == ir.ResultDef, static && x.Is(op.ConstDef, op.IotaDef):
		default:
			seen[x.Op.Name] = true
		}
	}
	return true
}

// variations returns cases like c, some of which the op may refuse: with values that an attribute has in other cases,
// with f16 and bf16 for f32, and with a symbol for one of the sizes.
func variations(def *ir.OpDef, c ir.Case[any]) (out []ir.Case[any]) {
	attrs := def.Attrs(c.Attrs)
	for _, other := range def.Cases() {
		for i, a := range def.Attrs(other.Attrs) {
			if reflect.DeepEqual(a, attrs[i]) {
				continue
			}
			changed := slices.Clone(attrs)
			changed[i] = a
			v := c
			var err error
			if v.Attrs, err = def.MakeAttrs(changed); err == nil {
				out = append(out, v)
			}
		}
	}
	with := func(change func(t ir.Type) ir.Type) {
		v := c
		v.In, v.Out = slices.Clone(c.In), change(c.Out)
		for k, t := range v.In {
			v.In[k] = change(t)
		}
		out = append(out, v)
	}
	for _, d := range []dtype.DType{dtype.F16, dtype.BF16} {
		with(func(t ir.Type) ir.Type {
			if t.DType == dtype.F32 {
				t.DType = d
			}
			return t
		})
	}
	sizes := map[ir.Dim]bool{}
	for _, t := range append(slices.Clone(c.In), c.Out) {
		for _, d := range t.Shape {
			sizes[d] = true
		}
	}
	for d := range sizes {
		with(func(t ir.Type) ir.Type {
			t.Shape = slices.Clone(t.Shape)
			for i := range t.Shape {
				if t.Shape[i] == d {
					t.Shape[i] = ir.Named("N")
				}
			}
			return t
		})
	}
	return out
}

// toleranceText returns the tolerance of the first case whose first result is f32. It lists one for each result if they
// differ.
func toleranceText(def *ir.OpDef) (string, bool) {
	for _, c := range def.Cases() {
		out, err := def.InferResults(c.Attrs, c.In, c.Out, nil)
		if def.Eval == nil || err != nil || out[0].DType != dtype.F32 {
			continue
		}
		var texts []string
		for _, tol := range def.Tol(c.Attrs, c.In, out...) {
			text := "exact"
			if tol != (ir.Tolerance{}) {
				text = fmt.Sprintf("%g + %g * |want|", tol.Abs, tol.Rel)
			}
			texts = append(texts, text)
		}
		if len(slices.Compact(slices.Clone(texts))) == 1 {
			texts = texts[:1]
		}
		return strings.Join(texts, ", "), true
	}
	return "", false
}

// attrComments returns the comments of attribute fields, by type and then by attribute.
func attrComments(t *testing.T) map[string]map[string]string {
	files, err := filepath.Glob("../core/op/*.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := filepath.Glob("../core/hir/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(append(files, blocks...), "../core/ir/tuple.go", "../core/grad/op.go")
	out := map[string]map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				out[spec.Name.Name] = map[string]string{}
				for _, f := range s.Fields.List {
					if f.Tag != nil {
						tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("attr")
						out[spec.Name.Name][tag] = strings.Join(strings.Fields(f.Doc.Text()+f.Comment.Text()), " ")
					}
				}
			}
			return false
		})
	}
	return out
}
