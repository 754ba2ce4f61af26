//go:build linux || darwin

package owned

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPrivate changes one element of a path at a time.
func TestPrivate(t *testing.T) {
	const other = 12345
	mode := func(m os.FileMode) func(string) error { return func(p string) error { return os.Chmod(p, m) } }
	to := func(uid, gid int) func(string) error { return func(p string) error { return os.Lchown(p, uid, gid) } }
	both := func(list ...func(string) error) func(string) error {
		return func(p string) error {
			for _, f := range list {
				if err := f(p); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for what, c := range map[string]struct {
		at               string // below the test's folder
		change           func(string) error
		root             bool   // only root can make the change
		private, program string // who can write, beginning of the problem; empty if there is no problem
	}{
		"untouched":                {"", func(string) error { return nil }, false, "", ""},
		"the folder, for all":      {"a/b", mode(0o777), false, "every user", "every user"},
		"the folder, sticky":       {"a/b", mode(0o777 | os.ModeSticky), false, "every user", "every user"},
		"the folder, for a group":  {"a/b", mode(0o775), false, "group", ""},
		"above, for all":           {"a", mode(0o777), false, "every user", "every user"},
		"above, sticky":            {"a", mode(0o777 | os.ModeSticky), false, "", ""},
		"above, for another group": {"a", both(to(-1, other), mode(0o775)), true, "group 12345", ""},
		"the folder's owner":       {"a/b", to(other, -1), true, "user 12345", "user 12345"},
		"the owner above":          {"a", to(other, -1), true, "user 12345", "user 12345"},
		"the owner above, sticky": {"a", both(to(other, -1), mode(0o777|os.ModeSticky)), true, "user 12345",
			"user 12345"},
		"a link to it": {"link", func(p string) error { return os.Symlink("a/b", p) }, false, "", ""},
		"a link by another user": {"link", both(func(p string) error { return os.Symlink("a/b", p) }, to(other, -1)),
			true, "user 12345", "user 12345"},
		"a link into an open folder": {"link", func(p string) error {
			if err := os.MkdirAll(filepath.Join(p, "../open/x"), 0o700); err != nil {
				return err
			}
			if err := os.Chmod(filepath.Join(p, "../open"), 0o777); err != nil {
				return err
			}
			return os.Symlink("open/x", p)
		}, false, "every user", "every user"},
		"a link in an open folder": {"open/link", func(p string) error {
			if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
				return err
			}
			if err := os.Chmod(filepath.Dir(p), 0o777); err != nil {
				return err
			}
			return os.Symlink("../a/b", p)
		}, false, "every user", "every user"},
		"a link to itself": {"link", func(p string) error { return os.Symlink("link", p) }, false, "", ""},
		"nothing there":    {"nowhere/x", func(string) error { return nil }, false, "", ""},
	} {
		if c.root && os.Getuid() != 0 {
			continue
		}
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o700); err != nil {
			t.Fatal(err)
		}
		changed := filepath.Join(dir, c.at)
		if err := c.change(changed); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		path := filepath.Join(dir, "a/b")
		if !strings.HasPrefix(c.at, "a") && c.at != "" {
			path = changed
		}
		for kind, x := range map[string]struct {
			got  *Problem
			want string
		}{"private": {Private(path), c.private}, "program": {Program(path), c.program}} {
			switch {
			case x.want == "" && x.got != nil:
				t.Errorf("%s, %s: %v", what, kind, x.got)
			case x.want != "" &&
				(x.got == nil || !strings.HasPrefix(x.got.Error(), x.want) ||
					!strings.HasSuffix(x.got.Fix(), x.got.Path)):
				t.Errorf("%s, %s: %v; want %q", what, kind, x.got, x.want)
			}
		}
	}
}

// TestTree checks which entries Tree examines.
func TestTree(t *testing.T) {
	for _, c := range []struct {
		open          string
		shallow, deep bool // whether it is found
	}{{".", true, true}, {"f", true, true}, {"d", true, true}, {"d/f", false, true}} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range []string{"f", "d/f"} {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Join(dir, c.open), 0o770); err != nil {
			t.Fatal(err)
		}
		if got := Tree(dir, false); (got != nil) != c.shallow {
			t.Errorf("%s is open: %v", c.open, got)
		}
		if got := Tree(dir, true); (got != nil) != c.deep {
			t.Errorf("%s is open, everything below: %v", c.open, got)
		}
	}
}
