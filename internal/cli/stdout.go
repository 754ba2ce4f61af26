package cli

import (
	"errors"
	"io"
	"io/fs"

	"github.com/rlx-go/rlx/core/diag"
)

// CodeStdout is reported where results cannot be written to standard output.
var CodeStdout = diag.Define("RLX2003", "standard output cannot be written", `
Standard output leads to a file on a full disk, or to something that was closed. What was printed so far is not complete.`)

// checked is standard output. It keeps the first error and returns it for every later write, so that a command may print
// line by line without looking at each result: Exec looks once, at the end.
type checked struct {
	w   io.Writer
	err error
}

func (c *checked) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.w.Write(p)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // "write /dev/stdout" says nothing that the subject does not
		}
		c.err = diag.New(CodeStdout, "standard output", "cannot be written: %w", err)
	}
	return n, c.err
}
