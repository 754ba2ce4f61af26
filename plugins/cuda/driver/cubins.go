package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cubins is a folder with machine code that the driver has made from PTX, a file for each kernel. A file begins with
// the digest of the rest, so that damaged files are made again. Errors of the folder are ignored: code that cannot be
// kept is made again by the next process.
type cubins struct{ dir string }

// suffix is that of the files' names.
const suffix = ".cubin"

// mostKept and leastKept bound the size of the folder in bytes. Code of earlier versions of kernels and drivers is not
// removed otherwise.
const mostKept, leastKept = 256 << 20, 128 << 20

// key returns the name of the code for a text, and for the device and driver that the other parts name.
func (cubins) key(text string, of ...string) string {
	h := sha256.Sum256([]byte(strings.Join(append(of, text), "\x00")))
	return hex.EncodeToString(h[:])
}

// find returns the code, or nil.
func (c cubins) find(key string) []byte {
	if c.dir == "" {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(c.dir, key+suffix))
	if err != nil || len(b) <= sha256.Size {
		return nil
	}
	code := b[sha256.Size:]
	if sha256.Sum256(code) != [sha256.Size]byte(b) {
		return nil
	}
	return code
}

// add keeps the code. The file gets its name once it is complete, because other processes may read it.
func (c cubins) add(key string, code []byte) {
	if c.dir == "" {
		return
	}
	f, err := os.CreateTemp(c.dir, "new*")
	if err != nil {
		return
	}
	digest := sha256.Sum256(code)
	_, err = f.Write(append(digest[:], code...))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(c.dir, key+suffix))
	}
	if err != nil {
		os.Remove(f.Name())
	}
}

// trim removes the oldest files if the folder has more than mostKept bytes.
func (c cubins) trim() {
	if c.dir == "" {
		return
	}
	list, _ := os.ReadDir(c.dir)
	var files []os.FileInfo
	total := int64(0)
	for _, e := range list {
		if i, err := e.Info(); err == nil && i.Mode().IsRegular() {
			files, total = append(files, i), total+i.Size()
		}
	}
	if total <= mostKept {
		return
	}
	slices.SortFunc(files, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files {
		if total <= leastKept {
			return
		}
		if os.Remove(filepath.Join(c.dir, f.Name())) == nil {
			total -= f.Size()
		}
	}
}
