// Package filelock locks open files against other processes. A lock ends when the file is closed, whatever happens to
// the process.
//
// The package imports nothing of this module.
package filelock

import "errors"

// ErrHeld is the error of Try for a file that another process, or another open file of this one, has locked. Other
// errors mean that the file system has no locks.
var ErrHeld = errors.New("another process has the lock")
