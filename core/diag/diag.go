// Package diag defines the error type that users see. An error has a stable code (`rlxc explain CODE`), its subject,
// what was found, and how to fix it. The first digit of a code is the exit status of the command that reports it.
//
// Package diag imports nothing of this module.
package diag

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Code is a stable error code such as RLX4008. Codes are never reused.
//
//	RLX1nnn  a check failed              exit 1
//	RLX2nnn  usage                       exit 2
//	RLX3nnn  bad source or input file    exit 3
//	RLX4nnn  artifact corrupt or incompatible; nnn is the number of the verifier's check     exit 4
//	RLX5nnn  backend unknown, missing, refused or crashed    exit 5
//	RLX6nnn  device                      exit 6
//	RLX7nnn  unsupported op              exit 7
//	RLX8nnn  memory                      exit 8
//	RLX9nnn  internal                    exit 70
//
// RLX5202 (--timeout expired) is an exception. It exits with 124, like timeout(1), because no backend failed.
type Code string

// Exit is the exit status that the code stands for.
func (c Code) Exit() int {
	if c == Timeout {
		return exitTimeout
	}
	if len(c) == 7 && strings.HasPrefix(string(c), "RLX") && c[3] >= '1' && c[3] <= '8' {
		return int(c[3] - '0')
	}
	return exitInternal
}

const (
	exitInternal = 70
	exitTimeout  = 124
)

// Entry is the explanation of one code.
type Entry struct {
	Code  Code
	Title string // one line, lower case
	Text  string // meaning and remedy, for `rlxc explain`
}

var registry = map[Code]Entry{}

// Define registers a code with its explanation and returns it. Only package core/code calls it, so that a program can
// explain every code, not only those of the packages that it links.
func Define(code Code, title, text string) Code {
	if _, dup := registry[code]; dup || len(code) != 7 {
		panic("BUG: diag code " + string(code) + " is malformed or defined twice")
	}
	registry[code] = Entry{code, title, strings.TrimSpace(text)}
	return code
}

// Entries lists every code of the running program in order.
func Entries() []Entry {
	out := make([]Entry, 0, len(registry))
	for _, e := range registry {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(string(a.Code), string(b.Code)) })
	return out
}

// Lookup finds the explanation of a code.
func Lookup(code Code) (Entry, bool) {
	e, ok := registry[code]
	return e, ok
}

// Error is an error with a stable code.
type Error struct {
	Code    Code
	Subject string // the op, file, flag or backend it is about; may be empty
	Msg     string // what was found and what is allowed
	Hint    string // how to fix it; may be empty
	// More has lines with further facts, such as the evidence for each of many candidates. Error leaves them out; the
	// commands print them with --verbose and in JSON.
	More []string
	Err  error // cause; may be nil

	// Options are the options of the Go API that the text names, such as "Options.Device". Commands put their flags in
	// place of them.
	Options []string
}

// New makes an error. The format and its arguments say what was found and what is allowed; a %w verb wraps a cause.
func New(code Code, subject, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Code: code, Subject: subject, Msg: wrapped.Error(), Err: errors.Unwrap(wrapped)}
}

// WithHint adds how to fix it.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Naming records options of the Go API that the error's text names, word for word.
func (e *Error) Naming(options ...string) *Error {
	e.Options = append(e.Options, options...)
	return e
}

// Rename replaces each option in the text by the result of name for it.
func (e *Error) Rename(name func(option string) string) {
	e.Options = slices.Clone(e.Options) // copies of the error share them
	for i, o := range e.Options {
		n := name(o)
		for _, text := range []*string{&e.Subject, &e.Msg, &e.Hint} {
			*text = strings.ReplaceAll(*text, o, n)
		}
		e.Options[i] = n
	}
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Subject != "" {
		b.WriteString(e.Subject + ": ")
	}
	b.WriteString(e.Msg)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, code) work. A Code is an error that matches every Error with that code. A Class matches every
// Error whose code has that class.
func (e *Error) Is(target error) bool {
	switch t := target.(type) {
	case Code:
		return t == e.Code
	case Class:
		return t.Has(e.Code)
	}
	return false
}

// A Class is the set of codes with the same first digit: Class(4) is RLX4nnn.
type Class int

// Has reports whether a code belongs to the class.
func (c Class) Has(code Code) bool {
	return strings.HasPrefix(string(code), fmt.Sprintf("RLX%d", int(c)))
}

func (c Class) Error() string { return fmt.Sprintf("RLX%dnnn", int(c)) }

func (c Code) Error() string {
	if e, ok := registry[c]; ok {
		return string(c) + " " + e.Title
	}
	return string(c)
}

// CodeOf returns the code of the first Error in the chain. ok is false if the chain has no Error.
func CodeOf(err error) (code Code, ok bool) {
	var e *Error
	if errors.As(err, &e) {
		return e.Code, true
	}
	if errors.As(err, &code) {
		return code, true
	}
	return "", false
}

// ExitCode is the exit status for err: 0 for nil, 70 for an error without a code.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if c, ok := CodeOf(err); ok {
		return c.Exit()
	}
	return exitInternal
}

// Codes that any package may report, or that this package knows. Like all others, they have their texts in core/code.
const (
	Usage       Code = "RLX2001" // a mistake in a command line or a request
	Internal    Code = "RLX9001" // a bug in RLX
	Interrupted Code = "RLX1002" // the user stopped the run
	Timeout     Code = "RLX5202" // the run took longer than the user allowed
)
