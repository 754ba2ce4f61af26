package main

import (
	"bytes"
	"os"
	"sync"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
)

const logProtocolHelp = "`FILE` write every message between rlxrun and the backend, with time, call, size and fields; for authors of backends"

// messageLog is the file of --log-protocol. Unlike other outputs it is written message by message, because it is most
// useful if the run fails. The backend starts before all inputs are known. So the first messages are kept until open
// has checked that the file is not an input.
type messageLog struct {
	path string

	mu    sync.Mutex
	early bytes.Buffer
	file  *os.File
	err   error // the first error of writing
}

// newMessageLog returns a log for a value of --log-protocol, or nil if it is empty.
func newMessageLog(path string) (*messageLog, error) {
	if path == "-" {
		return nil, cli.Usagef("--log-protocol -", "the messages cannot go to stdout").WithHint(
			"for example --log-protocol messages.txt")
	}
	if path == "" {
		return nil, nil
	}
	return &messageLog{path: path}, nil
}

// Write implements io.Writer. It never fails, so that a full disk does not end the run; close returns the error.
func (l *messageLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return l.early.Write(b)
	}
	if _, err := l.file.Write(b); err != nil && l.err == nil {
		l.err = err
	}
	return len(b), nil
}

// open creates the file. checkSinks has compared it with the inputs.
func (l *messageLog) open() error {
	if l == nil {
		return nil
	}
	if st, err := os.Stat(l.path); err == nil && !st.Mode().IsRegular() && st.Mode()&os.ModeCharDevice == 0 {
		return cli.Usagef("--log-protocol "+l.path, "is not a regular file")
	}
	f, err := os.Create(l.path)
	if err != nil {
		return l.failed(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = f
	_, l.err = l.early.WriteTo(f)
	return nil
}

// close closes the file. Nothing may be written afterwards.
func (l *messageLog) close() error {
	if l == nil || l.file == nil {
		return nil
	}
	if err := l.file.Close(); err != nil && l.err == nil {
		l.err = err
	}
	if l.err != nil {
		return l.failed(l.err)
	}
	return nil
}

func (l *messageLog) failed(err error) error {
	return diag.New(code.OfWrite(err), "--log-protocol "+l.path, "%w", unpath(err))
}
