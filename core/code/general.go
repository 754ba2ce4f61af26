package code

import (
	"errors"
	"syscall"

	"github.com/rlx-go/rlx/core/diag"
)

// OfWrite returns the code of an output that cannot be written because of err: DiskFull or Output.
func OfWrite(err error) diag.Code {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return DiskFull
	}
	return Output
}

// Texts of the codes that package diag names.
var (
	_ = diag.Define(diag.Usage, "wrong usage", `
The command does not accept a flag, argument or value on the command line. The message names it and says what is allowed.`)
	_ = diag.Define(diag.Interrupted, "interrupted", `
Ctrl-C or a termination signal stopped the run. Nothing was written.`)
	_ = diag.Define(diag.Internal, "internal error", `
The program reached a state that should be impossible. This is a bug: please report the message and the command.`)
	_ = diag.Define(diag.Timeout, "timeout", `
The run took longer than --timeout allows. The backend was stopped and nothing was written.`)
)

// Codes of the commands' outputs, and of the machine.
var (
	Output = diag.Define("RLX2020", "output cannot be written", `
The directory of the output does not exist or is not writable. An older file of that name is unchanged.`)
	DiskFull = diag.Define("RLX8002", "disk full", `
The file system of an output, or of a temporary file, has no room for it, or your quota is used up. An older file of that name is
unchanged. Remove files, or name an output on another file system.`)
	Stdout = diag.Define("RLX2003", "standard output cannot be written", `
Standard output goes to something that was closed. What was printed so far is incomplete.`)
	Machine = diag.Define("RLX9002", "this kind of machine is not supported", `
Artifacts and tensors are little-endian and are mapped without a copy. A big-endian machine would read every number wrongly, so the
commands refuse to start there.`)
)
