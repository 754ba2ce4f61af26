package style

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rlx-go/rlx"

// TestShadows checks that no local name hides another one of the same type that is used again below it: a reader would
// take one for the other. The name err may, since each error is handled where it is made.
//
// The rule is that of the analyzer shadow of golang.org/x/tools. Packages of other modules are not read, which saves a
// minute; names whose types come from them are not compared. Files for other systems are not read either.
func TestShadows(t *testing.T) {
	folders := map[string]bool{}
	eachFile(t, func(name string, text []byte) {
		folder := path.Dir(name)
		if path.Ext(name) == ".go" && !strings.Contains("/"+folder+"/", "/testdata/") {
			folders[folder] = true
		}
	})
	c := &checker{files: token.NewFileSet(), parsed: map[string]*ast.File{}, packages: map[string]*types.Package{}}
	for folder := range folders {
		found, err := build.ImportDir(filepath.Join(root, folder), 0)
		if err != nil {
			continue // no file is for this system
		}
		own := slices.Concat(found.GoFiles, found.CgoFiles)
		c.check(t, folder, slices.Concat(own, found.TestGoFiles))
		c.check(t, folder, found.XTestGoFiles)
	}
}

// checker finds the types of this module's packages.
type checker struct {
	files    *token.FileSet
	parsed   map[string]*ast.File
	packages map[string]*types.Package // by path
}

// parse returns the files of a folder.
func (c *checker) parse(folder string, names []string) (out []*ast.File) {
	for _, name := range names {
		at := path.Join(folder, name)
		if c.parsed[at] == nil {
			text, err := os.ReadFile(filepath.Join(root, at))
			if err != nil {
				continue
			}
			f, err := parser.ParseFile(c.files, at, text, parser.SkipObjectResolution)
			if err != nil {
				continue // go vet reports it
			}
			c.parsed[at] = f
		}
		out = append(out, c.parsed[at])
	}
	return out
}

// Import returns the declarations of a package of this module, and an empty package for any other.
func (c *checker) Import(name string) (*types.Package, error) {
	if p := c.packages[name]; p != nil {
		return p, nil
	}
	folder, own := strings.CutPrefix(name+"/", module+"/")
	if found, err := build.ImportDir(filepath.Join(root, folder), 0); own && err == nil {
		files := c.parse(folder, slices.Concat(found.GoFiles, found.CgoFiles))
		config := types.Config{Importer: c, FakeImportC: true, IgnoreFuncBodies: true, Error: func(error) {}}
		c.packages[name], _ = config.Check(name, c.files, files, nil)
		return c.packages[name], nil
	}
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	c.packages[name] = p
	return p, nil
}

// check reports the shadowed names of a package.
func (c *checker) check(t *testing.T, folder string, names []string) {
	files := c.parse(folder, names)
	for _, x := range c.shadowed(path.Join(module, folder), files) {
		t.Errorf("%v: %s hides the %s of line %d, which is used below", c.files.Position(x.Pos()), x.Name(), x.Name(),
			c.files.Position(x.hidden.Pos()).Line)
	}
}

// shadow is a variable that hides another.
type shadow struct {
	*types.Var
	hidden types.Object
}

// shadowed returns the variables of a package that hide others.
func (c *checker) shadowed(name string, files []*ast.File) (found []shadow) {
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: c, FakeImportC: true, Error: func(error) {}}
	config.Check(name, c.files, files, info)
	last := map[types.Object]token.Pos{} // where an object is used last
	for at, x := range info.Uses {
		last[x] = max(last[x], at.Pos())
	}
	declare := func(at ast.Expr, value ast.Expr) {
		name, ok := at.(*ast.Ident)
		if !ok || name.Name == "_" || name.Name == "err" {
			return
		}
		if from, ok := value.(*ast.Ident); ok && from.Name == name.Name {
			return // x := x says that it is a copy
		}
		v, ok := info.Defs[name].(*types.Var)
		if !ok {
			return
		}
		_, hidden := v.Parent().Parent().LookupParent(v.Name(), v.Pos())
		if hidden == nil || hidden.Parent() == types.Universe || hidden.Pos() > v.Pos() || last[hidden] < v.Pos() ||
			!types.Identical(hidden.Type(), v.Type()) || v.Type() == types.Typ[types.Invalid] {
			return
		}
		found = append(found, shadow{v, hidden})
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.AssignStmt:
				for i, at := range x.Lhs {
					if x.Tok == token.DEFINE {
						declare(at, valueOf(x.Lhs, x.Rhs, i))
					}
				}
			case *ast.DeclStmt:
				for _, s := range x.Decl.(*ast.GenDecl).Specs {
					if s, ok := s.(*ast.ValueSpec); ok {
						for i, at := range s.Names {
							declare(at, valueOf(s.Names, s.Values, i))
						}
					}
				}
			}
			return true
		})
	}
	return found
}

// valueOf returns the value of name i of a declaration, or nil if the name has no value of its own.
func valueOf[T any](names []T, values []ast.Expr, i int) ast.Expr {
	if len(values) == len(names) {
		return values[i]
	}
	return nil
}

func TestShadowed(t *testing.T) {
	const text = `package p
func f(a int) int {
	b, err := 1, error(nil)
	if a := b; a > 0 { // 4: a is used below
		b := "text" // of another type
		_ = b
	}
	for range 2 {
		a := a // a copy
		c, err := a, err
		_, _ = c, err
	}
	{
		b := 2 // not used below
		_ = b
	}
	func() {
		var a = 3 // 18
		_ = a
	}()
	return a
}
`
	c := &checker{files: token.NewFileSet(), packages: map[string]*types.Package{}}
	f, err := parser.ParseFile(c.files, "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, x := range c.shadowed("p", []*ast.File{f}) {
		lines = append(lines, c.files.Position(x.Pos()).Line)
	}
	if !slices.Equal(lines, []int{4, 18}) {
		t.Errorf("lines %v; want 4 and 18", lines)
	}
}
