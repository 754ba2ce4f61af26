// Package regular opens and reads only regular files. A named pipe would block its reader forever, and a device such as
// /dev/zero would never end.
//
// Errors are plain and do not name the file: their texts follow "FILE: ". A caller adds its own code. The package
// imports nothing of this module.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Open opens a regular file for reading and fails for anything else. It follows links and does not block.
func Open(path string) (*os.File, fs.FileInfo, error) { return open(path, os.Stat, os.OpenFile) }

// OpenIn is Open for a name inside root.
func OpenIn(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	return open(name, root.Stat, root.OpenFile)
}

// open checks the file before opening it, because opening some devices has side effects, and again afterwards, because
// the name may refer to another file by then. O_NONBLOCK prevents blocking on a pipe that has replaced the file.
func open(path string, stat func(string) (fs.FileInfo, error), open func(string, int, fs.FileMode) (*os.File, error)) (
	*os.File, fs.FileInfo, error) {
	st, err := stat(path)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot be opened: %w", cause(err))
	}
	if err := check(st); err != nil {
		return nil, nil, err
	}
	f, err := open(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot be opened: %w", cause(err))
	}
	if st, err = f.Stat(); err != nil {
		err = fmt.Errorf("cannot be read: %w", cause(err))
	} else {
		err = check(st)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

// ReadFile reads a file of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, st, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st.Size() > limit {
		return nil, fmt.Errorf("has %d bytes; at most %d are allowed", st.Size(), limit)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1)) // files in /proc have size 0, and others may be growing
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", cause(err))
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("has more than %d bytes, the limit", limit)
	}
	return b, nil
}

func check(st fs.FileInfo) error {
	what := "a device"
	switch m := st.Mode(); {
	case m.IsRegular():
		return nil
	case m.IsDir():
		what = "a directory"
	case m&fs.ModeNamedPipe != 0:
		what = "a named pipe"
	case m&fs.ModeSocket != 0:
		what = "a socket"
	}
	return &KindError{what}
}

// KindError is the error for a file that is not regular.
type KindError struct{ Kind string } // such as "a named pipe"

func (e *KindError) Error() string { return "is not a regular file but " + e.Kind }

// cause removes the path from an error of package os.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
