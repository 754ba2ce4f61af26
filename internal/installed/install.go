package installed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/filelock"
	"github.com/rlx-go/rlx/internal/owned"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

// authorName is a file in which a plugin's author may declare what cannot be derived from its files.
const authorName = "plugin.json"

// Options configure Install.
type Options struct {
	Replace bool // replace an installed plugin of the same name
	// BuiltIn lists names that a plugin may use only with HideBuiltIn. It then replaces the built-in backend.
	BuiltIn     []string
	HideBuiltIn bool
	// Start starts the plugin and returns its version. If it is nil, the plugin is not started, and plugin.json must
	// give version and protocol.
	Start func(context.Context, *Plugin) (version string, err error)
}

// Install installs a plugin from an executable, a directory or an archive, completely or not at all: it is put together
// in a separate folder, started from there, and then renamed. Errors match code.PluginSource if the source is at fault,
// else code.PluginTaken, code.PluginRefused, or those of Start.
func (s Store) Install(ctx context.Context, source string, o Options) (*Plugin, error) {
	bad := func(err error) error {
		var pe *fs.PathError
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &pe) && pe.Op == "write":
			return s.unwritable(err)
		}
		return diag.New(code.PluginSource, source, "%w", err)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if who := owned.Private(s.Dir); who != nil {
		return nil, diag.New(code.PluginRefused, s.Dir, "%w and thus replace the program", who).WithHint(
			"%s", who.Fix())
	}
	staging, err := os.MkdirTemp(s.Dir, newPrefix)
	if err != nil {
		return nil, s.unwritable(err)
	}
	defer removeAll(staging)
	p := &Plugin{Dir: staging}
	if err := os.Mkdir(p.files(), 0o755); err != nil {
		return nil, s.unwritable(err)
	}
	if err := p.fill(ctx, source); err != nil {
		return nil, bad(err)
	}
	if err := p.recognise(ctx); err != nil {
		return nil, bad(err)
	}
	if err := s.free(p.Name, o); err != nil {
		return nil, err
	}
	p.HidesBuiltIn = slices.Contains(o.BuiltIn, p.Name)
	switch {
	case o.Start == nil && (p.Version == "" || p.Protocol == nil):
		return nil,
			bad(fmt.Errorf("has no %s with version and protocol, which it needs if it is not started", authorName))
	case p.Protocol == nil:
		p.Protocol = []int{host.Version} // started with this version; otherwise Start fails
	}
	if err := p.runsHere(); err != nil {
		return nil, diag.New(code.PluginRefused, source, "%w", err).WithHint("get a build of it for this machine")
	}
	if o.Start != nil {
		version, err := o.Start(ctx, p)
		if err != nil {
			return nil, err
		}
		if p.Version != "" && p.Version != version {
			return nil,
				bad(
					fmt.Errorf("has version %s in its %s and reports version %s when it is started", p.Version,
						authorName, version))
		}
		p.Version = version
	}
	if err := p.finish(); err != nil {
		return nil, s.unwritable(err)
	}
	if err := s.put(p); err != nil {
		return nil, s.unwritable(err)
	}
	return s.open(p.Name), nil
}

// Size returns the total bytes and the number of files of a plugin that Install has returned.
func (p *Plugin) Size() (bytes int64, files int) {
	filepath.WalkDir(p.files(), func(_ string, d fs.DirEntry, _ error) error {
		if d != nil && d.Type().IsRegular() {
			if st, err := d.Info(); err == nil {
				bytes, files = bytes+st.Size(), files+1
			}
		}
		return nil
	})
	return bytes, files
}

// fill copies the source to the plugin's files.
func (p *Plugin) fill(ctx context.Context, source string) error {
	root, err := os.OpenRoot(p.files())
	if err != nil {
		return cause(err)
	}
	defer root.Close()
	if st, err := os.Stat(source); err == nil && st.IsDir() {
		from, err := os.OpenRoot(source)
		if err != nil {
			return fmt.Errorf("cannot be opened: %w", cause(err))
		}
		defer from.Close()
		return newTree(ctx, root, limits{maxFiles, maxBytes}).copyDir(from)
	}
	f, st, err := regular.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	t := newTree(ctx, root, allowed(st.Size()))
	if archiveOf(f) != "" {
		if err := t.unpack(f, st.Size()); err != nil {
			return err
		}
		return p.strip()
	}
	if _, err := platformOf(f); err != nil {
		return fmt.Errorf("%w, nor an archive (tar, tar.gz, zip)", err)
	}
	name := filepath.Base(source)
	if !strings.HasPrefix(name, prefix) {
		return fmt.Errorf("is not called %sNAME", prefix)
	}
	if err := t.file(name, true, st.Size(), f); err != nil {
		return err
	}
	words, st, err := regular.Open(source + declarationSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("has a declaration, %s, which %w", filepath.Base(source)+declarationSuffix, err)
	}
	defer words.Close()
	return t.file(name+declarationSuffix, false, st.Size(), words)
}

const declarationSuffix = ".sandbox"

// strip removes the single top folder that many archives have.
func (p *Plugin) strip() error {
	entries, err := os.ReadDir(p.files())
	if err != nil || len(entries) != 1 || !entries[0].IsDir() {
		return err
	}
	inner := filepath.Join(p.Dir, "inner")
	if err := os.Rename(filepath.Join(p.files(), entries[0].Name()), inner); err != nil {
		return err
	}
	if err := os.Remove(p.files()); err != nil {
		return err
	}
	return os.Rename(inner, p.files())
}

