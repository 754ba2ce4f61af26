//go:build unix

package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/synth"
)

// hangGuard ends a test that would otherwise never end.
const hangGuard = 5 * time.Minute

// rlxc returns a command that runs this program in dir.
func rlxc(t *testing.T, dir string, stderr *bytes.Buffer, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0]) // TestMain makes it rlxc
	c.Args = append([]string{"rlxc"}, args...)
	c.Dir, c.Stderr = dir, stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(hangGuard, func() { c.Process.Kill() })
	t.Cleanup(func() { guard.Stop() })
	return c
}

func statusOf(err error) int {
	var e *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e) && e.Sys().(syscall.WaitStatus).Signaled():
		return -int(e.Sys().(syscall.WaitStatus).Signal())
	case errors.As(err, &e):
		return e.ExitCode()
	}
	return -1
}

// names lists the files of a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range es {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

// testModel makes a folder with a checkpoint and returns it with the artifact that the checkpoint compiles to.
func testModel(t *testing.T) (dir string, artifact []byte) {
	t.Helper()
	dir = t.TempDir()
	es, err := synth.ReadManifest(manifest)
	if err == nil {
		err = synth.Write(filepath.Join(dir, "tiny.safetensors"), es, dtype.F32)
	}
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	out := t.TempDir()
	if err := rlxc(t, dir, &stderr, "tiny.safetensors", "-o", filepath.Join(out, "x.rlx")).Wait(); err != nil {
		t.Fatal(err, stderr.String())
	}
	artifact, err = os.ReadFile(filepath.Join(out, "x.rlx"))
	if err != nil {
		t.Fatal(err)
	}
	return dir, artifact
}

// TestHangup is case "hangup" of the adversary: after SIGHUP, SIGTERM or SIGINT at any time, either the old or the new
// artifact is there, complete, and no temporary file.
func TestHangup(t *testing.T) {
	dir, artifact := testModel(t)
	path := filepath.Join(dir, "x.rlx")
	old := []byte("the old file")
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Now()
	var ignored bytes.Buffer
	if err := rlxc(t, dir, &ignored, "tiny.safetensors", "-o", "x.rlx", "-q").Wait(); err != nil {
		t.Fatal(err, ignored.String())
	}
	took := time.Since(start)
	stopped := 0
	for i := 0; i < 24 || stopped < 3 && i < 240; i++ { // a busy machine may need more to stop some
		sig := []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT}[i%3]
		if err := os.WriteFile(path, old, 0o644); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		c := rlxc(t, dir, &stderr, "tiny.safetensors", "-o", "x.rlx", "-q")
		time.Sleep(time.Duration(rng.Int64N(int64(took))))
		c.Process.Signal(sig) // an error means that the process has ended
		status := statusOf(c.Wait())
		got, err := os.ReadFile(path)
		switch {
		case err != nil:
			t.Error(err)
		case status == 128+int(sig) && bytes.Equal(got, old) && strings.Contains(stderr.String(), "RLX1002"):
			stopped++
		case status == -int(sig) && bytes.Equal(got, old): // the process had not begun to handle signals, nor to work
		case status != 0 || !bytes.Equal(got, artifact):
			t.Errorf("%v: status %d, an artifact of %d bytes; stderr %s", sig, status, len(got), &stderr)
		}
		if n := names(t, dir); n != "tiny.safetensors x.rlx" {
			t.Errorf("%v: the folder holds %s", sig, n)
		}
	}
	if stopped < 3 {
		t.Errorf("%d compiles were stopped; the test tests nothing", stopped)
	}
}

// TestBlocked is case "blocked" of the adversary: rlxc handles signals while it waits for the reader of a pipe, and
// refuses to write an artifact to a pipe.
func TestBlocked(t *testing.T) {
	dir, _ := testModel(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string
		status int // 0: it waits until it is stopped
		code   string
	}{
		{"tiny.safetensors -o pipe", 2, "RLX2020"},
		{"pipe -o x.rlx", 3, "RLX3010"},
		{"check pipe", 4, "RLX4001"},
		{"inspect pipe", 4, "RLX4001"},
		{"plan pipe", 4, "RLX4001"},
		{"tiny.safetensors -o x.rlx --dump in=pipe", 0, "RLX1002"},
		{"tiny.safetensors -o x.rlx --report pipe", 0, "RLX1002"},
	} {
		var stderr bytes.Buffer
		p := rlxc(t, dir, &stderr, strings.Fields(c.args)...)
		want := c.status
		if want == 0 {
			want = 128 + int(syscall.SIGTERM)
			time.Sleep(500 * time.Millisecond) // a signal before that would also work, but test less
			p.Process.Signal(syscall.SIGTERM)
		}
		if got := statusOf(p.Wait()); got != want || !strings.Contains(stderr.String(), c.code) {
			t.Errorf("rlxc %s: status %d, want %d; %s", c.args, got, want, &stderr)
		}
		if n := names(t, dir); n != "pipe tiny.safetensors" {
			t.Errorf("rlxc %s: the folder holds %s", c.args, n)
		}
	}
}

// TestNohup checks that rlxc ignores hangups if they were ignored when it started.
func TestNohup(t *testing.T) {
	dir, artifact := testModel(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "dump"), 0o600); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGHUP)
	var stderr bytes.Buffer
	c := rlxc(t, dir, &stderr, "tiny.safetensors", "-o", "x.rlx", "--dump", "in=dump") // waits for a reader
	signal.Reset(syscall.SIGHUP)
	time.Sleep(50 * time.Millisecond)
	c.Process.Signal(syscall.SIGHUP)
	if b, err := os.ReadFile(filepath.Join(dir, "dump")); err != nil || len(b) == 0 {
		t.Errorf("a dump of %d bytes, %v", len(b), err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v: %s", err, &stderr)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "x.rlx")); !bytes.Equal(got, artifact) {
		t.Errorf("an artifact of %d bytes, %v", len(got), err)
	}
}

// TestKilled checks that after SIGKILL at any time, either the old or the new artifact exists and is complete. The next
// compilation must remove all other files.
func TestKilled(t *testing.T) {
	dir, artifact := testModel(t)
	path := filepath.Join(dir, "x.rlx")
	rng := rand.New(rand.NewPCG(3, 4))
	for range 16 {
		os.Remove(path)
		c := rlxc(t, dir, new(bytes.Buffer), "tiny.safetensors", "-o", "x.rlx", "-q")
		time.Sleep(time.Duration(rng.IntN(120)) * time.Millisecond)
		c.Process.Kill()
		status := statusOf(c.Wait())
		if got, err := os.ReadFile(path); err == nil && !bytes.Equal(got, artifact) || err != nil && status == 0 {
			t.Errorf("status %d, an artifact of %d bytes, %v", status, len(got), err)
		}
	}
	if err := rlxc(t, dir, new(bytes.Buffer), "tiny.safetensors", "-o", "x.rlx", "-q").Wait(); err != nil {
		t.Error(err)
	}
	if n := names(t, dir); n != "tiny.safetensors x.rlx" {
		t.Errorf("the folder holds %s", n)
	}
	if v, err := format.Open(path, format.Policy{}); err != nil {
		t.Error(err)
	} else {
		v.Close()
	}
}
