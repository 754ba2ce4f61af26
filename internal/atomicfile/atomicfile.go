// Package atomicfile writes files that are either complete or not there: the bytes go to a temporary file in the same
// directory, which takes the final name only when it is whole and on disk. Readers that have the old file open or mapped
// keep it.
//
// It imports core/diag and internal/ctxio only.
package atomicfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// CodeWrite is reported where an output file cannot be written.
var CodeWrite = diag.Define("RLX2020", "output cannot be written", `
The place named for an output does not exist, may not be written to, or is full. Nothing was left behind: a file that was
there before is unchanged.`)

// File is a file under construction. It is an *os.File, so WriteAt and Seek work; call Commit or Abort instead of Close.
type File struct {
	*os.File
	out    io.Writer // File, until the context ends
	path   string    // the final name
	direct bool      // a device or pipe that cannot be replaced: written in place
	done   bool
}

// maxLinks is how many symbolic links in a row are followed, as on Linux.
const maxLinks = 40

// Target is the file that writing to path writes: path itself, or what it leads to where it is a symbolic link. A link whose
// target does not exist yet is followed too, as a shell's redirection does.
func Target(path string) string {
	for range maxLinks {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(realDir(path), to)
		}
		path = to
	}
	return path
}

// realDir is the directory of path without links in it: "l/../x" is elsewhere than "x" where l is a link.
func realDir(path string) string {
	dir := filepath.Dir(path)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// Create begins a file that will be called path, or Target(path) where that is a symbolic link; the link stays. Permissions
// are those of the file it replaces, otherwise 0666 less the umask. A device or pipe (/dev/null, a named pipe) is written
// directly; opening and writing one end with ctx. Errors are *diag.Error with CodeWrite.
func Create(ctx context.Context, path string) (*File, error) {
	path = Target(path)
	st, err := os.Stat(path)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fail(path, err)
	case err == nil && st.IsDir():
		return nil, diag.New(CodeWrite, path, "is a directory").WithHint("name a file in it")
	case err == nil && !st.Mode().IsRegular():
		f, err := ctxio.OpenFile(ctx, path, os.O_WRONLY, 0)
		if err != nil {
			return nil, fail(path, err)
		}
		return &File{File: f, out: ctxio.NewWriter(ctx, f), path: path, direct: true}, nil
	}
	// os.CreateTemp would give 0600; opening it ourselves lets the umask decide.
	for range 100 {
		dir, base := filepath.Split(path)
		name := dir + "." + base + "." + strconv.FormatUint(rand.Uint64(), 36) + ".tmp"
		f, createErr := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(createErr, fs.ErrExist) {
			continue
		}
		if createErr != nil {
			return nil, fail(path, createErr)
		}
		if err == nil {
			if err := f.Chmod(st.Mode().Perm()); err != nil {
				f.Close()
				os.Remove(name)
				return nil, fail(path, err)
			}
		}
		return &File{File: f, out: ctxio.NewWriter(ctx, f), path: path}, nil
	}
	return nil, diag.New(CodeWrite, path, "no free name for a temporary file")
}

// Path is the final name.
func (f *File) Path() string { return f.path }

// Write ends where the context given to Create does, and so do ReadFrom and WriteString; WriteAt is the file's own.
func (f *File) Write(b []byte) (int, error) { return f.out.Write(b) }

// WriteString writes s.
func (f *File) WriteString(s string) (int, error) { return f.out.Write([]byte(s)) }

// ReadFrom writes what r gives.
func (f *File) ReadFrom(r io.Reader) (int64, error) { return io.Copy(f.out, r) }

// Commit flushes the file to disk and gives it its final name. On error the temporary file is removed and what was there
// before is unchanged.
func (f *File) Commit() error {
	if f.done {
		return nil
	}
	if f.direct {
		f.done = true
		if err := f.File.Close(); err != nil {
			return fail(f.path, err)
		}
		return nil
	}
	if err := f.File.Sync(); err != nil {
		f.Abort()
		return fail(f.path, err)
	}
	f.done = true
	if err := f.File.Close(); err != nil {
		os.Remove(f.Name())
		return fail(f.path, err)
	}
	if err := os.Rename(f.Name(), f.path); err != nil {
		os.Remove(f.Name())
		return fail(f.path, err)
	}
	// The rename is durable once the directory is. Some systems cannot sync a directory; the file is whole either way.
	if d, err := os.Open(filepath.Dir(f.path)); err == nil {
		_ = d.Sync()
		d.Close()
	}
	return nil
}

// Abort gives the file up and removes it. After Commit it does nothing, so it can be deferred.
func (f *File) Abort() {
	if f.done {
		return
	}
	f.done = true
	f.File.Close()
	if !f.direct {
		os.Remove(f.Name())
	}
}

// WriteFile writes the file path by calling write. If write fails, its error is returned as it is where it has a code,
// and the file is not touched. The name "-" has no special meaning here: commands that give it one do so themselves.
func WriteFile(ctx context.Context, path string, write func(io.Writer) error) error {
	f, err := Create(ctx, path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := write(f); err != nil {
		if _, coded := diag.CodeOf(err); coded {
			return err
		}
		return fail(path, err)
	}
	return f.Commit()
}

func fail(path string, err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		err = pe.Err // the subject names the path already
	case errors.As(err, &le):
		err = le.Err
	}
	return diag.New(CodeWrite, path, "cannot be written: %w", err)
}
