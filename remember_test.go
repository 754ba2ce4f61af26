package rlx_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/rlxtest"
)

// TestRemember checks that a file that was verified in full is not verified again while it is the same file and nobody
// has written to it.
func TestRemember(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, folder := filepath.Join(dir, "good.rlx"), filepath.Join(dir, "cache", "verified")
	b, err := os.ReadFile(rlxtest.Llama())
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(good, b)
	at := func(when time.Time) {
		t.Helper()
		if err := os.Chtimes(good, when, when); err != nil {
			t.Fatal(err)
		}
	}
	at(time.Now().Add(time.Hour)) // a busy machine may take seconds to verify the file, which then is still new
	verify := func(path string, o rlx.OpenOptions) error {
		m, err := rlx.Open(t.Context(), path, o)
		if err == nil {
			m.Close()
		}
		return err
	}
	o := rlx.OpenOptions{Remember: folder}
	if err := verify(good, o); err != nil {
		t.Fatal(err)
	}
	if list, _ := os.ReadDir(folder); len(list) > 0 {
		t.Errorf("a file that was just written is remembered: %v", list)
	}
	at(time.Now().Add(-time.Hour))
	time.Sleep(2100 * time.Millisecond) // so that a write has another time
	if err := verify(good, o); err != nil {
		t.Fatal(err)
	}
	m := open(t, good)
	record := filepath.Join(folder, strings.TrimPrefix(m.Facts().Identity, "sha256:"))
	if err := verify(good, o); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(record)
	if err != nil || string(text) != stampOf(t, good) {
		t.Fatalf("the record is %q, %v; want %q", text, err, stampOf(t, good))
	}

	// The record belongs to another file, so damaged weights are found.
	b[len(b)-1] ^= 1
	bad := filepath.Join(dir, "bad.rlx")
	write(bad, b)
	wantError(t, "damaged weights", verify(bad, o), rlx.ErrArtifact)
	write(good, b)
	wantError(t, "a file that was written to", verify(good, o), rlx.ErrArtifact)

	// They are not found if a record claims that they were verified, or with Unverified.
	write(record, []byte(stampOf(t, bad)))
	if err := verify(bad, o); err != nil {
		t.Errorf("a file that is remembered: %v", err)
	}
	wantError(t, "a file that is remembered, and others may not be trusted", verify(bad, rlx.OpenOptions{}),
		rlx.ErrArtifact)
	if err := verify(bad, rlx.OpenOptions{Unverified: true}); err != nil {
		t.Errorf("without verification: %v", err)
	}
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	wantError(t, "a folder that others may write to", verify(bad, o), rlx.ErrArtifact)
	for what, change := range map[string]struct{ do, undo func() error }{
		"a record that others may write to": {func() error { return os.Chmod(record, 0o666) },
			func() error { return os.Chmod(record, 0o600) }},
		"a folder in one that others may change": {func() error { return os.Chmod(dir, 0o777) },
			func() error { return os.Chmod(dir, 0o700) }},
		"a record of another user": {func() error { return os.Chown(record, 12345, -1) },
			func() error { return os.Chown(record, 0, -1) }},
		"a folder of another user": {func() error { return os.Chown(folder, 12345, -1) },
			func() error { return os.Chown(folder, 0, -1) }},
		"a folder in one of another user": {func() error { return os.Chown(dir, 12345, -1) },
			func() error { return os.Chown(dir, 0, -1) }},
	} {
		if os.Getuid() != 0 && strings.Contains(what, "another user") {
			continue
		}
		if err := errors.Join(os.Chmod(folder, 0o700), os.Chmod(dir, 0o700)); err != nil {
			t.Fatal(err)
		}
		if err := verify(bad, o); err != nil {
			t.Errorf("before %s: %v", what, err)
		}
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		wantError(t, what, verify(bad, o), rlx.ErrArtifact)
		if err := change.undo(); err != nil {
			t.Fatal(err)
		}
	}
}

func stampOf(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := regular.StampOf(f)
	if err != nil {
		t.Fatal(err)
	}
	if s.Text() == "" {
		t.Skip("the system does not tell when a file was changed")
	}
	return s.Text()
}
