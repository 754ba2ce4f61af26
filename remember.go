package rlx

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"time"

	"github.com/rlx-go/rlx/internal/owned"
	"github.com/rlx-go/rlx/internal/regular"
)

// The folder OpenOptions.Remember has a small file, a record, for each file that was verified in full. The name of a
// record is the digest of the artifact; its text is the stamp (device, inode, size, times) of the verified file.
// Copies, replaced files and files that were written to are therefore verified again. A record counts only if nobody
// else could have made it: see package owned.

// recordSize bounds the text of a record, in bytes.
const recordSize = 1 << 10

// recordOf returns the path and text of a model's record. The text is empty if the system does not report when an inode
// changed.
func (m *Model) recordOf() (path, text string) {
	root := m.verified.Root()
	return filepath.Join(m.remember, hex.EncodeToString(root[:])), m.verified.Stamp().Text()
}

// remembered reports whether this file was verified in full before. On any error it reports false.
func (m *Model) remembered() bool {
	if m.remember == "" {
		return false
	}
	path, text := m.recordOf()
	if text == "" || owned.Private(path) != nil {
		return false
	}
	b, err := regular.ReadFile(path, recordSize)
	return err == nil && string(b) == text
}

// record notes that a file was verified in full. If it fails, the file is verified again next time.
func (m *Model) record() {
	if m.remember == "" || m.trusted || !m.verified.Stamp().Settled(time.Now()) || m.verified.Unchanged() != nil {
		return
	}
	path, text := m.recordOf()
	if text == "" || os.MkdirAll(m.remember, 0o700) != nil || owned.Private(m.remember) != nil {
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
