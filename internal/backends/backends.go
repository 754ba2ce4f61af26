// Package backends finds the executables of backends, for rlxrun and for programs that use package rlx.
//
// The order depends on trust: first the executables that the caller names, then plugins that the user installed to
// replace a built-in backend, then the folder of the program, RLX_PLUGIN_PATH, and all other installed plugins. So a
// plugin replaces a built-in backend only if the user has asked for that, and nothing in the current directory is
// found.
package backends

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/installed"
	"github.com/rlx-go/rlx/internal/owned"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

const (
	// PathEnv names the environment variable with directories of backends.
	PathEnv = "RLX_PLUGIN_PATH"
	// Prefix begins the names of executables; the name of the backend follows.
	Prefix = "rlx-backend-"

	command = "rlxrun"
)

// A Found is an executable that is named like a backend.
type Found struct {
	Name, Path string
	Dir        string            // where it was found
	SHA256     [sha256.Size]byte // of an installed plugin; otherwise zero
	Folder     *host.Folder      // of an installed plugin; otherwise nil

	From string // the place in words: "beside rlxrun", PathEnv, "installed", or what the caller says
	Skip error  // why it is not used; nil if it is usable
}

// In lists the backends in a directory. A directory that cannot be read has no backends.
func In(dir string) []Found {
	var out []Found
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".exe"), Prefix)
		path := filepath.Join(dir, e.Name())
		st, err := os.Stat(path)
		if ok && name != "" && err == nil && host.MayExecute(st) {
			out = append(out, Found{Name: name, Path: path, Dir: dir})
		}
	}
	return out
}

// A Registry lists the backends found and the places searched. Of several backends with one name, the first that is not
// skipped is used.
type Registry struct {
	All    []Found
	looked []string
	store  string // folder of installed plugins, or empty
}

// Search searches for backends. named are executables that the caller names; they come first. A program other than
// rlxrun also finds the backends beside the rlxrun in PATH.
func Search(named []Found, program bool) *Registry {
	r := &Registry{All: slices.Clone(named)}
	var list []*installed.Plugin
	if store, err := installed.User(); err == nil {
		list, _ = store.List() // a folder that cannot be read counts as empty, as for In
		if len(list) > 0 {
			r.store = store.Dir
		}
	}
	r.addInstalled(list, true)
	if dir := Beside(); dir != "" {
		from := "beside " + command
		if program {
			from = "beside the program"
		}
		r.scan(dir, from, func(Found) error { return nil }) // whoever can write there can replace the program as well
	}
	if program {
		if path, err := exec.LookPath(command); err == nil && filepath.IsAbs(path) {
			r.scan(folder(path), "beside "+command, refusal)
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv(PathEnv)) {
		if dir != "" {
			r.scan(dir, PathEnv, refusal)
		}
	}
	r.addInstalled(list, false)
	return r
}

// Beside returns the folder of the running executable, or "" if it is unknown.
func Beside() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	return folder(exe)
}

// folder returns the folder of a file, behind links.
func folder(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return filepath.Dir(path)
}

// addInstalled adds installed plugins: either those that hide a built-in backend, or the others.
func (r *Registry) addInstalled(list []*installed.Plugin, hiding bool) {
	for _, p := range list {
		if p.HidesBuiltIn == hiding {
			r.All = append(r.All, Installed(p))
		}
	}
}

// Installed returns a plugin as a backend that starts only if its files are unchanged since the installation.
func Installed(p *installed.Plugin) Found {
	return Found{Name: p.Name, Path: p.Path(), Dir: p.Dir, SHA256: p.SHA256, Folder: p.Folder(), From: "installed",
		Skip: p.Skip}
}

// scan adds the backends in a directory. refused returns why one is skipped, or nil.
func (r *Registry) scan(dir, from string, refused func(Found) error) {
	if slices.Contains(r.looked, dir) {
		return
	}
	r.looked = append(r.looked, dir)
	for _, f := range In(dir) {
		f.From, f.Skip = from, refused(f)
		r.All = append(r.All, f)
	}
}

// refusal returns why a backend is not executed: another user could have put it there or could replace it, or its path
// depends on the current directory.
func refusal(f Found) error {
	if !filepath.IsAbs(f.Dir) {
		return diag.New(code.PluginRefused, "backend "+f.Name, "%s names %s, which depends on the current directory",
			PathEnv, f.Dir).
			WithHint("name it by its whole path")
	}
	if who := owned.Program(f.Path); who != nil {
		return diag.New(code.PluginRefused, "backend "+f.Name, "%w and thus run programs as you", who).WithHint(
			"%s", who.Fix())
	}
	return nil
}

// Usable returns the backends that are used: the first of each name.
func (r *Registry) Usable() []Found {
	var out []Found
	for _, f := range r.All {
		if f.Skip == nil && !slices.ContainsFunc(out, func(o Found) bool { return o.Name == f.Name }) {
			out = append(out, f)
		}
	}
	return out
}

// Lookup returns the backend of a name. If it is not usable, ok is false. skipped then says why the first backend of
// that name is skipped, or is nil if there is no backend of that name.
func (r *Registry) Lookup(name string) (f Found, skipped error, ok bool) {
	for _, f := range r.All {
		switch {
		case f.Name != name:
		case f.Skip == nil:
			return f, nil, true
		case skipped == nil:
			skipped = f.Skip
		}
	}
	return Found{}, skipped, false
}

// Places lists where backends were searched, for messages.
func (r *Registry) Places() string {
	s := strings.Join(r.looked, ", ")
	if os.Getenv(PathEnv) == "" {
		s += " (" + PathEnv + " is not set)"
	}
	if r.store != "" {
		s += ", " + r.store
	}
	return s
}
