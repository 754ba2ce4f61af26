//go:build linux || darwin

package server

import (
	"os"
	"syscall"
)

// endGroup kills this process and all processes that it started. If this process does not lead its group, only this
// process ends.
func endGroup() {
	if syscall.Getpgrp() == os.Getpid() {
		syscall.Kill(0, syscall.SIGKILL)
	}
	os.Exit(1)
}
