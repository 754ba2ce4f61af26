//go:build linux || darwin

package installed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

// started pretends to start a plugin: it checks the files against the manifest and returns the given version.
func started(version string) func(context.Context, *Plugin) (string, error) {
	return func(_ context.Context, p *Plugin) (string, error) {
		if err := p.Folder().Verify(); err != nil {
			return "", err
		}
		st, err := os.Stat(p.Path())
		if err != nil || st.Mode().Perm()&0o111 == 0 || filepath.Base(p.Path()) != "rlx-backend-"+p.Name {
			return "", fmt.Errorf("%s cannot be executed: %v, %v", p.Path(), st.Mode(), err)
		}
		return version, nil
	}
}

// write writes files; their paths are relative to dir. Those named rlx-backend-... are executable.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

const script = "#!/bin/sh\n"

func wantCode(t *testing.T, what string, err error, want diag.Code, parts ...string) {
	t.Helper()
	if got, _ := diag.CodeOf(err); got != want {
		t.Errorf("%s: %v (%s); want %s", what, err, got, want)
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v; want %q in it", what, err, p)
		}
	}
}

// newStore returns an empty store. At the end of the test it removes its read-only files.
func newStore(t *testing.T) Store {
	s := Store{filepath.Join(t.TempDir(), "data", "rlx", "plugins")}
	t.Cleanup(func() { removeAll(s.Dir) })
	return s
}

// leftovers lists what the store contains besides plugins.
func leftovers(t *testing.T, s Store) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != lockName && !validName(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}

