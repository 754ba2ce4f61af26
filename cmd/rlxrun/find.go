package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
)

// CodeBackend is reported for a backend that is not there.
var CodeBackend = code.Backend

const (
	backendPrefix = "rlx-backend-"
	pluginPathEnv = "RLX_PLUGIN_PATH"
)

// found is one executable that calls itself a backend.
type found struct {
	name, path string
	from       string // how it was found: "--plugin", "beside rlxrun", "RLX_PLUGIN_PATH"
}

// registry is what was found, and where it was looked for. The first of a name is the one that is used.
type registry struct {
	all    []found
	looked []string
}

// findBackends looks for backends: --plugin first, then beside rlxrun, then along RLX_PLUGIN_PATH.
func findBackends(plugins []string) (*registry, error) {
	r := &registry{}
	for _, p := range plugins {
		name, path, ok := strings.Cut(p, "=")
		if !ok || name == "" || path == "" {
			return nil, cli.Usagef("--plugin "+p, "is not NAME=PATH")
		}
		if i := slices.IndexFunc(r.all, func(f found) bool { return f.name == name }); i >= 0 {
			return nil, cli.Usagef("--plugin "+p, "backend %q is given twice", name)
		}
		r.all = append(r.all, found{name, path, "--plugin"})
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

// scan adds the backends of a directory. One that cannot be read is as good as empty: the list of places is in the error
// that follows if the backend is not found.
func (r *registry) scan(dir, from string) {
	if slices.Contains(r.looked, dir) {
		return
	}
	r.looked = append(r.looked, dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".exe"), backendPrefix)
		path := filepath.Join(dir, e.Name())
		st, err := os.Stat(path)
		if ok && name != "" && err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
			r.all = append(r.all, found{name, path, from})
		}
	}
}

// first lists the backends that are used: the first of each name.
func (r *registry) first() []found {
	var out []found
	for _, f := range r.all {
		if !slices.ContainsFunc(out, func(o found) bool { return o.name == f.name }) {
			out = append(out, f)
		}
	}
	return out
}

// warn says so where every user could put another program in the place of the backend's: in the file itself, or in a
// directory that leads to it, unless that is sticky as /tmp is.
func (f found) warn(env *cli.Env) {
	if runtime.GOOS == "windows" {
		return // permissions are not in the mode
	}
	real, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		return // the start says what is wrong with it
	}
	for _, p := range []string{real, filepath.Dir(real), filepath.Dir(f.path)} {
		if st, err := os.Stat(p); err == nil && st.Mode().Perm()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0 {
			env.Notef("warning: backend %s: every user can write to %s, and so run a program in your name; chmod o-w %[2]s", f.name, p)
			return
		}
	}
}

// find is the backend of that name, or an error that lists those there are.
func (r *registry) find(name string) (found, error) {
	for _, f := range r.all {
		if f.name == name {
			return f, nil
		}
	}
	var names, parts []string
	for _, f := range r.first() {
		names, parts = append(names, f.name), append(parts, f.name+" ("+f.path+")")
	}
	if len(names) == 0 {
		return found{}, diag.New(CodeBackend, "backend "+name, "is not installed, nor is any other; looked in %s", r.places()).
			WithHint("put %s%s beside rlxrun, where \"make build\" puts it, or name its executable with --plugin %s=PATH", backendPrefix, name, name)
	}
	e := diag.New(CodeBackend, "backend "+name, "is unknown; found: %s; looked in %s", strings.Join(parts, ", "), r.places())
	if near := cli.Nearest(name, names); near != "" && near[0] == name[0] { // not cpu for gpu
		return found{}, e.WithHint("did you mean %s?", near)
	}
	return found{}, e.WithHint("or name its executable with --plugin %s=PATH", name)
}

// places says where backends were looked for.
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
