package style

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// registeredNames lists the files that may use the registered name of a node's op for more than comparing it or looking
// something up. They encode graphs, or make text that a program reads again.
var registeredNames = []string{"core/ir/print.go", "format/graph.go", "core/pass/cse.go", "core/op/region.go",
	"plugins/cpu/backend/region.go", "plugins/internal/gpu/kernels/*.go", "sdk/backend/backend.go"}

// TestOpNames checks that a node's Op.Name is only compared, or used to look something up. It is "custom" for every op
// of a model's author; people must see OpName.
func TestOpNames(t *testing.T) {
	eachFile(t, func(name string, text []byte) {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || generated(name, text) ||
			slices.ContainsFunc(registeredNames, func(p string) bool { ok, _ := path.Match(p, name); return ok }) {
			return
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		for _, p := range shownNames(f, files) {
			t.Errorf("%v: Op.Name is \"custom\" for each custom op; show n.OpName()", p)
		}
	})
}

func TestShownNames(t *testing.T) {
	const text = `package p
func f() {
	if n.Op.Name == "param" || "x" != n.Op.Name {
		print(table[n.Op.Name], target.Has(n.Op.Name))
	}
	switch n.Op.Name {
	}
	print(n.Op.Name) // 8
	x := T{Op: n.Op.Name} // 9
	y = n.Op.Name + " " // 10
}
`
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, p := range shownNames(f, files) {
		lines = append(lines, p.Line)
	}
	if !slices.Equal(lines, []int{8, 9, 10}) {
		t.Errorf("lines %v; want 8, 9 and 10", lines)
	}
}

// shownNames returns the positions of expressions x.Op.Name that are neither compared nor an index, a switch's tag or
// the argument of a method Has, Find or rules.
func shownNames(f *ast.File, files *token.FileSet) (found []token.Position) {
	asked := map[ast.Expr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				asked[n.X], asked[n.Y] = true, true
			}
		case *ast.IndexExpr:
			asked[n.Index] = true
		case *ast.SwitchStmt:
			asked[n.Tag] = true
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Has", "Find", "rules"}, s.Sel.Name) {
				for _, a := range n.Args {
					asked[a] = true
				}
			}
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.SelectorExpr); ok && n.Sel.Name == "Name" && of.Sel.Name == "Op" && !asked[n] {
				found = append(found, files.Position(n.Pos()))
			}
		}
		return true
	})
	return found
}
