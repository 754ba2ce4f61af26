//go:build darwin || windows

package host

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
)

// inMemory is false, because a process here cannot execute an open file.
const inMemory = false

// sealedCopy returns f itself and its hash. The file is executed by its path. On macOS only this user should be able to
// write to its directory; on Windows nobody can write to a file that openToExecute has opened.
func sealedCopy(f *os.File, _ string) (*os.File, []byte, error) {
	sum, err := hashFile(f)
	return f, sum, err
}

// hashFile hashes f from its start without moving its offset.
func hashFile(f *os.File) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, st.Size()))
	if err == nil && n != st.Size() {
		err = fmt.Errorf("the file became shorter while it was read")
	}
	return h.Sum(nil), err
}
