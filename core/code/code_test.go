package code_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyHere checks that no other package defines a code: a command that does not link the package could not explain
// it.
func TestOnlyHere(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), "_") || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || s.Sel.Name != "Define" {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "diag" {
				found++
				if filepath.Dir(path) != "../../core/code" {
					t.Errorf("%s defines an error code; all are in core/code", path)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || found < 50 {
		t.Errorf("%d definitions, %v", found, err)
	}
}
