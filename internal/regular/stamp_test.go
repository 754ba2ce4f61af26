//go:build linux || darwin

package regular

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestStamp(t *testing.T) {
	tick := func() { time.Sleep(20 * time.Millisecond) } // longer than a tick of a file system's clock
	for _, c := range []struct {
		name string
		do   func(path string) error
		want Change
	}{
		{"nothing", func(string) error { return nil }, Same},
		{"read", func(p string) error { _, err := os.ReadFile(p); return err }, Same},
		{"same bytes written", func(p string) error { return os.WriteFile(p, []byte("0123"), 0o600) }, Changed},
		{"longer", func(p string) error { return os.Truncate(p, 9) }, Changed},
		{"replaced", func(p string) error { // the open file is the old one
			return errors.Join(os.WriteFile(p+".new", nil, 0o600), os.Rename(p+".new", p))
		}, Touched},
		{"removed", os.Remove, Touched},
		{"renamed", func(p string) error { return os.Rename(p, p+".new") }, Touched},
		{"written and set back", func(p string) error {
			st, err := os.Stat(p)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(p, []byte("3210"), 0o600), os.Chtimes(p, time.Time{}, st.ModTime()))
		}, Touched},
	} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte("0123"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		before, err := StampOf(f)
		tick()
		err = errors.Join(err, c.do(path))
		after, e := StampOf(f)
		if err := errors.Join(err, e); err != nil {
			t.Fatal(c.name, err)
		}
		if got := before.Compare(after); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		f.Close()
	}
}
