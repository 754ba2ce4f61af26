// Package installed manages the user's plugins: backends that `rlxrun plugins install` has copied from a file, a folder
// or an archive.
//
// A plugin NAME is a folder of the store:
//
//	NAME/manifest.json   describes what was installed; see Manifest
//	NAME/files/          the executable rlx-backend-NAME and the other files, read-only
//
// The manifest has the SHA-256 of every file. A plugin runs only if its files match (Plugin.Options). That detects
// damage, interrupted updates and replaced files. It is not a signature: whoever can write to the store can also write
// a manifest. So a store, plugin or file that others can write to is refused.
//
// The package imports core/code, core/diag, internal/regular, internal/strictjson, internal/atomicfile, internal/owned
// and plugins/rpc.
package installed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/owned"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

const (
	manifestName = "manifest.json"
	filesName    = "files"
	prefix       = "rlx-backend-"
	newPrefix    = ".new-" // prefix of a folder that an install fills
	oldPrefix    = ".old-" // prefix of a plugin that an install replaces, followed by its name
	lockName     = ".lock"
)

// A Store is a folder of plugins. It need not exist.
type Store struct{ Dir string }

// User returns the user's store: rlx/plugins in XDG_DATA_HOME, which defaults to ~/.local/share, or in
// ~/Library/Application Support on macOS.
func User() (Store, error) {
	base := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(base) { // the XDG Base Directory Specification says to ignore relative paths
		home, err := os.UserHomeDir()
		if err != nil {
			return Store{}, err
		}
		base = filepath.Join(home, ".local", "share")
		if runtime.GOOS == "darwin" {
			base = filepath.Join(home, "Library", "Application Support")
		}
	}
	return Store{filepath.Join(base, "rlx", "plugins")}, nil
}

// A Plugin is an installed plugin.
type Plugin struct {
	Manifest
	Dir string // its folder in the store
	// Skip says why the plugin cannot run on this machine; nil if it can. The digests of its files are checked only by
	// Verify.
	Skip error
}

// List returns the plugins of the store by name, including those that are skipped. A store that does not exist is
// empty.
func (s Store) List() ([]*Plugin, error) {
	entries, err := os.ReadDir(s.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, diag.New(code.PluginRefused, s.Dir, "cannot be read: %w", cause(err))
	}
	var out []*Plugin
	for _, e := range entries {
		if validName(e.Name()) {
			out = append(out, s.open(e.Name()))
		}
	}
	return out, nil
}

// Find returns the plugin of a name.
func (s Store) Find(name string) (*Plugin, error) {
	if validName(name) {
		if _, err := os.Lstat(filepath.Join(s.Dir, name)); err == nil {
			return s.open(name), nil
		}
	}
	var names []string
	list, err := s.List()
	for _, p := range list {
		names = append(names, p.Name)
	}
	if err != nil {
		return nil, err
	}
	what := "nor is any other"
	if len(names) > 0 {
		what = "installed: " + strings.Join(names, ", ")
	}
	return nil, diag.New(code.Backend, "plugin "+name, "is not installed; %s; looked in %s", what, s.Dir)
}

// open reads the plugin of a name and decides whether it may run.
func (s Store) open(name string) *Plugin {
	p := &Plugin{Dir: filepath.Join(s.Dir, name)}
	p.Manifest.Name = name // for messages, whatever the manifest says
	refuse := func(hint, format string, args ...any) *Plugin {
		p.Skip = diag.New(code.PluginRefused, "plugin "+name, format, args...).WithHint("%s", hint)
		return p
	}
	if who := cmp.Or(owned.Private(s.Dir), owned.Tree(p.Dir, false)); who != nil {
		return refuse(who.Fix(), "%w and thus replace the program", who)
	}
	m, err := readManifest(filepath.Join(p.Dir, manifestName))
	if err == nil && m.Name != name {
		err = fmt.Errorf("belongs to plugin %s", m.Name)
	}
	if err != nil {
		return refuse("rlxrun plugins remove "+name+", and install it again", "%s %w", manifestName, err)
	}
	p.Manifest = m
	if err := m.runsHere(); err != nil {
		return refuse("install a build of it for this machine", "%w", err)
	}
	return p
}

