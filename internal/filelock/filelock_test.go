package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestTry opens a file twice: the system's locks belong to open files.
func TestTry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	a, b := open(), open()
	if err := Try(a); err != nil {
		t.Fatal(err)
	}
	if err := Try(b); !errors.Is(err, ErrHeld) {
		t.Errorf("a file that is locked: %v", err)
	}
	if _, err := b.WriteAt([]byte("text"), 0); err != nil {
		t.Errorf("writing to a file that is locked: %v", err)
	}
	a.Close()
	if err := Try(b); err != nil {
		t.Errorf("after the lock has ended: %v", err)
	}
}
