// Package protocoltest checks how a backend keeps to the protocol (spec/protocol.md) where hosts do not test it:
// invalid requests, heartbeats and exits. Package core/devicetest checks what a backend computes.
package protocoltest

import (
	"errors"

	"github.com/rlx-go/rlx/core/program"
)

// Errors that Run reports for a check that did not run.
var (
	// ErrNotServed means that the backend lacks an optional feature, or claims no op with which the check could be
	// made.
	ErrNotServed = errors.New("the backend does not support it")
	// ErrSkipped means that there is no program to check with.
	ErrSkipped = errors.New("not checked")
)

// A Sample is a program with which Run makes its checks. The backend must be able to run it.
type Sample struct {
	Program *program.Program // without states
	Weights []byte
	Inputs  [][]byte // for the largest sizes, in the order of the program's inputs
	// Equal is a program with the same weights that requires its symbols N and M to be equal. Param is a program with
	// params, and ParamWeights its weights. Either may be nil.
	Equal, Param *program.Program
	ParamWeights []byte
}