// recognise creates the manifest from the files.
func (p *Plugin) recognise(ctx context.Context) error {
	root, err := os.OpenRoot(p.files())
	if err != nil {
		return cause(err)
	}
	defer root.Close()
	files, err := describe(ctx, root)
	if err != nil {
		return err
	}
	read := func(name string, limit int64) ([]byte, bool, error) {
		if !slices.ContainsFunc(files, func(f File) bool { return f.Path == name }) {
			return nil, false, nil
		}
		b, err := regular.ReadFile(filepath.Join(p.files(), name), limit)
		return b, true, err
	}
	b, ok, err := read(authorName, maxManifest)
	if ok && err == nil {
		p.Manifest, err = parseAuthor(b)
	}
	if err != nil {
		return fmt.Errorf("has a %s that %w", authorName, err)
	}
	if p.Executable == "" {
		if p.Executable, err = executable(files, p.Name); err != nil {
			return err
		}
	}
	name, ok := strings.CutPrefix(p.Executable, prefix)
	if !ok || !validName(name) {
		return fmt.Errorf(
			"has the executable %s; want %sNAME, with up to 64 of a-z, 0-9, _ and - for NAME, a letter first",
			p.Executable, prefix)
	}
	if p.Name != "" && p.Name != name {
		return fmt.Errorf("is called %s in its %s, but its executable is %s", p.Name, authorName, p.Executable)
	}
	p.Name = name
	i := slices.IndexFunc(files, func(f File) bool { return f.Path == p.Executable })
	if i < 0 {
		return fmt.Errorf("lacks %s, which its %s names as the executable", p.Executable, authorName)
	}
	p.SHA256 = files[i].SHA256
	p.Files = slices.Delete(files, i, i+1)
	exe, err := root.Open(p.Executable)
	if err != nil {
		return cause(err)
	}
	defer exe.Close()
	platform, err := platformOf(exe)
	if err != nil {
		return fmt.Errorf("has the executable %s, which %w", p.Executable, err)
	}
	// A script itself runs on any platform, but the libraries that it loads may not.
	if p.Platform == "" {
		p.Platform = platform
	}
	if platform != anyPlatform && p.Platform != platform && !strings.HasPrefix(p.Platform, platform+"/") {
		return fmt.Errorf("is for %s in its %s, and %s is for %s", p.Platform, authorName, p.Executable, platform)
	}
	b, _, err = read(p.Executable+declarationSuffix, maxDeclared)
	if err != nil {
		return fmt.Errorf("has a %s that %w", p.Executable+declarationSuffix, err)
	}
	p.Declares = string(b)
	return exe.Chmod(0o755)
}

// executable returns the file that is named like a backend.
func executable(files []File, name string) (string, error) {
	var found []string
	for _, f := range files {
		if own, ok := strings.CutPrefix(f.Path, prefix); ok && path.Base(f.Path) == f.Path &&
			!strings.HasSuffix(own, declarationSuffix) && (name == "" || own == name) {
			found = append(found, f.Path)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("has no file %s%s at its top", prefix, cmp.Or(name, "NAME"))
	}
	return "", fmt.Errorf("has several executables, %s; name one as \"executable\" in %s", strings.Join(found, " and "),
		authorName)
}

// free returns nil if a plugin may take the name.
func (s Store) free(name string, o Options) error {
	if slices.Contains(o.BuiltIn, name) && !o.HideBuiltIn {
		return diag.New(code.PluginTaken, "plugin "+name,
			"has the name of a backend that comes with rlxrun, which it would hide").
			WithHint("--hide-built-in installs it all the same, and runs it in place of that backend")
	}
	if _, err := os.Lstat(filepath.Join(s.Dir, name)); err != nil || o.Replace {
		return nil
	}
	what := "a version that is skipped"
	if old := s.open(name); old.Version != "" {
		what = "version " + old.Version
	}
	return diag.New(code.PluginTaken, "plugin "+name, "is installed already, %s", what).WithHint(
		"--replace installs this one in its place")
}

// finish writes the manifest and makes the files read-only, so that the plugin's own runtime (such as Python) does not
// change them.
func (p *Plugin) finish() error {
	if err := p.write(filepath.Join(p.Dir, manifestName)); err != nil {
		return err
	}
	return filepath.WalkDir(p.files(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chmod(path, st.Mode().Perm()&0o755&^0o222)
	})
}

// put gives a finished plugin its name. If it replaces another plugin, that one is kept until the rename; if this
// process is killed in between, recover restores it.
func (s Store) put(p *Plugin) error {
	place, old := filepath.Join(s.Dir, p.Name), filepath.Join(s.Dir, oldPrefix+p.Name)
	if err := os.Rename(place, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(p.Dir, place); err != nil {
		os.Rename(old, place)
		return err
	}
	p.Dir = place
	removeAll(old)
	return nil
}

// recover cleans up after an install that was killed. The caller holds the lock.
func (s Store) recover() {
	entries, _ := os.ReadDir(s.Dir)
	for _, e := range entries {
		path := filepath.Join(s.Dir, e.Name())
		if name, ok := strings.CutPrefix(e.Name(), oldPrefix); ok {
			if os.Rename(path, filepath.Join(s.Dir, name)) != nil { // the new one is already in its place
				removeAll(path)
			}
		} else if strings.HasPrefix(e.Name(), newPrefix) {
			removeAll(path)
		}
	}
}

// lock creates and locks the store, cleans it up, and returns a function that unlocks it.
func (s Store) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, s.unwritable(err)
	}
	f, err := os.OpenFile(filepath.Join(s.Dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, s.unwritable(err)
	}
	for errors.Is(filelock.Try(f), filelock.ErrHeld) {
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(lockPause):
		}
	}
	s.recover()
	return func() { f.Close() }, nil
}

const lockPause = 50 * time.Millisecond

func (s Store) unwritable(err error) error {
	return diag.New(code.PluginRefused, s.Dir, "cannot be written to: %w", cause(err))
}
