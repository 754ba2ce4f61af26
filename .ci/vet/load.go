package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"

	"golang.org/x/tools/go/packages"
)

// ends are the packages of the standard library with functions that do not return, which analyzers of paths must know,
// and what these functions call.
var ends = map[string]bool{"log": true, "os": true, "runtime": true, "syscall": true, "testing": true}

// load returns the packages, type-checked. Of the functions of other modules and of the standard library it reads only
// the signatures, except in ends: their bodies are most of the work, and say nothing about this module. So an analyzer
// learns nothing from them; printf, for example, does not know functions like fmt.Printf in other modules.
func load(system, arch string, tests bool, patterns []string) ([]*packages.Package, error) {
	roots, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedModule | packages.NeedTypesSizes,
		Tests: tests,
		Env:   append(os.Environ(), "GOOS="+system, "GOARCH="+arch), // and CGO_ENABLED, as make sets it
	}, patterns...)
	if err != nil {
		return nil, err
	}
	if n := packages.PrintErrors(roots); n > 0 {
		return nil, fmt.Errorf("%d errors", n)
	}
	l := loader{token.NewFileSet(), map[*packages.Package]error{}}
	for _, p := range roots {
		err = errors.Join(err, l.check(p))
	}
	return roots, err
}

type loader struct {
	fset    *token.FileSet
	checked map[*packages.Package]error
}

// check parses and type-checks a package, after those that it imports. It returns the first errors of the package or,
// if there are none, of what it imports.
func (l *loader) check(p *packages.Package) error {
	if err, ok := l.checked[p]; ok {
		return err
	}
	l.checked[p] = nil // imports have no cycles
	for _, imported := range p.Imports {
		if err := l.check(imported); err != nil {
			l.checked[p] = err
			return err
		}
	}
	p.Fset = l.fset
	p.TypesInfo = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
		Uses: map[*ast.Ident]types.Object{}, Implicits: map[ast.Node]types.Object{},
		Instances: map[*ast.Ident]types.Instance{}, Scopes: map[ast.Node]*types.Scope{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, FileVersions: map[*ast.File]string{},
	}
	if p.PkgPath == "unsafe" {
		p.Types = types.Unsafe
		return nil
	}
	own := p.Module != nil && p.Module.Main || p.Module == nil && ends[p.PkgPath]
	var errs []error
	failed := func(err error) { errs = append(errs, err) }
	mode := parser.SkipObjectResolution
	if own {
		mode |= parser.ParseComments
	}
	var files []*ast.File
	for _, name := range p.CompiledGoFiles {
		f, err := parser.ParseFile(l.fset, name, nil, mode)
		if err != nil {
			failed(err)
			continue
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: imports(p.Imports), Sizes: p.TypesSizes, IgnoreFuncBodies: !own, Error: failed}
	if p.Module != nil && p.Module.GoVersion != "" {
		conf.GoVersion = "go" + p.Module.GoVersion
	}
	info := p.TypesInfo
	if !own {
		info = nil
	}
	p.Types = types.NewPackage(p.PkgPath, p.Name)
	types.NewChecker(&conf, l.fset, p.Types, info).Files(files) // its errors are those that failed has seen
	if own {
		p.Syntax = files
	} else {
		p.Imports = nil // so that no analyzer visits it or what it imports
	}
	l.checked[p] = errors.Join(errs[:min(len(errs), 10)]...)
	return l.checked[p]
}

// imports finds the package of an import declaration.
type imports map[string]*packages.Package

func (m imports) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	p := m[path]
	if p == nil || p.Types == nil {
		return nil, fmt.Errorf("go list did not name package %s", path)
	}
	return p.Types, nil
}
