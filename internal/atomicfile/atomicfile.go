// Package atomicfile writes files that are either complete or do not exist: the bytes go to a temporary file in the same
// directory, which takes the final name only when it is whole and on disk. Readers that have the old file open or mapped
// keep it.
//
// A process that is killed cannot remove its temporary file. On Linux the file has no name until it is complete, where the
// file system allows that, so the kernel removes it. Elsewhere it is called .rlx-RANDOM.tmp and locked while it is
// written, and the next process that writes to the directory removes those that nobody holds a lock on.
//
// It imports core/diag and internal/ctxio only.
package atomicfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// CodeWrite is reported if an output file cannot be written.
var CodeWrite = diag.Define("RLX2020", "output cannot be written", `
The directory of the output does not exist, is not writable, or is full. An older file of that name is unchanged.`)

// File is a file under construction. It is an *os.File, so WriteAt and Seek work; call Commit or Abort instead of Close.
type File struct {
	*os.File
	out    io.Writer // File, until the context ends
	path   string    // the final name
	temp   string    // the temporary name, if there is one
	direct bool      // a device or pipe that cannot be replaced: written in place
	done   bool
}

// maxLinks is how many symbolic links in a row are followed, as on Linux.
const maxLinks = 40

// Target is the file that writing to path writes: path itself or, for a symbolic link, its target. A link whose
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

// realDir is the directory of path with links resolved: if l is a link, "l/../x" is not "x".
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
	st, err := stat(path)
	if err != nil {
		return nil, err
	}
	if st == nil || st.Mode().IsRegular() {
		return create(ctx, path, st)
	}
	f, err := ctxio.OpenFile(ctx, path, os.O_WRONLY, 0)
	if err != nil {
		return nil, fail(path, err)
	}
	return &File{File: f, out: ctxio.NewWriter(ctx, f), path: path, direct: true}, nil
}

// CreateRegular is Create for a file that is not written in order: a device or pipe is refused.
func CreateRegular(ctx context.Context, path string) (*File, error) {
	path = Target(path)
	st, err := stat(path)
	if err != nil {
		return nil, err
	}
	if st != nil && !st.Mode().IsRegular() {
		return nil, diag.New(CodeWrite, path, "is not a regular file, and this output is not written in order").WithHint("name a file, not a device or a pipe")
	}
	return create(ctx, path, st)
}

// stat describes the file that an output would replace, nil if there is none.
func stat(path string) (fs.FileInfo, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fail(path, err)
	case st.IsDir():
		return nil, diag.New(CodeWrite, path, "is a directory").WithHint("name a file in it")
	}
	return st, nil
}

// create begins a file that replaces one described by old, if it is not nil.
func create(ctx context.Context, path string, old fs.FileInfo) (*File, error) {
	f, temp, err := createTemp(filepath.Dir(path))
	if err != nil {
		return nil, fail(path, err)
	}
	out := &File{File: f, out: ctxio.NewWriter(ctx, f), path: path, temp: temp}
	if old != nil {
		if err := f.Chmod(old.Mode().Perm()); err != nil {
			out.Abort()
			return nil, fail(path, err)
		}
	}
	return out, nil
}

// Path is the final name.
func (f *File) Path() string { return f.path }

// Write ends with the context given to Create, and so do ReadFrom and WriteString; WriteAt is the file's own.
func (f *File) Write(b []byte) (int, error) { return f.out.Write(b) }

// WriteString writes s.
func (f *File) WriteString(s string) (int, error) { return f.out.Write([]byte(s)) }

// ReadFrom writes what it reads from r.
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
	defer f.Abort()
	if err := f.File.Sync(); err != nil {
		return fail(f.path, err)
	}
	// Nothing but a rename replaces a file, so one without a name takes a temporary one first.
	if f.temp == "" {
		temp, err := linkTemp(f.File, filepath.Dir(f.path))
		if err != nil {
			return fail(f.path, err)
		}
		f.temp = temp
	}
	if err := os.Rename(f.temp, f.path); err != nil {
		return fail(f.path, err)
	}
	f.done = true
	f.File.Close() // and with it the lock, which kept others from removing the temporary name
	// The rename is durable once the directory is. Some systems cannot sync a directory; the file is whole either way.
	if d, err := os.Open(filepath.Dir(f.path)); err == nil {
		_ = d.Sync()
		d.Close()
	}
	return nil
}

// Abort closes the file and removes it. After Commit it does nothing, so it can be deferred.
func (f *File) Abort() {
	if f.done {
		return
	}
	f.done = true
	if f.temp != "" {
		os.Remove(f.temp)
	}
	f.File.Close()
}

// WriteFile writes the file path by calling write. If write fails, an error with a code is returned unchanged, and the
// file is not touched. The name "-" has no special meaning here: commands that give it one do so themselves.
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
