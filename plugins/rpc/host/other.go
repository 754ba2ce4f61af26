//go:build !linux && !darwin && !windows

package host

import (
	"context"
	"io/fs"
	"os/exec"
	"runtime"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// Backends need unix sockets, inherited descriptors and process groups. On systems without them the host still builds,
// and Start returns an error. The rest of this file declares what the files for all systems need.

// Start reports that this system cannot run backends.
func Start(_ context.Context, opts Options) (*Session, error) {
	return nil, lost(code.Platform, "backend "+opts.backendName(), "cannot be started on %s", runtime.GOOS)
}

// MayExecute is false: no file can be a backend here.
func MayExecute(fs.FileInfo) bool { return false }

type backendRunner struct{}

func (*backendRunner) drainErrors()            {}
func (*backendRunner) tlsFailure() *diag.Error { return nil }

type privateDir struct{}

func (*privateDir) remove() {}

type process struct {
	cmd    *exec.Cmd
	pid    int
	exited chan struct{}
}

func (*process) kill()          {}
func (*process) terminate()     {}
func (*process) ending() string { return "" }
func (*process) peakRSS() int64 { return 0 }