// runsHere returns nil if the plugin supports this machine and our protocol version.
func (m Manifest) runsHere() error {
	here := runtime.GOOS + "/" + runtime.GOARCH
	if m.Platform != anyPlatform && m.Platform != runtime.GOOS && m.Platform != here {
		return fmt.Errorf("is for %s; this machine is %s", m.Platform, here)
	}
	if !slices.Contains(m.Protocol, host.Version) {
		return fmt.Errorf("supports version %s of the backend protocol; this program needs version %d",
			join(m.Protocol), host.Version)
	}
	return nil
}

// Path returns the path of the executable, or of the folder if the manifest is unusable.
func (p *Plugin) Path() string {
	if p.Executable == "" {
		return p.Dir
	}
	return filepath.Join(p.files(), p.Executable)
}

func (p *Plugin) files() string { return filepath.Join(p.Dir, filesName) }

// Options returns options to start the plugin. Skip must be nil. The plugin starts only if its files are unchanged
// since the installation. It runs from a copy in memory if the system supports that.
func (p *Plugin) Options() host.Options {
	return host.Options{Path: p.Path(), Name: p.Name, SHA256: p.SHA256, Folder: p.Folder()}
}

// Folder returns the description of the plugin's folder for host.Options.
func (p *Plugin) Folder() *host.Folder {
	return &host.Folder{Dir: p.files(), Declares: p.Declares, Verify: p.check}
}

// Verify checks all files of the plugin. Errors match code.Digest.
func (p *Plugin) Verify() error {
	if p.Executable == "" {
		return p.Skip // there is no usable manifest
	}
	if err := p.check(); err != nil {
		return diag.New(code.Digest, "plugin "+p.Name, "%w", err).WithHint("install it again with --replace")
	}
	return p.Skip
}

// check compares the files with the manifest.
func (p *Plugin) check() error {
	root, err := os.OpenRoot(p.files())
	if err != nil {
		return fmt.Errorf("%s cannot be opened: %w", p.files(), cause(err))
	}
	defer root.Close()
	found, err := describe(context.Background(), root)
	if err != nil {
		return err
	}
	if who := owned.Tree(p.Dir, true); who != nil {
		return who
	}
	want := map[string]digest{p.Executable: p.SHA256}
	for _, f := range p.Files {
		want[f.Path] = f.SHA256
	}
	for _, f := range found {
		path := filepath.Join(p.files(), f.Path)
		sum, ok := want[f.Path]
		switch {
		case !ok:
			return fmt.Errorf("%s was not installed", path)
		case f.SHA256 != sum:
			return fmt.Errorf("%s has SHA-256 %x; want %x, as installed", path, f.SHA256, sum)
		}
		delete(want, f.Path)
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		return fmt.Errorf("%s is missing", filepath.Join(p.files(), path))
	}
	return nil
}

// Remove removes a plugin.
func (s Store) Remove(ctx context.Context, name string) error {
	p, err := s.Find(name)
	if err != nil {
		return err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	// Rename it first, so that a plugin that is partly removed never runs.
	gone, err := os.MkdirTemp(s.Dir, newPrefix)
	if err == nil {
		defer removeAll(gone)
		err = os.Rename(p.Dir, filepath.Join(gone, name))
	}
	if err != nil {
		return s.unwritable(err)
	}
	return nil
}

// removeAll removes a folder, even if it contains read-only directories.
func removeAll(dir string) error {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// cause removes the operation and path from an error of package os.
func cause(err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		return pe.Err
	case errors.As(err, &le):
		return le.Err
	}
	return err
}
