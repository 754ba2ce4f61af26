package op_test

import (
	"bytes"
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
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

var update = flag.Bool("update", false, "rewrite generated files")

const specFile = "../../spec/ops.md"

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
		t.Fatalf("%s is stale (%v): run go test ./core/op -run TestSpec -update", specFile, err)
	}
}

func spec(t *testing.T) []byte {
	var b bytes.Buffer
	b.WriteString(`# Ops

Made from the definitions in core/op by ` + "`go test ./core/op -run TestSpec -update`" + `; do not edit.

Tensors are dense and row-major. Shapes broadcast as in NumPy if the op's definition says so: aligned at the right, a dim of 1 is
repeated. Sizes that must be equal are the same expression of symbols (spec/format.md, "Dims"). If they are different expressions, a reshape
before the op requires that they are equal. Arithmetic on f16, bf16 and f32 is done in f32 or better and rounded once;
NaN propagates through every op unless its definition says otherwise. Axes are counted from 0. Artifacts store every attribute.
An attribute that text leaves out, also in a region's expr, is zero: false, 0, 0.0, "", [] or no element type. If zero stands for another value,
the attribute says so: groups 0 means groups 1.

An *activation* is an op that the attribute act of fused_matmul may name.

An op with several results is followed by one *result* node for each of them. Other nodes read those (see result).

*Tolerance* bounds |got - want| against the reference evaluation in float64, for the op's first f32 case. f16 and
bf16 results may differ by one more unit in the last place, and sums of k products by 1e-6 * sqrt(k). *May overwrite*
lists the operands that the result may overwrite when nothing reads them later. An op that is not elementwise
may not overwrite an operand that it has twice.

No op is mandatory for a backend. Its target description (target.md) lists the ops that it runs, and the compiler rewrites the others in terms of these.
The primitive ops in the first part have no expansion. The ops in the second part have an *expansion* into the ops named there. The compiler may
also compute a node in f32 instead of f16 or bf16, broadcast its operands first, or, where noted, use a *plainer form* of the same op, such as one over the last axis.
`)
	comments := attrComments(t)
	for _, part := range []struct {
		title    string
		expanded bool
	}{{"Primitive ops", false}, {"Ops with an expansion", true}} {
		fmt.Fprintf(&b, "\n## %s\n", part.title)
		for _, def := range ir.Defs() {
			if !def.Block && def.CanLower() == part.expanded {
				writeOp(&b, def, comments[reflect.TypeOf(def.NewAttrs()).Name()])
			}
		}
	}
	return b.Bytes()
}

func writeOp(b *bytes.Buffer, def *ir.OpDef, comments map[string]string) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n", def.Name, def.Doc)
	operands := fmt.Sprint(def.MinIn)
	if def.MaxIn < 0 {
		operands += " or more"
	} else if def.MaxIn > def.MinIn {
		operands += fmt.Sprintf(" to %d", def.MaxIn)
	}
	facts := []string{"Operands: " + operands}
	if def.Tuple {
		facts = append(facts, "results: "+def.Results)
	}
	for _, f := range []struct {
		set  bool
		text string
	}{{def.Declared, "type is declared"}, {def.Elementwise, "elementwise"}, {slices.Contains(op.Activations(), def.Name), "an activation"}, {def.Commutative, "commutative"}, {def.Effects, "never folded, merged or dropped"}} {
		if f.set {
			facts = append(facts, f.text)
		}
	}
	if n := len(def.InPlace); n > 0 && n == def.MaxIn {
		facts = append(facts, "may overwrite any operand")
	} else if n > 0 {
		facts = append(facts, "may overwrite operand "+strings.Trim(strings.Join(strings.Fields(fmt.Sprint(def.InPlace)), " or "), "[]"))
	}
	if tol, ok := toleranceText(def); ok {
		facts = append(facts, "tolerance "+tol)
	}
	if ops := expansion(def); ops != "" {
		facts = append(facts, "expansion: "+ops)
	}
	if def.HasPlainer() {
		facts = append(facts, "has a plainer form")
	}
	fmt.Fprintf(b, "%s.\n", strings.Join(facts, "; "))
	if names := def.AttrNames(); len(names) > 0 {
		b.WriteString("\n| attribute | type | |\n|---|---|---|\n")
		for _, name := range names {
			fmt.Fprintf(b, "| %s | %s | %s |\n", name, def.AttrKind(name), strings.ReplaceAll(comments[name], "|", `\|`))
		}
	}
}

// expansion lists the ops in the expansions of the op's cases, without leaves and reshapes.
func expansion(def *ir.OpDef) string {
	seen := map[string]bool{}
	for _, c := range def.Cases() {
		g, err := interp.LowerOne(def, c.Attrs, c.In, c.Out)
		if err != nil {
			return "" // the op has no expansion
		}
		for _, n := range g.Nodes {
			if len(n.In) > 0 && n.Op.Name != "reshape" {
				seen[n.Op.Name] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
}

// toleranceText returns the tolerance of the first case whose first result is f32. It lists one for each result if they differ.
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
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../ir/tuple.go")
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
