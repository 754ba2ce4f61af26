package rlx_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx"
)

func TestFindBackends(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("executables have no mode")
	}
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for path, mode := range map[string]os.FileMode{"one/rlx-backend-a": 0o755, "two/rlx-backend-a": 0o755, "two/rlx-backend-b": 0o755,
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
	for mode, want := range map[os.FileMode]string{0o755: "", 0o777: "every user can write to " + one + " and thus run programs as you; chmod o-w " + one} {
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
