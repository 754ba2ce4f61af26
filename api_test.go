package rlx_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// internals matches words in documentation that only those who work on this module understand.
var internals = regexp.MustCompile(
	`\b(diag|device|dtype|ir|program|tensor|format|rpc|task|code|imaging|spec)\.[A-Z]|\bTask\.[A-Z]`)

// TestAPI checks that the packages for programs explain themselves: their exported signatures have no types of packages
// that are not for programs, except by an alias that is declared and documented in the package itself; every exported
// name is documented; and the documentation does not send readers to other packages of this module.
func TestAPI(t *testing.T) {
	list := checked(t, forPrograms...)
	public := map[string]bool{}
	for _, p := range list {
		public[p.path] = true
	}
	names := 0
	for _, p := range list {
		a := api{t: t, pkg: p, public: public, docs: docsOf(p)}
		for _, name := range p.types.Scope().Names() {
			if token.IsExported(name) {
				a.object(p.types.Scope().Lookup(name))
				names++
			}
		}
	}
	if len(list) != len(forPrograms) || names < 100 {
		t.Errorf("%d packages with %d names", len(list), names)
	}
}

// A source is a package with its source.
type source struct {
	path  string
	files []*ast.File
	types *types.Package
	info  *types.Info
}

// checked type-checks packages.
func checked(t *testing.T, names ...string) (out []*source) {
	t.Helper()
	goList := func(args ...string) []string {
		text, err := exec.Command("go", append([]string{"list"}, append(args, names...)...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	compiled, set := map[string]string{}, token.NewFileSet()
	for _, line := range goList("-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}") {
		path, file, _ := strings.Cut(line, " ")
		compiled[path] = file
	}
	from := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) })
	for _, line := range goList("-f", `{{.ImportPath}} {{.Dir}} {{join .GoFiles " "}}`) {
		fields := strings.Fields(line)
		p := &source{path: fields[0], info: &types.Info{Defs: map[*ast.Ident]types.Object{}}}
		for _, name := range fields[2:] {
			f, err := parser.ParseFile(set, filepath.Join(fields[1], name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			p.files = append(p.files, f)
		}
		var err error
		if p.types, err = (&types.Config{Importer: from}).Check(p.path, set, p.files, p.info); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// TestAPIFinds checks that TestAPI finds faults.
func TestAPIFinds(t *testing.T) {
	const module = "github.com/rlx-go/rlx"
	hidden, own := types.NewPackage(module+"/core/x", "x"), types.NewPackage(module, "rlx")
	named := types.NewNamed(types.NewTypeName(0, hidden, "T", nil), types.NewStruct(nil, nil), nil)
	for what, c := range map[string]struct {
		typ  types.Type
		docs map[types.Object]string
		want bool
	}{
		"a type": {named, nil, true},
		"in a func": {
			types.NewSignatureType(nil, nil, nil, types.NewTuple(types.NewVar(0, own, "", types.NewSlice(named))), nil,
				false), nil, true},
		"a map":   {types.NewMap(types.Typ[types.String], types.NewPointer(named)), nil, true},
		"a basic": {types.Typ[types.Int], nil, false},
	} {
		a := api{pkg: &source{path: module, types: own}, public: map[string]bool{module: true}, docs: c.docs}
		if got := a.foreign(c.typ); (got != "") != c.want {
			t.Errorf("%s: found %q", what, got)
		}
	}
	alias := types.NewTypeName(0, own, "A", nil)
	types.NewAlias(alias, named)
	a := api{pkg: &source{path: module, types: own}, public: map[string]bool{module: true},
		docs: map[types.Object]string{}}
	if a.foreign(alias.Type()) == "" {
		t.Error("an alias without documentation is accepted")
	}
	a.docs[alias] = "An A is explained here."
	if a.foreign(alias.Type()) != "" {
		t.Error("an alias with documentation is refused")
	}
}

// An api checks one package.
type api struct {
	t      *testing.T
	pkg    *source
	public map[string]bool
	docs   map[types.Object]string
}

// docsOf returns the documentation of the objects of a package, with that of their group and their line comment.
func docsOf(p *source) map[types.Object]string {
	out := map[types.Object]string{}
	add := func(id *ast.Ident, groups ...*ast.CommentGroup) {
		for _, g := range groups {
			out[p.info.Defs[id]] += g.Text()
		}
	}
	for _, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				add(n.Name, n.Doc)
				return false
			case *ast.GenDecl:
				for _, s := range n.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						add(s.Name, n.Doc, s.Doc, s.Comment)
					case *ast.ValueSpec:
						for _, id := range s.Names {
							add(id, n.Doc, s.Doc, s.Comment)
						}
					}
				}
			case *ast.Field:
				for _, id := range n.Names {
					add(id, n.Doc, n.Comment)
				}
			}
			return true
		})
	}
	return out
}

