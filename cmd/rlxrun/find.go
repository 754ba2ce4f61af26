package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/backends"
	"github.com/rlx-go/rlx/internal/cli"
)

// found is an executable that is named like a backend.
type found struct {
	rlx.Backend
	from string // where it was found: "--plugin", "beside rlxrun", "RLX_PLUGIN_PATH", "installed"
	skip error  // why it is not used; nil if it is usable
}

func foundOf(f backends.Found) found {
	b := rlx.Backend{Name: f.Name, Path: f.Path, Dir: f.Dir, SHA256: f.SHA256, Folder: (*rlx.BackendFolder)(f.Folder)}
	if e, ok := errors.AsType[*diag.Error](f.Skip); ok && f.From == backends.PathEnv && filepath.IsAbs(f.Dir) {
		e.Hint += ", or --plugin " + f.Name + "=" + f.Path
	}
	return found{b, f.From, f.Skip}
}

// registry lists the backends found. Of several backends with one name, the first that is not skipped is used.
type registry struct {
	*backends.Registry
	all []found
}

// findBackends searches for backends, beginning with those of --plugin. Package backends has the order.
func findBackends(plugins []string) (*registry, error) {
	var named []backends.Found
	for _, p := range plugins {
		name, path, ok := strings.Cut(p, "=")
		if !ok || name == "" || path == "" {
			return nil, cli.Usagef("--plugin "+p, "is not NAME=PATH")
		}
		if slices.ContainsFunc(named, func(f backends.Found) bool { return f.Name == name }) {
			return nil, cli.Usagef("--plugin "+p, "backend %q is given twice", name)
		}
		named = append(named, backends.Found{Name: name, Path: path, From: "--plugin"})
	}
	r := &registry{Registry: backends.Search(named, false)}
	for _, f := range r.All {
		r.all = append(r.all, foundOf(f))
	}
	return r, nil
}

// first returns the backends that are used: the first of each name.
func (r *registry) first() []found {
	var out []found
	for _, f := range r.Usable() {
		out = append(out, foundOf(f))
	}
	return out
}

// warn prints a warning if others could replace the backend's executable.
func (f found) warn(env *cli.Env) {
	if err := f.Exposed(); err != nil {
		env.Notef("warning: backend %s: %v", f.Name, err)
	}
}

// find returns the backend of a name. If it cannot be used, the error says why or lists the backends that exist.
func (r *registry) find(name string) (found, error) {
	f, skipped, ok := r.Lookup(name)
	switch {
	case ok:
		return foundOf(f), nil
	case skipped != nil:
		return found{}, skipped
	}
	var names, parts []string
	for _, f := range r.first() {
		names, parts = append(names, f.Name), append(parts, f.Name+" ("+f.Path+")")
	}
	if len(names) == 0 {
		return found{}, diag.New(code.Backend, "backend "+name, "is not installed, nor is any other; looked in %s",
			r.Places()).
			WithHint(
				"put rlx-backend-%s beside rlxrun, where \"make build\" puts it, or name its executable with --plugin %s=PATH",
				name, name)
	}
	if why := elsewhere(name, runtime.GOOS, runtime.GOARCH); why != "" {
		return found{}, diag.New(code.Backend, "backend "+name, "%s", why)
	}
	e := diag.New(code.Backend, "backend "+name, "is unknown; found: %s; looked in %s", strings.Join(parts, ", "),
		r.Places())
	// same first letter: suggest cpu for cpi, but not for gpu
	if near := cli.Nearest(name, names); near != "" && near[0] == name[0] {
		return found{}, e.WithHint("did you mean %s?", near)
	}
	return found{}, e.WithHint("or name its executable with --plugin %s=PATH", name)
}

// elsewhere says why a backend that comes with rlxrun does not exist for a system, and what to use there. It is empty
// if the backend exists.
func elsewhere(name, goos, goarch string) string {
	if name == "metal" && (goos != "darwin" || goarch != "arm64") {
		return "needs a Mac with Apple silicon, and this is " + goos + "/" + goarch + "; use wgpu for a GPU, or cpu"
	}
	if name == "cuda" && goos != "linux" {
		return "needs Linux, and this is " + goos + "/" + goarch + "; use wgpu for a GPU, or cpu"
	}
	return ""
}

// unpath removes the operation and path from a file error. The subject of our error already names the path.
func unpath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
