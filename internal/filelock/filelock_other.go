//go:build !unix && !windows

package filelock

import (
	"errors"
	"os"
)

// Try returns an error: this system has no locks.
func Try(*os.File) error { return errors.ErrUnsupported }
