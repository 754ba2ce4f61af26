package style

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// Limits of a function.
const (
	functionLines = 90
	decisions     = 25 // cyclomatic complexity
)

// longFunctions lists the functions that may be longer, and why.
var longFunctions = map[string]string{
	"cmd/rlxc/compile.go compileCommand":                           "the list of flags",
	"core/op/attention_cases.go attentionCases":                    "a table",
	"plugins/cpu/kernels/product/gemm_tiles.go tileBlock":          "one loop, whose parts share most of its variables",
	"plugins/internal/gpu/kernels/fft.go pass":                     "the sizes of one shader",
	"plugins/internal/gpu/kernels/grid_attention.go gridAttention": "the sizes of one shader",
	"plugins/internal/gpu/kernels/rope_append.go ropeAppendGroup":  "the sizes of one shader",
}

// assembly has programs that write assembly. Their functions are as long as the routines that they write.
const assembly = "plugins/cpu/kernels/_asm/"

// TestFunctions checks that a function has at most 90 lines and a cyclomatic complexity of at most 25. Tests and
// generated files are as they are.
func TestFunctions(t *testing.T) {
	long := map[string]bool{}
	eachFile(t, func(name string, text []byte) {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.Contains("/"+name, "/testdata/") ||
			generated(name, text) {
			return
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			at := files.Position(fn.Pos())
			if n := complexity(fn); n > decisions {
				t.Errorf("%v: %s has a complexity of %d; at most %d: split it", at, fn.Name.Name, n, decisions)
			}
			n := files.Position(fn.End()).Line - at.Line + 1
			if n <= functionLines || strings.HasPrefix(name, assembly) {
				continue
			}
			long[name+" "+fn.Name.Name] = true
			if longFunctions[name+" "+fn.Name.Name] == "" {
				t.Errorf("%v: %s has %d lines; at most %d: split it", at, fn.Name.Name, n, functionLines)
			}
		}
	})
	for name := range longFunctions {
		if len(long) > 0 && !long[name] {
			t.Errorf("%s is not long any more; remove it from longFunctions", name)
		}
	}
}

// complexity returns the cyclomatic complexity of a function: one more than the number of its if and for statements,
// cases, && and ||.
func complexity(fn *ast.FuncDecl) int {
	n := 1
	ast.Inspect(fn, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

func TestComplexity(t *testing.T) {
	const text = `package p
func f(x int) {
	for x > 0 && x < 9 || x == 7 {
		if x--; x == 3 {
			continue
		}
	}
	for range x {
	}
	switch x {
	case 1, 2:
	default:
	}
}
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := complexity(f.Decls[0].(*ast.FuncDecl)); n != 7 {
		t.Errorf("complexity %d; want 7", n)
	}
}
