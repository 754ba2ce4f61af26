//go:build !linux && !darwin

package rpc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/rlx-go/rlx/core/diag"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// Backends need unix sockets, inherited descriptors and process groups. On systems without them the host still builds, and Start returns
// an error. The rest of this file declares what the files for all systems need.

const haveShared = false

// Start reports that this system cannot run backends.
func Start(_ context.Context, opts Options) (*Session, error) {
	return nil, lost(ErrPlatform, "backend "+opts.backendName(), "cannot be started on %s", runtime.GOOS)
}

// Behave reports that this system cannot run backends.
func Behave(ctx context.Context, opts Options, _ *Sample, _ string, _ func(string, error)) error {
	_, err := Start(ctx, opts)
	return err
}

// Serve reports that this system cannot run backends and exits.
func Serve(cfg ServeConfig) {
	fmt.Fprintf(os.Stderr, "%s: backends cannot run on %s\n", cfg.Name, runtime.GOOS)
	os.Exit(1)
}

type backendRunner struct{}

func (*backendRunner) drainErrors()            {}
func (*backendRunner) tlsFailure() *diag.Error { return nil }

type privateDir struct{}

func (*privateDir) remove() {}

const (
	wordBeat = iota
	wordGeneration
	wordSteps
)

type region struct {
	data  []byte
	dirty spans
}

func (*region) load(int) int64   { return 0 }
func (*region) grow(int64) error { return os.ErrInvalid }
func (*region) close()           {}

type runChannel struct{}

func (*runChannel) close()                      {}
func (*runChannel) send(*rlxv1.RunHeader) error { return os.ErrInvalid }
func (*runChannel) receive(context.Context, time.Duration) (*rlxv1.Done, error) {
	return nil, os.ErrInvalid
}

type process struct {
	cmd    *exec.Cmd
	pid    int
	exited chan struct{}
}

func (*process) kill()          {}
func (*process) terminate()     {}
func (*process) ending() string { return "" }
func (*process) peakRSS() int64 { return 0 }

// OwnPeakRSS is not known on this system.
func OwnPeakRSS() int64 { return 0 }
