//go:build linux || darwin

package rpc

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
)

// hangGuard is far longer than every deadline in these tests. Only a call that never returns reaches it.
const hangGuard = 5 * time.Minute

func testCertificate() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return base64.RawStdEncoding.EncodeToString(der)
}

// logBuffer collects the log of a session.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// testOptions are options that start the scripted backend in a mode. The test's weights are in the middle of the artifact.
func testOptions(t testing.TB, mode string) (Options, *logBuffer) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rlxtest") // t.TempDir is too long for a socket path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "weights")
	content := append(bytes.Repeat([]byte{0xAA}, weightsAt), testWeights()...)
	if err := os.WriteFile(file, append(content, 0xBB), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	return Options{Path: exe, Name: "ref", Artifact: f, Encode: encodeText, TempDir: dir,
		Env: []string{modeEnv + "=" + mode, "RLX_TEST_DIR=" + dir, "GOTRACEBACK=single"},
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, log
}

const weightsAt = 4096 + 256

func testLoad(p *program.Program) LoadOptions {
	return LoadOptions{Program: p, Weights: Weights{Offset: weightsAt, Size: 64}}
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
func wantCode(t testing.TB, err error, code diag.Code, parts ...string) {
	t.Helper()
	if !errors.Is(err, code) {
		c, _ := diag.CodeOf(err)
		t.Fatalf("got %q (%s); want an error of %s", err, c, code)
	}
	if want := code[3] == '5' && code != ErrPanicked && code != ErrRefused && code != ErrBusy; want != errors.Is(err, device.ErrLost) {
		t.Errorf("%q matches device.ErrLost: %v; want %v", err, !want, want)
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
	e, err := s.LoadMapped(ctx, testLoad(testProgram(t)))
	if err != nil {
		return nil, err
	}
	out, _, err := e.RunTensors(ctx, device.Run{Syms: map[string]int64{"N": int64(n)}}, [][]byte{testInput(n, 1)})
	if err != nil {
		return nil, err
	}
	return out[0], e.Close()
}
