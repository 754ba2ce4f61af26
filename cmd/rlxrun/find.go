package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
)

const pluginPathEnv = "RLX_PLUGIN_PATH"

// found is one executable that has the name of a backend.
type found struct {
	rlx.Backend
	from string // how it was found: "--plugin", "beside rlxrun", "RLX_PLUGIN_PATH"
}

// registry is the backends that were found, and where they were searched. The first of a name is used.
type registry struct {
	all    []found
	looked []string
}

// findBackends searches for backends: --plugin first, then beside rlxrun, then along RLX_PLUGIN_PATH.
func findBackends(plugins []string) (*registry, error) {
	r := &registry{}
	for _, p := range plugins {
		name, path, ok := strings.Cut(p, "=")
		if !ok || name == "" || path == "" {
			return nil, cli.Usagef("--plugin "+p, "is not NAME=PATH")
		}
		if i := slices.IndexFunc(r.all, func(f found) bool { return f.Name == name }); i >= 0 {
			return nil, cli.Usagef("--plugin "+p, "backend %q is given twice", name)
		}
		r.all = append(r.all, found{rlx.Backend{Name: name, Path: path}, "--plugin"})
	}
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		r.scan(filepath.Dir(exe), "beside rlxrun")
	}
	for _, dir := range filepath.SplitList(os.Getenv(pluginPathEnv)) {
		if dir != "" {
			r.scan(dir, pluginPathEnv)
		}
	}
	return r, nil
}

// scan adds the backends of a directory.
func (r *registry) scan(dir, from string) {
	if slices.Contains(r.looked, dir) {
		return
	}
	r.looked = append(r.looked, dir)
	for _, b := range rlx.FindBackends(dir) {
		r.all = append(r.all, found{b, from})
	}
}

// first lists the backends that are used: the first of each name.
func (r *registry) first() []found {
	var out []found
	for _, f := range r.all {
		if !slices.ContainsFunc(out, func(o found) bool { return o.Name == f.Name }) {
			out = append(out, f)
		}
	}
	return out
}

// warn warns if every user could replace the backend's executable.
func (f found) warn(env *cli.Env) {
	if p := f.WritableByAll(); p != "" {
		env.Notef("warning: backend %s: every user can write to %s, and so run a program in your name; chmod o-w %[2]s", f.Name, p)
	}
}

// find returns the backend of a name. The error lists the backends that exist.
func (r *registry) find(name string) (found, error) {
	for _, f := range r.all {
		if f.Name == name {
			return f, nil
		}
	}
	var names, parts []string
	for _, f := range r.first() {
		names, parts = append(names, f.Name), append(parts, f.Name+" ("+f.Path+")")
	}
	if len(names) == 0 {
		return found{}, diag.New(code.Backend, "backend "+name, "is not installed, nor is any other; looked in %s", r.places()).
			WithHint("put rlx-backend-%s beside rlxrun, where \"make build\" puts it, or name its executable with --plugin %s=PATH", name, name)
	}
	e := diag.New(code.Backend, "backend "+name, "is unknown; found: %s; looked in %s", strings.Join(parts, ", "), r.places())
	if near := cli.Nearest(name, names); near != "" && near[0] == name[0] { // not cpu for gpu
		return found{}, e.WithHint("did you mean %s?", near)
	}
	return found{}, e.WithHint("or name its executable with --plugin %s=PATH", name)
}

// places lists where backends were searched, for messages.
func (r *registry) places() string {
	s := strings.Join(r.looked, ", ")
	if os.Getenv(pluginPathEnv) == "" {
		s += " (" + pluginPathEnv + " is not set)"
	}
	return s
}

// unpath drops the operation and path from a file error whose subject names the path already.
func unpath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
