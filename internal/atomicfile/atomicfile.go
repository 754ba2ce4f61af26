// Package atomicfile writes files that are either complete or do not exist. The bytes go to a temporary file in the
// same directory, which gets the final name only when it is complete and on disk. Readers that have the old file open
// or mapped keep it.
//
// A process that is killed cannot remove its temporary file. On Linux, where the file system supports that, the file
// has no name until it is complete, so the kernel removes it. Otherwise it is called .rlx-RANDOM.tmp and locked while
// it is written. The next process that writes to the directory removes such files that nobody has locked.
//
// The package imports only core/diag, internal/ctxio and internal/filelock.
package atomicfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// File is a file that is being written. It embeds an *os.File, so WriteAt and Seek work. Call Commit or Abort instead
// of Close.
type File struct {
	*os.File
	out    io.Writer // File, with writes that end with the context
	path   string    // the final name
	temp   string    // the temporary name, or "" if there is none
	direct bool      // a device or pipe, which cannot be replaced and is written in place
	done   bool
}

// maxLinks is the maximum number of symbolic links that are followed in a row, as on Linux.
const maxLinks = 40

// Target returns the file that writing to path would write: path itself or, if that is a symbolic link, its target. The
// target of a link need not exist yet, as for a shell's redirection.
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

// realDir returns the directory of path with links resolved: if l is a link, "l/../x" is not "x".
func realDir(path string) string {
	dir := filepath.Dir(path)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// Create starts a file that will be called path or, if that is a symbolic link, Target(path); the link stays. The file
// gets the permissions of the file that it replaces, otherwise 0666 minus the umask. A device or pipe (/dev/null, a
// named pipe) is written directly. ctx ends opening and writing. Errors are
// *diag.Error with code.Output.
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

// CreateRegular is like Create, but refuses a device or pipe. Use it for files that are not written sequentially.
func CreateRegular(ctx context.Context, path string) (*File, error) {
	path = Target(path)
	st, err := stat(path)
	if err != nil {
		return nil, err
	}
	if st != nil && !st.Mode().IsRegular() {
		return nil,
			diag.New(code.Output, path, "is not a regular file, and this output is not written in order").WithHint(
				"name a file, not a device or a pipe")
	}
	return create(ctx, path, st)
}

// stat returns the file that an output would replace, or nil if there is no such file.
func stat(path string) (fs.FileInfo, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fail(path, err)
	case st.IsDir():
		return nil, diag.New(code.Output, path, "is a directory").WithHint("name a file in it")
	}
	return st, nil
}

// create starts a file that replaces the file described by old, or a new file if old is nil.
func create(ctx context.Context, path string, old fs.FileInfo) (*File, error) {
	dir := filepath.Dir(path)
	f, temp, err := createTemp(dir)
	if err != nil {
		return nil, CreateError(path, err)
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

// Path returns the final name.
func (f *File) Path() string { return f.path }

// Write writes b. Like ReadFrom and WriteString, it ends with the context given to Create. WriteAt does not.
func (f *File) Write(b []byte) (int, error) { return f.out.Write(b) }

// WriteString writes s.
func (f *File) WriteString(s string) (int, error) { return f.out.Write([]byte(s)) }

// ReadFrom copies r to the file.
func (f *File) ReadFrom(r io.Reader) (int64, error) { return io.Copy(f.out, r) }

// Commit flushes the file to disk and gives it its final name. If that fails, it removes the temporary file, and the
// old file is unchanged.
func (f *File) Commit() error { return f.commit(false) }

// CommitSynced is like Commit, for a file that was synced after its last change.
func (f *File) CommitSynced() error { return f.commit(true) }

func (f *File) commit(synced bool) error {
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
	if !synced {
		if err := f.File.Sync(); err != nil {
			return fail(f.path, err)
		}
	}
	// Only a rename can replace a file, so a file without a name gets a temporary name first.
	if f.temp == "" {
		temp, err := linkTemp(f.File, filepath.Dir(f.path))
		if err != nil {
			return fail(f.path, err)
		}
		f.temp = temp
	}
	if err := replace(f.File, f.temp, f.path); err != nil {
		return fail(f.path, err)
	}
	f.done = true
	f.File.Close() // this also releases the lock, which kept others from removing the temporary file
	// The rename is durable only once the directory is synced. Some systems cannot sync a directory; the file is
	// complete either way.
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
	f.File.Close() // first, because some systems cannot remove a file that is open
	if f.temp != "" {
		os.Remove(f.temp)
	}
}

// WriteFile writes the file path by calling write. If write returns an error with a code, WriteFile returns it
// unchanged, and the old file is unchanged. The name "-" has no special meaning here; commands that give it one handle
// it themselves.
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

// CreateError returns the error for a file that cannot be created, such as one in a folder that does not exist.
func CreateError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return diag.New(code.OfWrite(err), path, "cannot be written: there is no folder %s",
			filepath.Dir(path)).WithHint("make it first, or name another")
	}
	return fail(path, err)
}

func fail(path string, err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		err = pe.Err // the subject already names the path
	case errors.As(err, &le):
		err = le.Err
	}
	return diag.New(code.OfWrite(err), path, "cannot be written: %w", err)
}

// Fits returns an error if a new file of size bytes at path would not fit the file system. Without the check, a large
// file would first fill the disk.
func Fits(path string, size int64) error {
	if free, ok := freeSpace(Target(path)); ok && size > free {
		return diag.New(code.DiskFull, path, "would have %d bytes; the file system has %d left", size, free)
	}
	return nil
}
