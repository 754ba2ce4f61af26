//go:build linux || darwin

package rpctest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// HangGuard is far longer than every deadline in these tests. Only a call that never returns reaches it.
const HangGuard = 30 * time.Second

// Certificate returns a certificate as a handshake shows it.
func Certificate() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return base64.RawStdEncoding.EncodeToString(der)
}

// LogBuffer collects the log of a session.
type LogBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *LogBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Grow makes room for n bytes.
func (l *LogBuffer) Grow(n int) { l.b.Grow(n) }

func (l *LogBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A script is a scripted backend to start: the running test binary, in a mode.
type script struct {
	Path     string
	Dir      string   // a new directory with a short path, for Options.TempDir
	Artifact *os.File // has the test's weights at weightsAt
	Env      []string
}

// NewScript prepares a scripted backend.
func NewScript(t testing.TB, mode string) script {
	t.Helper()
	dir, err := os.MkdirTemp("", "rlxtest") // t.TempDir is too long for a socket path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "weights")
	content := append(bytes.Repeat([]byte{0xAA}, WeightsAt), Weights()...)
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
	return script{exe, dir, f, []string{ModeEnv + "=" + mode, "RLX_TEST_DIR=" + dir, "GOTRACEBACK=single"}}
}

// WeightsAt is the offset of the test's weights in the artifact, in bytes.
const WeightsAt = 4096 + 256
