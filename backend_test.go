package rlx_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/tinymodel"
)

func TestFindBackends(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("executables have no mode")
	}
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for path, mode := range map[string]os.FileMode{"one/rlx-backend-a": 0o755, "two/rlx-backend-a": 0o755,
		"two/rlx-backend-b":     0o755,
		"two/rlx-backend-plain": 0o644, "two/rlx-backend-": 0o755, "two/other": 0o755} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	backend := func(name, dir string) rlx.Backend {
		return rlx.Backend{Name: name, Path: dir + "/rlx-backend-" + name, Dir: dir}
	}
	want := []rlx.Backend{backend("a", one), backend("a", two), backend("b", two)}
	if got := rlx.FindBackends(one, two, filepath.Join(dir, "none"), one); !slices.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
	if b, err := rlx.FindBackend("a", one, two); err != nil || b != want[0] {
		t.Errorf("%v, %v; want the first", b, err)
	}
	_, err := rlx.FindBackend("c", one, two)
	wantError(t, "c", err, rlx.ErrNoBackend)
	if err != nil && !strings.Contains(err.Error(), "found: a ("+one) {
		t.Errorf("%v; want it to list what there is", err)
	}
	_, err = rlx.FindBackend("c") // beside the test
	wantError(t, "c beside the test", err, rlx.ErrNoBackend)
	for mode, want := range map[os.FileMode]string{0o755: "", 0o777: "every user can write to " + one +
		" and thus run programs as you; chmod o-w " + one} {
		if err := os.Chmod(one, mode); err != nil {
			t.Fatal(err)
		}
		if got := exposed(t, one); got != want {
			t.Errorf("a folder of mode %v: %q; want %q", mode, got, want)
		}
	}
}

// exposed returns who could replace backend a, or "".
func exposed(t *testing.T, dir string) string {
	t.Helper()
	b, err := rlx.FindBackend("a", dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Exposed(); err != nil {
		return err.Error()
	}
	return ""
}

// TestSearch checks where backends are found without directories: beside rlxrun in PATH, in RLX_PLUGIN_PATH, and not
// where others could have put them.
func TestSearch(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("executables have no mode")
	}
	dir := t.TempDir()
	put := func(path string) string {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("bin/rlxrun")
	first, second, third := put("bin/rlx-backend-npu"), put("more/rlx-backend-npu"), put("more/rlx-backend-tpu")
	put("open/rlx-backend-dsp")
	if err := os.Chmod(filepath.Join(dir, "open"), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	t.Setenv("RLX_PLUGIN_PATH", filepath.Join(dir, "more")+string(filepath.ListSeparator)+filepath.Join(dir, "open"))
	var found []string
	for _, b := range rlx.FindBackends() {
		found = append(found, b.Path)
	}
	if want := []string{first, second, third}; !slices.Equal(found, want) {
		t.Errorf("%v; want %v", found, want)
	}
	if b, err := rlx.FindBackend("npu"); err != nil || b.Path != first {
		t.Errorf("%v, %v; want the one beside rlxrun", b, err)
	}
	_, err := rlx.FindBackend("dsp")
	if err == nil || !strings.Contains(err.Error(), "every user can write to") {
		t.Errorf("a folder that everybody can write to: %v", err)
	}
	_, err = rlx.FindBackend("gpu")
	wantError(t, "no such backend", err, rlx.ErrNoBackend)
}

// TestLoad opens a file on a backend in one call.
func TestLoad(t *testing.T) {
	t.Parallel()
	path := artifact(t, nil, tinymodel.Program(t, negGraph, "cpu"))
	s, err := rlx.Load(t.Context(), path, "cpu")
	if err != nil {
		t.Fatal(err)
	}
	m := s.Model()
	if name := s.Backend().Name; name != "cpu" || m.Path() != path {
		t.Errorf("%s runs %s", name, m.Path())
	}
	if err := s.Load(t.Context(), m.Methods()[0].Name); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	_, err = m.NewSession(t.Context(), rlx.Options{Backend: cpu()})
	wantError(t, "a model whose session was closed", err, rlx.ErrUsage)
	_, err = rlx.Load(t.Context(), path+"x", "cpu")
	wantError(t, "no file", err, fs.ErrNotExist)
	_, err = rlx.Load(t.Context(), path, "none")
	wantError(t, "no backend", err, rlx.ErrNoBackend)
}