// object checks an exported object of the package.
func (a *api) object(o types.Object) {
	name := a.pkg.types.Name() + "." + o.Name()
	tn, isType := o.(*types.TypeName)
	if _, isConst := o.(*types.Const); !isConst || !named(a.pkg, o.Type()) { // the type explains such constants
		a.documented(name, o)
	}
	if !isType {
		a.signature(name, o.Type())
		return
	}
	if tn.IsAlias() {
		a.signature(name, tn.Type())
		return
	}
	if s, ok := tn.Type().Underlying().(*types.Struct); ok {
		for f := range s.Fields() {
			if f.Exported() {
				a.signature(name+"."+f.Name(), f.Type())
				a.words(name+"."+f.Name(), f)
			}
		}
	} else {
		a.signature(name, tn.Type().Underlying())
	}
	set := types.NewMethodSet(types.NewPointer(tn.Type()))
	if types.IsInterface(tn.Type()) {
		set = types.NewMethodSet(tn.Type())
	}
	for s := range set.Methods() {
		m := s.Obj()
		if !m.Exported() {
			continue
		}
		a.signature(name+"."+m.Name(), m.Type())
		switch {
		case types.IsInterface(tn.Type()): // the type explains its methods
		case len(s.Index()) > 1 && !exportedPath(tn.Type(), s.Index()):
			a.t.Errorf("%s.%s comes from an embedded type that is not exported; declare it", name, m.Name())
		case m.Pkg() == a.pkg.types:
			a.documented(name+"."+m.Name(), m)
		}
	}
}

// named reports whether t is a named type of the package.
func named(p *source, t types.Type) bool {
	n, ok := t.(*types.Named)
	return ok && n.Obj().Pkg() == p.types
}

// exportedPath reports whether the fields through which a method is promoted are exported.
func exportedPath(t types.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem()
		}
		f := t.Underlying().(*types.Struct).Field(i)
		if !f.Exported() {
			return false
		}
		t = f.Type()
	}
	return true
}

func (a *api) documented(name string, o types.Object) {
	if strings.TrimSpace(a.docs[o]) == "" {
		a.t.Errorf("%s is not documented", name)
	}
	a.words(name, o)
}

// words checks the words of the documentation.
func (a *api) words(name string, o types.Object) {
	if found := internals.FindString(a.docs[o]); found != "" {
		a.t.Errorf("the documentation of %s speaks of %s, which programs do not see", name, found)
	}
}

func (a *api) signature(name string, t types.Type) {
	if found := a.foreign(t); found != "" {
		a.t.Errorf("%s has the type %s; define a type in %s, or declare and document an alias there", name, found,
			a.pkg.path)
	}
}

// foreign returns a type in t that belongs to a package of this module which is not for programs, or "".
func (a *api) foreign(t types.Type) string {
	switch t := t.(type) {
	case *types.Alias:
		if o := t.Obj(); o.Pkg() != nil && a.public[o.Pkg().Path()] && o.Exported() &&
			(o.Pkg() != a.pkg.types || a.docs[o] != "") {
			return ""
		}
		return a.foreign(types.Unalias(t))
	case *types.Named:
		p := t.Obj().Pkg()
		if p != nil && strings.HasPrefix(p.Path()+"/", "github.com/rlx-go/rlx/") &&
			(!a.public[p.Path()] || !t.Obj().Exported()) {
			return t.String()
		}
		for x := range t.TypeArgs().Types() {
			if found := a.foreign(x); found != "" {
				return found
			}
		}
	case *types.Pointer:
		return a.foreign(t.Elem())
	case *types.Slice:
		return a.foreign(t.Elem())
	case *types.Array:
		return a.foreign(t.Elem())
	case *types.Chan:
		return a.foreign(t.Elem())
	case *types.Map:
		return a.foreign(t.Key()) + a.foreign(t.Elem())
	case *types.Tuple:
		for v := range t.Variables() {
			if found := a.foreign(v.Type()); found != "" {
				return found
			}
		}
	case *types.Signature:
		for tp := range t.TypeParams().TypeParams() {
			if found := a.foreign(tp.Constraint()); found != "" {
				return found
			}
		}
		return a.foreign(t.Params()) + a.foreign(t.Results())
	case *types.Struct:
		for f := range t.Fields() {
			if found := a.foreign(f.Type()); f.Exported() && found != "" {
				return found
			}
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			if found := a.foreign(m.Type()); found != "" {
				return found
			}
		}
		for e := range t.EmbeddedTypes() {
			if found := a.foreign(e); found != "" {
				return found
			}
		}
	case *types.Union:
		for term := range t.Terms() {
			if found := a.foreign(term.Type()); found != "" {
				return found
			}
		}
	}
	return ""
}
