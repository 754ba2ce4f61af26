package style

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestIfs checks that an if statement begins with an assignment to an existing variable only if the condition reads
// that variable. "if x = f(); y > 0" hides the assignment from a reader who looks for it at the start of lines.
func TestIfs(t *testing.T) {
	eachFile(t, func(name string, text []byte) {
		if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") || generated(name, text) {
			return
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		for _, p := range hiddenAssignments(f, text, files) {
			t.Errorf("%v: the condition does not read what the statement before it assigns; write that on a line of its own", p)
		}
	})
}

func TestHiddenAssignments(t *testing.T) {
	const text = `package p
func f() {
	if x = g(); x > 0 {
	}
	if x = g(); y > 0 { // 5
	}
	if a.x, err = g(); err != nil {
	}
	if x++; xx > 0 { // 9
	} else if s[i] = 1; i == len(s) { // 10
	}
	if x := g(); y > 0 {
	}
}
`
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, p := range hiddenAssignments(f, []byte(text), files) {
		lines = append(lines, p.Line)
	}
	if len(lines) != 3 || lines[0] != 5 || lines[1] != 9 || lines[2] != 10 {
		t.Errorf("lines %v; want 5, 9 and 10", lines)
	}
}

// hiddenAssignments returns the positions of if statements that begin with an assignment of which the condition reads
// nothing.
func hiddenAssignments(f *ast.File, text []byte, files *token.FileSet) (found []token.Position) {
	source := func(n ast.Node) string {
		return string(text[files.Position(n.Pos()).Offset:files.Position(n.End()).Offset])
	}
	ast.Inspect(f, func(n ast.Node) bool {
		x, ok := n.(*ast.IfStmt)
		if !ok || x.Init == nil {
			return true
		}
		var assigned []ast.Expr
		switch s := x.Init.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				return true
			}
			assigned = s.Lhs
		case *ast.IncDecStmt:
			assigned = []ast.Expr{s.X}
		default:
			return true
		}
		for _, to := range assigned {
			word := `(^|\W)` + regexp.QuoteMeta(source(to)) + `(\W|$)`
			if regexp.MustCompile(word).MatchString(source(x.Cond)) {
				return true
			}
		}
		found = append(found, files.Position(x.Pos()))
		return true
	})
	return found
}
