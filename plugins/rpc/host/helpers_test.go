//go:build linux || darwin

package host

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
)

func testLoad(p *program.Program) LoadOptions {
	return LoadOptions{Program: p, Weights: Weights{Offset: rpctest.WeightsAt, Size: 64}}
}

// start starts a backend and fails the test if that fails.
func start(t testing.TB, opts Options) *Session {
	t.Helper()
	s, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// wantCode checks an error's code and text, and that it matches device.ErrLost exactly if the code says so.
func wantCode(t testing.TB, err error, want diag.Code, parts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		c, _ := diag.CodeOf(err)
		t.Fatalf("got %q (%s); want an error of %s", err, c, want)
	}
	if lost := want[3] == '5' && want != code.Panicked && want != code.Refused &&
		want != code.Busy; lost != errors.Is(err, device.ErrLost) {
		t.Errorf("%q matches device.ErrLost: %v; want %v", err, !lost, lost)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q does not say %q", err, p)
		}
	}
	if strings.ContainsRune(err.Error(), 0x1b) {
		t.Errorf("%q has control characters", err)
	}
}

// wantGone checks that the session has left no process, zombie or socket.
func wantGone(t testing.TB, s *Session, opts Options) {
	t.Helper()
	if s != nil {
		if err := syscall.Kill(s.PID(), 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there (%v)", s.PID(), err)
		}
	}
	wantEmpty(t, opts.TempDir)
}

func wantEmpty(t testing.TB, base string) {
	t.Helper()
	left, _ := filepath.Glob(filepath.Join(base, "rlx-*", "*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// openFiles counts the open descriptors of this process.
func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}

// children lists the child processes of this process.
func children(t testing.TB) (pids []int) {
	t.Helper()
	dirs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, d := range dirs {
		b, err := os.ReadFile(d)
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if f[1] == strconv.Itoa(os.Getpid()) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(d)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// runOnce loads the test program and runs it on n rows.
func runOnce(ctx context.Context, t testing.TB, s *Session, n int) ([]byte, error) {
	t.Helper()
	e, err := s.LoadMapped(ctx, testLoad(rpctest.Program(t)))
	if err != nil {
		return nil, err
	}
	out, _, err := e.RunTensors(ctx, device.Run{Syms: map[string]int64{"N": int64(n)}}, [][]byte{rpctest.Input(n, 1)})
	if err != nil {
		return nil, err
	}
	return out[0], e.Close()
}

// testOptions are options that start the scripted backend in a mode.
func testOptions(t testing.TB, mode string) (Options, *rpctest.LogBuffer) {
	t.Helper()
	b, log := rpctest.NewScript(t, mode), &rpctest.LogBuffer{}
	return Options{Path: b.Path, Name: "ref", Artifact: b.Artifact, Encode: rpctest.Encode, TempDir: b.Dir, Env: b.Env,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, log
}
