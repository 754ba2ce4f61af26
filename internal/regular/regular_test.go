//go:build unix

package regular

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("ten"), []byte("0123456789"), 0o600), os.Symlink("ten", at("link")),
		os.Symlink("/dev/zero", at("zero")),
		os.Symlink("nothing", at("dangling")), syscall.Mkfifo(at("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		name  string
		limit int64
		want  string // text of the error, or empty
	}{
		{"ten", 10, ""}, {"link", 11, ""},
		{"ten", 9, "has 10 bytes; at most 9 are allowed"},
		{"zero", 9, "is not a regular file but a device"},
		{"pipe", 9, "is not a regular file but a named pipe"},
		{"socket", 9, "is not a regular file but a socket"},
		{".", 9, "is not a regular file but a directory"},
		{"absent", 9, "cannot be opened: no such file or directory"},
		{"dangling", 9, "cannot be opened: no such file or directory"},
	} {
		b, err := ReadFile(at(c.name), c.limit)
		if c.want == "" && (err != nil || string(b) != "0123456789") {
			t.Errorf("%s: %q, %v", c.name, b, err)
		}
		if c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s: error %v; want %s", c.name, err, c.want)
		}
	}
	if _, err := ReadFile(at("absent"), 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v is not ErrNotExist", err)
	}
	if _, err := ReadFile("/proc/self/status", 64); err != nil &&
		!strings.Contains(err.Error(), "has more than 64 bytes") && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file whose size is 0 and which has more: %v", err)
	}
}

// TestOpenRace checks that a path that is a regular file when it is checked and a pipe when it is opened does not block
// and is refused.
func TestOpenRace(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, _, err := open(pipe, func(string) (fs.FileInfo, error) { return os.Stat(file) }, os.OpenFile)
	if err == nil || !strings.Contains(err.Error(), "a named pipe") {
		t.Error(err)
	}
}

// TestOpenIn checks that OpenIn cannot leave the root.
func TestOpenIn(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a"), nil, 0o600),
		os.Symlink("/etc/passwd", filepath.Join(dir, "out"))); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f, _, err := OpenIn(root, "a")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if f, _, err := OpenIn(root, "out"); err == nil {
		f.Close()
		t.Error("a link that leads out of the root was followed")
	}
}
