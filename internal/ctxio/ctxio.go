// Package ctxio opens, reads and writes files that may block a program forever: a named pipe whose other end nobody
// opens, a terminal, a pipe whose reader or writer is silent. Here every call ends when its context does.
//
// Neither a deadline nor a handled signal ends a system call in progress. So each call runs on its own goroutine, which
// is abandoned if the context ends first. The goroutine uses its own buffer, and closes a file that it opens too late.
// This suits commands, which exit soon after; a server would accumulate such goroutines.
//
// The package imports nothing of this module.
package ctxio

import (
	"context"
	"io"
	"io/fs"
	"os"
)

// chunk bounds the buffer of a goroutine, in bytes.
const chunk = 64 << 10

// Open is os.Open. It waits for the writer of a named pipe; if ctx ends first, it returns the cause of ctx.
func Open(ctx context.Context, path string) (*os.File, error) {
	return OpenFile(ctx, path, os.O_RDONLY, 0)
}

// OpenFile is os.OpenFile. If ctx ends first, it returns the cause of ctx.
func OpenFile(ctx context.Context, path string, flag int, perm fs.FileMode) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	opened := make(chan result)
	go func() {
		f, err := os.OpenFile(path, flag, perm)
		select {
		case opened <- result{f, err}:
		case <-ctx.Done():
			if err == nil {
				f.Close()
			}
		}
	}()
	select {
	case r := <-opened:
		return r.f, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// NewReader returns a reader for r. Once ctx ends, Read returns its cause, and r must not be used again.
func NewReader(ctx context.Context, r io.Reader) io.Reader {
	if isRegular(r) {
		return &direct{ctx: ctx, r: r}
	}
	return &apart{ctx: ctx, call: r.Read, in: true}
}

// NewWriter returns a writer for w. Once ctx ends, Write returns its cause, and w must not be used again.
func NewWriter(ctx context.Context, w io.Writer) io.Writer {
	if isRegular(w) {
		return &direct{ctx: ctx, w: w}
	}
	return &apart{ctx: ctx, call: w.Write}
}

func isRegular(v any) bool {
	f, ok := v.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode().IsRegular()
}

// direct calls the file directly and checks the context between calls.
type direct struct {
	ctx context.Context
	r   io.Reader
	w   io.Writer
}

func (d *direct) Read(p []byte) (int, error) {
	if d.ctx.Err() != nil {
		return 0, context.Cause(d.ctx)
	}
	return d.r.Read(p)
}

func (d *direct) Write(p []byte) (int, error) {
	if d.ctx.Err() != nil {
		return 0, context.Cause(d.ctx)
	}
	return d.w.Write(p)
}

// apart makes each call on a separate goroutine.
type apart struct {
	ctx  context.Context
	call func([]byte) (int, error)
	in   bool   // whether call reads
	buf  []byte // used only by the call, which may still run after Read or Write has returned
}

func (a *apart) Read(p []byte) (int, error) { return a.once(p[:min(len(p), chunk)]) }

func (a *apart) Write(p []byte) (done int, err error) {
	for {
		part := p[done:min(len(p), done+chunk)]
		n, err := a.once(part)
		if done += n; err != nil || done == len(p) {
			return done, err
		}
		if n < len(part) {
			return done, io.ErrShortWrite
		}
	}
}

func (a *apart) once(p []byte) (int, error) {
	if a.ctx.Err() != nil {
		return 0, context.Cause(a.ctx)
	}
	if cap(a.buf) < len(p) {
		a.buf = make([]byte, len(p))
	}
	buf := a.buf[:len(p)]
	if !a.in {
		copy(buf, p)
	}
	type result struct {
		n   int
		err error
	}
	ended := make(chan result, 1)
	go func() {
		n, err := a.call(buf)
		ended <- result{n, err}
	}()
	select {
	case r := <-ended:
		if a.in {
			copy(p, buf[:max(r.n, 0)])
		}
		return r.n, r.err
	case <-a.ctx.Done():
		return 0, context.Cause(a.ctx)
	}
}
