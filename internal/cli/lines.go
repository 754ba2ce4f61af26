package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// ErrInterrupted is the error of Lines.Read for Ctrl-C at the prompt.
var ErrInterrupted = errors.New("Ctrl-C at the prompt")

// maxLine bounds a line in bytes.
const maxLine = 1 << 20

// Lines reads lines from standard input: with a prompt, editing and a history on a terminal, and as they are from a
// file or pipe.
type Lines struct {
	in, out *os.File // nil if there is no terminal
	editor  *term.Terminal
	keys    *keys
	plain   *bufio.Reader
}

// keys is the terminal's keyboard, which remembers Ctrl-C.
type keys struct {
	f     *os.File
	ctrlC int // how often it was pressed and not reported yet
}

func (k *keys) Read(p []byte) (int, error) {
	n, err := k.f.Read(p)
	k.ctrlC += bytes.Count(p[:n], []byte{3})
	return n, err
}

// Lines returns the lines of standard input. Prompts go to standard error.
func (e *Env) Lines(ctx context.Context) *Lines {
	l := &Lines{plain: bufio.NewReader(ctxio.NewReader(ctx, e.Stdin))}
	in, ok := e.Stdin.(*os.File)
	out, also := unprinted(e.Stderr).(*os.File)
	if ok && also && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd())) {
		l.in, l.out, l.keys = in, out, &keys{f: in}
		l.begin()
	}
	return l
}

// begin makes an editor with an empty line.
func (l *Lines) begin() {
	before := l.editor
	l.editor = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{l.keys, l.out}, "")
	if before != nil {
		l.editor.History = before.History
	}
}

// Terminal reports whether a person writes the lines.
func (l *Lines) Terminal() bool { return l.in != nil }

// Read returns the next line without its end. A line that ends with a backslash continues in the next. The error is
// io.EOF at the end (Ctrl-D), ErrInterrupted, or the cause of ctx.
func (l *Lines) Read(ctx context.Context, prompt string) (string, error) {
	var all strings.Builder
	for {
		line, err := l.one(ctx, prompt)
		if err == io.EOF && all.Len() > 0 {
			return all.String(), nil
		}
		if err != nil {
			return "", err
		}
		more := strings.HasSuffix(line, "\\")
		all.WriteString(strings.TrimSuffix(line, "\\"))
		if all.Len() > maxLine {
			return "", Usagef("", "a line has more than %d bytes", maxLine)
		}
		if !more {
			return all.String(), nil
		}
		all.WriteByte('\n')
		prompt = strings.Repeat(" ", max(0, len(prompt)-2)) + ". "
	}
}

func (l *Lines) one(ctx context.Context, prompt string) (line string, err error) {
	if l.in == nil {
		var b []byte
		for {
			part, err := l.plain.ReadSlice('\n')
			if b = append(b, part...); len(b) > maxLine {
				return "", Usagef("", "a line has more than %d bytes", maxLine)
			}
			switch {
			case err == bufio.ErrBufferFull:
				continue
			case ctx.Err() != nil:
				return "", context.Cause(ctx)
			case err == io.EOF && len(b) > 0:
				err = nil
			case err != nil && err != io.EOF:
				err = diag.New(diag.Usage, "stdin", "cannot be read: %w", err)
			}
			return strings.TrimRight(string(b), "\r\n"), err
		}
	}
	if l.keys.ctrlC > 0 {
		l.keys.ctrlC--
		return "", ErrInterrupted
	}
	old, err := term.MakeRaw(int(l.in.Fd()))
	if err != nil {
		return "", diag.New(diag.Usage, "terminal", "cannot be read key by key: %w", err)
	}
	defer term.Restore(int(l.in.Fd()), old)
	if w, h, err := term.GetSize(int(l.out.Fd())); err == nil && w > 0 {
		l.editor.SetSize(w, h)
	}
	l.editor.SetPrompt(prompt)
	line, err = ctxio.Do(ctx, "prompt", l.editor.ReadLine, nil)
	if err == term.ErrPasteIndicator {
		err = nil
	}
	if err == io.EOF && l.keys.ctrlC > 0 {
		l.keys.ctrlC--
		io.WriteString(l.out, "\r\n")
		l.begin()
		return "", ErrInterrupted
	}
	if err == io.EOF {
		io.WriteString(l.out, "\r\n")
	}
	return line, err
}
