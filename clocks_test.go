package rlx_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoClocks checks that no test fails because a machine is slow. A test may measure a time, but the only upper limit
// with which it may compare it is hangGuard, which ends a test that would never end, and is minutes long.
func TestNoClocks(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if b, ok := n.(*ast.BinaryExpr); ok {
				limited := (b.Op == token.GTR || b.Op == token.GEQ) && mentions(b.X, "Since") &&
					!mentions(b.Y, "hangGuard")
				limited = limited || (b.Op == token.LSS || b.Op == token.LEQ) && mentions(b.Y, "Since") &&
					!mentions(b.X, "hangGuard")
				if limited {
					t.Errorf("%v: a test fails where this takes long; wait for an event, or for hangGuard",
						files.Position(n.Pos()))
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mentions reports whether an expression contains an identifier.
func mentions(e ast.Expr, name string) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}
