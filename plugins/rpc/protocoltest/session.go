//go:build linux || darwin || windows

package protocoltest

import (
	"context"
	"fmt"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/rpc/host"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// A session is a running backend, and the means to send it anything.
type session struct {
	*host.Session
	host.Raw
	api    rlxv1.BackendClient
	limits host.Timeouts
	param  *executable // loaded by the first check of SetWeights
}

// begin starts a backend.
func begin(ctx context.Context, opts host.Options) (*session, error) {
	s, err := host.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	raw := s.Raw()
	return &session{Session: s, Raw: raw, api: rlxv1.NewBackendClient(raw.Conn), limits: opts.Timeouts}, nil
}

// ioSize returns the size of the shared region's data in bytes, 0 if there is none.
func (s *session) ioSize() int64 {
	if s.Region == nil {
		return 0
	}
	return int64(len(s.Region.Data))
}

// gone waits at most d for the backend to end, and reports whether it has ended.
func gone(s *session, d time.Duration) bool {
	select {
	case <-s.Done():
		return true
	case <-time.After(d):
		return false
	}
}

// An executable is a program that the backend has loaded.
type executable struct {
	*host.Executable
	prog *program.Program
}

// load loads a valid program.
func (s *session) load(ctx context.Context, p *program.Program, weights []byte) (*executable, error) {
	e, err := s.Load(ctx, device.Load{Program: p, Weights: weights})
	if err != nil {
		return nil, fmt.Errorf("loading a valid program: %w", err)
	}
	return &executable{e.(*host.Executable), p}, nil
}