func TestInstall(t *testing.T) {
	t.Parallel()
	s, src := newStore(t), t.TempDir()
	write(t, src, map[string]string{"rlx-backend-one": script + "one", "rlx-backend-one.sandbox": "gpu\n",
		"two/rlx-backend-two": script + "two", "two/mod/a.py": "a", "two/plugin.json": `{"version":"7","platform":"` +
			runtime.GOOS + `"}`})
	for name, b := range map[string][]byte{
		"three.tgz": gzipOf(
			tarOf(entry{name: "three-1.0/"}, entry{name: "three-1.0/rlx-backend-three", data: script},
				entry{name: "three-1.0/LICENSE", data: "x"})),
		"four.zip": zipOf(entry{name: "rlx-backend-four", data: script}, entry{name: "m.py", data: "4"}),
	} {
		if err := os.WriteFile(filepath.Join(src, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		source, name, version string
		files                 int
	}{{"rlx-backend-one", "one", "1", 2}, {"two", "two", "7", 3}, {"three.tgz", "three", "1", 2},
		{"four.zip", "four", "1", 2}} {
		p, err := s.Install(t.Context(), filepath.Join(src, c.source), Options{Start: started(c.version)})
		if err != nil {
			t.Fatalf("%s: %v", c.source, err)
		}
		if _, n := p.Size(); p.Skip != nil || p.Name != c.name || p.Version != c.version || n != c.files ||
			!slices.Equal(p.Protocol, []int{host.Version}) {
			t.Errorf("%s: %+v with %d files", c.source, p, n)
		}
		if err := p.Verify(); err != nil {
			t.Error(err)
		}
		if st, err := os.Stat(filepath.Join(p.files(), p.Executable)); err != nil || st.Mode().Perm()&0o222 != 0 ||
			st.Mode().Perm()&0o100 == 0 {
			t.Errorf("%s: mode %v, %v", p.Path(), st.Mode(), err)
		}
	}
	list, err := s.List()
	if err != nil || len(list) != 4 || list[0].Name != "four" || list[1].Declares != "gpu\n" ||
		list[3].Platform != runtime.GOOS || list[1].Platform != anyPlatform {
		t.Errorf("%v, %v", list, err)
	}

	// Install a second version. The first stays until the second is complete.
	write(t, src, map[string]string{"v2/rlx-backend-one": script + "two"})
	v2 := filepath.Join(src, "v2")
	_, err = s.Install(t.Context(), v2, Options{Start: started("2")})
	wantCode(t, "second version", err, code.PluginTaken, "plugin one: is installed already, version 1; --replace")
	broken := errors.New("does not start")
	_, err = s.Install(
		t.Context(), v2,
		Options{Replace: true, Start: func(context.Context, *Plugin) (string, error) { return "", broken }})
	if p, ferr := s.Find("one"); !errors.Is(err, broken) || ferr != nil || p.Version != "1" || p.Verify() != nil {
		t.Errorf("after a failed replacement: %v, %+v, %v", err, p, ferr)
	}
	p, err := s.Install(t.Context(), v2, Options{Replace: true, Start: started("2")})
	if err != nil || p.Version != "2" || p.Declares != "" || p.Verify() != nil {
		t.Errorf("%+v, %v", p, err)
	}

	// Names of built-in backends.
	o := Options{BuiltIn: []string{"cpu", "four"}, Start: started("1"), Replace: true}
	_, err = s.Install(t.Context(), filepath.Join(src, "four.zip"), o)
	wantCode(t, "built-in", err, code.PluginTaken, "plugin four: has the name of a backend that comes with rlxrun",
		"--hide-built-in")
	o.HideBuiltIn = true
	if p, err := s.Install(t.Context(), filepath.Join(src, "four.zip"), o); err != nil || !p.HidesBuiltIn {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := s.Install(t.Context(), v2, o); err != nil || p.HidesBuiltIn {
		t.Errorf("another name hides nothing: %+v, %v", p, err)
	}

	if err := s.Remove(t.Context(), "two"); err != nil {
		t.Error(err)
	}
	_, err = s.Find("two")
	wantCode(t, "removed", err, code.Backend, "installed: four, one, three")
	wantCode(t, "removed twice", s.Remove(t.Context(), "two"), code.Backend)
	for _, name := range []string{"..", ".", "a/b", "", lockName} {
		wantCode(t, name, s.Remove(t.Context(), name), code.Backend)
	}
	if left := leftovers(t, s); left != nil {
		t.Errorf("left are %v", left)
	}
}

// TestInstallErrors checks that nothing is left behind if a source cannot be installed.
func TestInstallErrors(t *testing.T) {
	t.Parallel()
	elsewhere := "plan9"
	for what, c := range map[string]struct {
		files map[string]string
		code  diag.Code
		want  string
	}{
		"no executable": {map[string]string{"a.py": ""}, code.PluginSource,
			"has no file rlx-backend-NAME at its top"},
		"below the top": {map[string]string{"bin/rlx-backend-a": script, "x": ""}, code.PluginSource, "at its top"},
		"two executables": {map[string]string{"rlx-backend-a": script, "rlx-backend-b": script}, code.PluginSource,
			"has several executables, rlx-backend-a and rlx-backend-b"},
		"a bad name": {map[string]string{"rlx-backend-A b": script}, code.PluginSource, "a letter first"},
		"a text": {map[string]string{"rlx-backend-a": "hello, world: I am no program"}, code.PluginSource,
			"is neither an executable of Linux or macOS nor a script"},
		"empty": {map[string]string{"rlx-backend-a": ""}, code.PluginSource, "has 0 bytes"},
		"other platform": {
			map[string]string{"rlx-backend-a": script, "plugin.json": `{"platform":"` + elsewhere + `"}`},
			code.PluginRefused, "is for plan9; this machine is"},
		"other protocol": {map[string]string{"rlx-backend-a": script, "plugin.json": `{"protocol":[99]}`},
			code.PluginRefused, "supports version 99 of the backend protocol; this program needs version"},
		"a lie": {
			map[string]string{"rlx-backend-a": "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 11) + "\xf3\x00",
				"plugin.json": `{"platform":"linux/amd64"}`}, code.PluginSource,
			"is for linux/amd64 in its plugin.json, and rlx-backend-a is for linux/riscv64"},
		"other name": {
			map[string]string{"rlx-backend-a": script, "plugin.json": `{"name":"b","executable":"rlx-backend-a"}`},
			code.PluginSource, "is called b in its plugin.json, but its executable is rlx-backend-a"},
		"other version": {map[string]string{"rlx-backend-a": script, "plugin.json": `{"version":"2"}`},
			code.PluginSource, "has version 2 in its plugin.json and reports version 1"},
		"no such file": {map[string]string{"rlx-backend-a": script, "plugin.json": `{"executable":"rlx-backend-c"}`},
			code.PluginSource, "lacks rlx-backend-c"},
		"bad json": {map[string]string{"rlx-backend-a": script, "plugin.json": `{`}, code.PluginSource,
			"has a plugin.json that is not valid JSON"},
		"unknown key": {map[string]string{"rlx-backend-a": script, "plugin.json": `{"versoin":"1"}`},
			code.PluginSource, `has the unknown key "versoin"`},
		"path": {
			map[string]string{"rlx-backend-a": script, "plugin.json": `{"executable":"../rlx-backend-a"}`},
			code.PluginSource, "is not the name of a file at the top"},
		"declaration": {
			map[string]string{"rlx-backend-a": script, "rlx-backend-a.sandbox": strings.Repeat("#", 5000)},
			code.PluginSource, "has a rlx-backend-a.sandbox that has 5000 bytes"},
	} {
		s, src := newStore(t), t.TempDir()
		write(t, src, c.files)
		_, err := s.Install(t.Context(), src, Options{Start: started("1")})
		wantCode(t, what, err, c.code, c.want)
		if left := leftovers(t, s); left != nil {
			t.Errorf("%s: left are %v", what, left)
		}
		if list, err := s.List(); len(list) != 0 || err != nil {
			t.Errorf("%s: installed are %v, %v", what, list, err)
		}
	}
	s, src := newStore(t), t.TempDir()
	write(t, src, map[string]string{"rlx-backend-a": script, "other": script, "text": "hello, this is no program"})
	_, err := s.Install(t.Context(), filepath.Join(src, "other"), Options{})
	wantCode(t, "a file of another name", err, code.PluginSource, "is not called rlx-backend-NAME")
	_, err = s.Install(t.Context(), filepath.Join(src, "text"), Options{})
	wantCode(t, "no program", err, code.PluginSource, "nor an archive (tar, tar.gz, zip)")
	_, err = s.Install(t.Context(), filepath.Join(src, "none"), Options{})
	wantCode(t, "no file", err, code.PluginSource, "cannot be opened: no such file")
	_, err = s.Install(t.Context(), src+"/rlx-backend-a", Options{})
	wantCode(t, "not started", err, code.PluginSource, "has no plugin.json with version and protocol")
	if err := os.Symlink("/etc/passwd", filepath.Join(src, "link")); err != nil {
		t.Fatal(err)
	}
	_, err = s.Install(t.Context(), src, Options{})
	wantCode(t, "a link", err, code.PluginSource, `has a link, "link"`)
	open := newStore(t)
	if err := errors.Join(os.MkdirAll(open.Dir, 0o755), os.Chmod(open.Dir, 0o775)); err != nil {
		t.Fatal(err)
	}
	_, err = open.Install(t.Context(), src+"/rlx-backend-a", Options{Start: started("1")})
	wantCode(t, "a store of others", err, code.PluginRefused, "can write to "+open.Dir)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = s.Install(ended, src+"/rlx-backend-a", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	write(
		t, src, map[string]string{"quiet/rlx-backend-q": script,
			"quiet/plugin.json": `{"version":"3","protocol":[2,3]}`})
	if p, err := s.Install(t.Context(), src+"/quiet", Options{}); err != nil || p.Version != "3" ||
		!slices.Equal(p.Protocol, []int{2, 3}) {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestChanged checks that a plugin that has changed since its installation is detected and does not run.
func TestChanged(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change func(dir string) error
		verify string // error of Verify
		skip   bool   // detected when plugins are listed
	}{
		"executable": {func(d string) error { return overwrite(d + "/files/rlx-backend-a") },
			"rlx-backend-a has SHA-256", false},
		"module": {func(d string) error { return overwrite(d + "/files/m/x.py") }, "x.py has SHA-256", false},
		"missing": {func(d string) error {
			return unlocked(d+"/files/m", func() error { return os.Remove(d + "/files/m/x.py") })
		}, "x.py is missing", false},
		"more": {func(d string) error {
			return unlocked(d+"/files/m", func() error { return os.WriteFile(d+"/files/m/numpy.py", nil, 0o444) })
		}, "numpy.py was not installed", false},
		"link": {func(d string) error {
			return unlocked(d+"/files/m", func() error { return os.Symlink("/etc/passwd", d+"/files/m/l") })
		}, "m/l is not a regular file|m/l", false},
		"open file": {func(d string) error { return os.Chmod(d+"/files/m/x.py", 0o666) }, "every user can write to",
			false},
		"open folder": {func(d string) error { return os.Chmod(d, 0o777) }, "can write to", true},
		"group":       {func(d string) error { return os.Chmod(d+"/files", 0o775) }, "can write to", true},
		"open store":  {func(d string) error { return os.Chmod(filepath.Dir(d), 0o777) }, "can write to", true},
		"above": {func(d string) error { return os.Chmod(filepath.Join(d, "../../.."), 0o777) }, "can write to",
			true},
		"manifest": {func(d string) error { return os.Chmod(d+"/manifest.json", 0o666) }, "can write to", true},
		"damaged": {func(d string) error { return rewrite(d, `"schema"`, `"schemas"`) },
			`manifest.json has the unknown key "schemas"`, true},
		"newer": {func(d string) error { return rewrite(d, `"schema": 1`, `"schema": 2`) },
			"manifest.json has schema 2; this program knows 1", true},
		"other name": {func(d string) error { return rewrite(d, `"name": "a"`, `"name": "b"`) },
			"manifest.json belongs to plugin b", true},
		"platform": {func(d string) error { return rewrite(d, `"platform": "any"`, `"platform": "linux/sparc64"`) },
			"is for linux/sparc64; this machine is", true},
		"protocol": {func(d string) error { return rewrite(d, "2\n  ]", "1,\n 17\n  ]") },
			"supports version 1, 17 of the backend protocol; this program needs version 2", true},
		"no manifest": {func(d string) error { return os.Remove(d + "/manifest.json") },
			"manifest.json cannot be opened", true},
		"outside": {func(d string) error { return rewrite(d, `"path": "m/x.py"`, `"path": "../x.py"`) },
			"is not one inside the plugin's folder", true},
		// undetected: whoever can write the manifest decides
		"its own words": {func(d string) error { return rewrite(d, `"declares": ""`, `"declares": "none"`) }, "",
			false},
	} {
		s, src := newStore(t), t.TempDir()
		write(t, src, map[string]string{"rlx-backend-a": script, "m/x.py": "x"})
		p, err := s.Install(t.Context(), src, Options{Start: started("1")})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.change(p.Dir); err != nil {
			t.Fatal(err)
		}
		if p, err = s.Find("a"); err != nil {
			t.Fatal(err)
		}
		if (p.Skip != nil) != c.skip {
			t.Errorf("%s: skipped because of %v", what, p.Skip)
		}
		err = p.Verify()
		want, either, _ := strings.Cut(c.verify, "|")
		if c.verify == "" && err != nil || c.verify != "" &&
			(err == nil || !strings.Contains(err.Error(), want) &&
				(either == "" || !strings.Contains(err.Error(), either))) {
			t.Errorf("%s: %v; want %q", what, err, c.verify)
		}
		if err != nil && !errors.Is(err, code.Digest) && !errors.Is(err, code.PluginRefused) {
			t.Errorf("%s: %v has another code", what, err)
		}
		if folder := p.Folder(); !c.skip && (folder.Verify() == nil) != (c.verify == "") {
			t.Errorf("%s: a start says %v", what, folder.Verify())
		}
		os.Chmod(filepath.Join(s.Dir, "../.."), 0o755)
		if err := s.Remove(t.Context(), "a"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func overwrite(path string) error {
	return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte(script+"evil"), 0o600))
}

func unlocked(dir string, f func() error) error {
	return errors.Join(os.Chmod(dir, 0o755), f(), os.Chmod(dir, 0o555))
}

func rewrite(dir, old, with string) error {
	path := filepath.Join(dir, manifestName)
	b, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(b, []byte(old)) {
		err = fmt.Errorf("%s lacks %s", b, old)
	}
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, bytes.Replace(b, []byte(old), []byte(with), 1), 0o600))
}

// TestRecover checks that the next command that changes the store cleans up after an install that was killed.
func TestRecover(t *testing.T) {
	t.Parallel()
	s, src := newStore(t), t.TempDir()
	write(t, src, map[string]string{"rlx-backend-a": script, "b/rlx-backend-b": script})
	p, err := s.Install(t.Context(), src+"/rlx-backend-a", Options{Start: started("1")})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(p.Dir, s.Dir+"/.old-a"), os.MkdirAll(s.Dir+"/.new-1/files", 0o755)); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(); len(list) != 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := s.Install(t.Context(), src+"/b", Options{Start: started("1")}); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Find("a"); err != nil || p.Verify() != nil || leftovers(t, s) != nil {
		t.Errorf("%v, %v, %v", p, err, leftovers(t, s))
	}
}

func TestUser(t *testing.T) {
	for _, c := range []struct{ xdg, want string }{{"/x/data", "/x/data/rlx/plugins"},
		{"", "/h/.local/share/rlx/plugins"}, {"relative", "/h/.local/share/rlx/plugins"}} {
		t.Setenv("XDG_DATA_HOME", c.xdg)
		t.Setenv("HOME", "/h")
		if runtime.GOOS == "darwin" {
			c.want = strings.Replace(c.want, ".local/share", "Library/Application Support", 1)
		}
		if s, err := User(); err != nil || s.Dir != c.want {
			t.Errorf("%q: %s, %v; want %s", c.xdg, s.Dir, err, c.want)
		}
	}
}

// TestPlatformOf checks the test's own executable, made by Go's linker, and headers as the systems document them.
func TestPlatformOf(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := platformOf(f); err != nil || got != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("%s, %v", got, err)
	}
	rest := strings.Repeat("\x00", 12)
	for header, want := range map[string]string{
		"#!/usr/bin/env python3\n": "any",
		"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00": "linux/arm64",
		"\x7fELF\x02\x02\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x16": "linux/s390x",
		"\xcf\xfa\xed\xfe\x0c\x00\x00\x01" + rest:                                 "darwin/arm64",
		"\xcf\xfa\xed\xfe\x07\x00\x00\x01" + rest:                                 "darwin/amd64",
		"\xca\xfe\xba\xbe\x00\x00\x00\x02" + rest:                                 "darwin",
		"\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x03\x00": "",
		"MZ" + rest + rest: "",
		"":                 "",
	} {
		if got, err := platformOf(strings.NewReader(header)); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", header, got, err, want)
		}
	}
}

// FuzzManifest checks that reading, writing and reading a manifest again gives the same manifest.
func FuzzManifest(f *testing.F) {
	f.Add(
		[]byte(
			`{"schema":1,"name":"a","version":"1","protocol":[2],"platform":"any","executable":"rlx-backend-a","sha256":"` +
				strings.Repeat("ab", 32) +
				`","declares":"gpu","hides_built_in":true,"files":[{"path":"m/x.py","sha256":"` +
				strings.Repeat("cd", 32) +
				`"}]}`))
	f.Add([]byte(`{"schema":"1"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		parseAuthor(b)
		m, err := parseManifest(b)
		if err != nil {
			return
		}
		file := filepath.Join(t.TempDir(), "m")
		if err := m.write(file); err != nil {
			t.Fatal(err)
		}
		again, err := readManifest(file)
		if err != nil || fmt.Sprintf("%#v", again) != fmt.Sprintf("%#v", m) {
			t.Errorf("%#v, %v; want %#v", again, err, m)
		}
	})
}
