package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// checked is standard output. It keeps the first error and returns it from every later write. So commands can print
// lines without checking errors: Exec checks once, at the end.
type checked struct {
	to  io.Writer // standard output itself
	w   io.Writer // to, with writes that end with a context
	err error
}

// newChecked returns the standard output of a command that runs in ctx.
func newChecked(ctx context.Context, to io.Writer) *checked {
	return &checked{to: to, w: ctxio.NewWriter(ctx, to)}
}

// Until makes writes to standard output end with ctx, because the reader of a pipe may block forever. It is for
// commands with a deadline. ctx must be derived from the command's context.
func (e *Env) Until(ctx context.Context) {
	if c, ok := unprinted(e.Stdout).(*checked); ok {
		c.w = ctxio.NewWriter(ctx, c.to)
	}
}

// Into returns a copy of e with another standard output, for a command that runs another. It is not a terminal.
func (e *Env) Into(ctx context.Context, w io.Writer) *Env {
	c := *e
	c.Stdout = &printer{w: newChecked(ctx, w)}
	return &c
}

// OneStream reports whether standard output and standard error are the same file, such as a pipe: `2>&1 | less`. A
// reader then sees the text of both mixed.
func (e *Env) OneStream() bool {
	out := unprinted(e.Stdout)
	if c, ok := out.(*checked); ok {
		out = c.to
	}
	a, isFile := out.(*os.File)
	b, alsoFile := unprinted(e.Stderr).(*os.File)
	if !isFile || !alsoFile {
		return false
	}
	x, err := a.Stat()
	y, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(x, y)
}

func (c *checked) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.w.Write(p)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // "write /dev/stdout" adds nothing to the subject
		}
		of := code.Stdout
		if code.OfWrite(err) == code.DiskFull {
			of = code.DiskFull
		}
		c.err = diag.New(of, "standard output", "cannot be written: %w", err)
	}
	return n, c.err
}
