package wire

import (
	"errors"
	"os"
)

// NewRunChannel returns no channel, because a process here cannot inherit a socket. Runs are gRPC calls.
func NewRunChannel() (*RunChannel, *os.File, error) { return nil, nil, nil }

// OpenRunChannel returns an error: no host has such a channel here. What follows lets the file for all systems compile.
func OpenRunChannel(*os.File) (*RunChannel, error) { return nil, errors.ErrUnsupported }

func (*RunChannel) interrupt()   {}
func (*RunChannel) silent() bool { return false }
func (*RunChannel) wake() error  { return errors.ErrUnsupported }

func yieldThread() {}
