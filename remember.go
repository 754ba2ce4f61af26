package rlx

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"time"

	"github.com/rlx-go/rlx/internal/regular"
)

// A file that was verified in full is remembered by a small file in the folder OpenOptions.Remember. Its name is the artifact's digest, and
// its text the stamp of the very file that was verified, so that a copy, a file that was replaced and one that was written to are
// verified again.

// recordSize bounds the text of a record, in bytes.
const recordSize = 1 << 10

// recordOf is the path and text of a model's record; the text is empty if it cannot have one.
func (m *Model) recordOf() (path, text string) {
	root := m.v.Root()
	return filepath.Join(m.remember, hex.EncodeToString(root[:])), m.v.Stamp().Text()
}

// remembered reports that the very file was verified in full before. Whatever goes wrong means that it was not.
func (m *Model) remembered() bool {
	if m.remember == "" {
		return false
	}
	path, text := m.recordOf()
	if text == "" || !private(m.remember) {
		return false
	}
	b, err := regular.ReadFile(path, recordSize)
	return err == nil && string(b) == text
}

// record remembers a file that was verified in full. It may fail: then the file is verified again next time.
func (m *Model) record() {
	if m.remember == "" || m.trusted || !m.v.Stamp().Settled(time.Now()) || m.v.Unchanged() != nil {
		return
	}
	path, text := m.recordOf()
	if text == "" || os.MkdirAll(m.remember, 0o700) != nil || !private(m.remember) {
		return
	}
	f, err := os.CreateTemp(m.remember, ".new-*")
	if err != nil {
		return
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err != nil || cerr != nil || os.Rename(f.Name(), path) != nil {
		os.Remove(f.Name())
	}
}

// private reports that others may not write to a folder.
func private(dir string) bool {
	st, err := os.Stat(dir)
	return err == nil && st.IsDir() && st.Mode().Perm()&0o022 == 0
}
