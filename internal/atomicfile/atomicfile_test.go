package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// only fails the test unless dir has exactly the named files.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range es {
		if i >= len(names) || e.Name() != names[i] {
			t.Errorf("%s holds %v, want %v", dir, es, names)
			return
		}
	}
	if len(es) != len(names) {
		t.Errorf("%s holds %v, want %v", dir, es, names)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := WriteFile(t.Context(), path, text("one")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(t.Context(), path, text("two")); err != nil {
		t.Fatal(err)
	}
	if st, _ := os.Stat(path); read(t, path) != "two" || st.Mode().Perm() != 0o640 {
		t.Errorf("%q, mode %v", read(t, path), st.Mode())
	}
	only(t, dir, "x")
}

func TestFailureLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := WriteFile(t.Context(), path, text("old")); err != nil {
		t.Fatal(err)
	}
	coded := diag.New(diag.Usage, "x", "a reason")
	for _, tc := range []struct{ give, want error }{{coded, coded}, {syscall.ENOSPC, code.DiskFull},
		{syscall.EACCES, code.Output}} {
		err := WriteFile(t.Context(), path, func(w io.Writer) error {
			if err := text("half")(w); err != nil {
				return err
			}
			return tc.give
		})
		if !errors.Is(err, tc.want) || !errors.Is(err, tc.give) {
			t.Errorf("error %v, want %v", err, tc.want)
		}
		if read(t, path) != "old" {
			t.Errorf("the old file is %q", read(t, path))
		}
		only(t, dir, "x")
	}
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	f, err := Create(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("tail"), 4); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("head"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the final name exists before Commit")
	}
	if err := f.File.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := f.CommitSynced(); err != nil || read(t, path) != "headtail" {
		t.Errorf("%q, %v", read(t, path), err)
	}
	f.Abort()
	only(t, dir, "x")

	g, err := Create(t.Context(), filepath.Join(dir, "y"))
	if err != nil {
		t.Fatal(err)
	}
	g.Abort()
	g.Abort()
	if err := g.Commit(); err != nil {
		t.Error(err)
	}
	only(t, dir, "x")
}

func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none", "x")} {
		if err := WriteFile(t.Context(), path, text("a")); !errors.Is(err, code.Output) || diag.ExitCode(err) != 2 {
			t.Errorf("%s: %v", path, err)
		}
	}
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(real, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(t.Context(), link, text("new")); err != nil {
		t.Fatal(err)
	}
	if st, _ := os.Lstat(link); read(t, real) != "new" || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced, or its target is %q", read(t, real))
	}
	if err := WriteFile(t.Context(), os.DevNull, text("gone")); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(os.DevNull); err != nil || st.Mode().IsRegular() {
		t.Fatalf("%s is no longer a device: %v %v", os.DevNull, st.Mode(), err)
	}
}

// TestDanglingLink checks that links are followed, also several in a row and to a file that does not exist yet. Links
// are never replaced.
func TestDanglingLink(t *testing.T) {
	dir := t.TempDir()
	for _, l := range [][2]string{{"b", "a"}, {"sub/c", "b"}, {filepath.Join(dir, "new"), "sub/c"}, {"none/x", "lost"},
		{"ring2", "ring1"}, {"ring1", "ring2"}, {"sub", "dir"}, {"../up", "sub/u"}} {
		if l[1] == "sub/c" {
			if err := os.Mkdir(filepath.Join(dir, "sub"), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(l[0], filepath.Join(dir, l[1])); err != nil {
			t.Skip(err)
		}
	}
	for link, target := range map[string]string{"a": "new", "dir/u": "up"} {
		if err := WriteFile(t.Context(), filepath.Join(dir, link), text("x")); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Lstat(filepath.Join(dir, link)); err != nil || st.Mode()&os.ModeSymlink == 0 {
			t.Errorf("link %s was replaced: %v", link, err)
		}
		if got := read(t, filepath.Join(dir, target)); got != "x" {
			t.Errorf("%s holds %q", target, got)
		}
	}
	for _, link := range []string{"lost", "ring1"} {
		if err := WriteFile(t.Context(), filepath.Join(dir, link), text("x")); !errors.Is(err, code.Output) {
			t.Errorf("%s: %v", link, err)
		}
		if st, err := os.Lstat(filepath.Join(dir, link)); err != nil || st.Mode()&os.ModeSymlink == 0 {
			t.Errorf("link %s was replaced: %v", link, err)
		}
	}
}
