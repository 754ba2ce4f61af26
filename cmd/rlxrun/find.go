package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/installed"
	"github.com/rlx-go/rlx/internal/owned"
)

const pluginPathEnv = "RLX_PLUGIN_PATH"

// found is an executable that is named like a backend.
type found struct {
	rlx.Backend
	from string // where it was found: "--plugin", "beside rlxrun", "RLX_PLUGIN_PATH", "installed"
	skip error  // why it is not used; nil if it is usable
}

// registry lists the backends found and the places searched. Of several backends with one name, the first that is not skipped is used.
type registry struct {
	all    []found
	looked []string
	store  string // folder of installed plugins; empty if there is none
}

// findBackends searches for backends. The order depends on trust: first the executables named on this command line, then plugins that the user
// installed to replace a built-in backend, then the folder of rlxrun, RLX_PLUGIN_PATH, and all other installed plugins. So a plugin replaces a
// built-in backend only if the user has asked for that, and nothing in the current directory is found.
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
		r.all = append(r.all, found{Backend: rlx.Backend{Name: name, Path: path}, from: "--plugin"})
	}
	var list []*installed.Plugin
	if store, err := installed.User(); err == nil {
		list, _ = store.List() // a folder that cannot be read counts as empty, as for FindBackends
		if len(list) > 0 {
			r.store = store.Dir
		}
	}
	r.addInstalled(list, true)
	if dir := besideUs(); dir != "" {
		r.scan(dir, "beside rlxrun", func(rlx.Backend) error { return nil }) // whoever can write there can replace rlxrun as well
	}
	for _, dir := range filepath.SplitList(os.Getenv(pluginPathEnv)) {
		if dir != "" {
			r.scan(dir, pluginPathEnv, refusal)
		}
	}
	r.addInstalled(list, false)
	return r, nil
}

// besideUs returns the folder of rlxrun's own executable, or "" if it is unknown.
func besideUs() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	return filepath.Dir(exe)
}

// addInstalled adds installed plugins: either those that hide a built-in backend, or the others.
func (r *registry) addInstalled(list []*installed.Plugin, hiding bool) {
	for _, p := range list {
		if p.HidesBuiltIn == hiding {
			r.all = append(r.all, found{installedBackend(p), "installed", p.Skip})
		}
	}
}

// installedBackend returns a plugin as a backend that starts only if its files are those that were installed.
func installedBackend(p *installed.Plugin) rlx.Backend {
	return rlx.Backend{Name: p.Name, Path: p.Path(), Dir: p.Dir, SHA256: p.SHA256, Folder: p.Folder()}
}

// scan adds the backends in a directory. refused returns why one is skipped, or nil.
func (r *registry) scan(dir, from string, refused func(rlx.Backend) error) {
	if slices.Contains(r.looked, dir) {
		return
	}
	r.looked = append(r.looked, dir)
	for _, b := range rlx.FindBackends(dir) {
		r.all = append(r.all, found{b, from, refused(b)})
	}
}

// refusal returns why a backend of RLX_PLUGIN_PATH is not executed: another user could have put it there or could
// replace it, or its path depends on the current directory.
func refusal(b rlx.Backend) error {
	if !filepath.IsAbs(b.Dir) {
		return diag.New(code.PluginRefused, "backend "+b.Name, "%s names %s, which depends on the current directory", pluginPathEnv, b.Dir).
			WithHint("name it by its whole path")
	}
	if who := owned.Program(b.Path); who != nil {
		return diag.New(code.PluginRefused, "backend "+b.Name, "%w and thus run programs as you", who).
			WithHint("%s, or --plugin %s=%s", who.Fix(), b.Name, b.Path)
	}
	return nil
}

// first returns the backends that are used: the first of each name.
func (r *registry) first() []found {
	var out []found
	for _, f := range r.all {
		if f.skip == nil && !slices.ContainsFunc(out, func(o found) bool { return o.Name == f.Name }) {
			out = append(out, f)
		}
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
	var skipped error
	for _, f := range r.all {
		switch {
		case f.Name != name:
		case f.skip == nil:
			return f, nil
		case skipped == nil:
			skipped = f.skip
		}
	}
	if skipped != nil {
		return found{}, skipped
	}
	var names, parts []string
	for _, f := range r.first() {
		names, parts = append(names, f.Name), append(parts, f.Name+" ("+f.Path+")")
	}
	if len(names) == 0 {
		return found{}, diag.New(code.Backend, "backend "+name, "is not installed, nor is any other; looked in %s", r.places()).
			WithHint("put rlx-backend-%s beside rlxrun, where \"make build\" puts it, or name its executable with --plugin %s=PATH", name, name)
	}
	if why := elsewhere(name, runtime.GOOS, runtime.GOARCH); why != "" {
		return found{}, diag.New(code.Backend, "backend "+name, "%s", why)
	}
	e := diag.New(code.Backend, "backend "+name, "is unknown; found: %s; looked in %s", strings.Join(parts, ", "), r.places())
	if near := cli.Nearest(name, names); near != "" && near[0] == name[0] { // same first letter: suggest cpu for cpi, but not for gpu
		return found{}, e.WithHint("did you mean %s?", near)
	}
	return found{}, e.WithHint("or name its executable with --plugin %s=PATH", name)
}

// elsewhere says why a backend that comes with rlxrun does not exist for a system, and what to use there; empty if it does.
func elsewhere(name, goos, goarch string) string {
	if name == "metal" && (goos != "darwin" || goarch != "arm64") {
		return "needs a Mac with Apple silicon, and this is " + goos + "/" + goarch + "; use wgpu for a GPU, or cpu"
	}
	return ""
}

// places lists where backends were searched, for messages.
func (r *registry) places() string {
	s := strings.Join(r.looked, ", ")
	if os.Getenv(pluginPathEnv) == "" {
		s += " (" + pluginPathEnv + " is not set)"
	}
	if r.store != "" {
		s += ", " + r.store
	}
	return s
}

// unpath removes the operation and path from a file error. The subject of our error already names the path.
func unpath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
