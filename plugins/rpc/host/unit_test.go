//go:build linux || darwin

package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx/internal/campaign"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// FuzzLogLine checks that every log line is parsed without a panic and logged without control characters.
func FuzzLogLine(t *testing.F) {
	f := campaign.New(t)
	f.Add([]byte(`{"@message":1,"@level":[],"@timestamp":{}}`))
	f.Add([]byte(`{"@message":"hello","@level":"warn","n":1.5,"s":"x"}`))
	f.Add([]byte("panic: \x1b[31m"))
	f.Fuzz(func(t testing.TB, b []byte) {
		_, msg, attrs := parseLogLine(b)
		for _, a := range append(attrs, slog.String("", msg)) {
			if s := a.Key + a.Value.String(); strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
				t.Fatalf("%q", s)
			}
		}
	})
}

func TestLogLine(t *testing.T) {
	level, msg, attrs := parseLogLine([]byte(`{"@message":"loaded","@level":"warn","@timestamp":"x","n":1,"s":"a b"}`))
	if level != slog.LevelWarn || msg != "loaded" || fmt.Sprint(attrs) != "[n=1 s=a b]" {
		t.Errorf("%v %q %v", level, msg, attrs)
	}
	var out bytes.Buffer // parseLogLine must read what NewLogger writes
	l := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: wire.LogKeys}))
	l.Error("gone", "why", "x")
	if !json.Valid(out.Bytes()) {
		t.Fatal(out.String())
	}
	if level, msg, attrs = parseLogLine(out.Bytes()); level != slog.LevelError || msg != "gone" ||
		fmt.Sprint(attrs) != "[why=x]" {
		t.Errorf("%v %q %v", level, msg, attrs)
	}
}

// TestLogLimits checks the limits of the log with a fake clock.
func TestLogLimits(t *testing.T) {
	var out bytes.Buffer
	s := NewLogSink(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	now := time.Unix(0, 0)
	s.now = func() time.Time { return now }
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range 2 << 10 {
		s.line(line, "stderr")
	}
	if s.total != logRate || s.dropped != logRate {
		t.Errorf("passed %d and dropped %d of 2 MiB at once; want half of it each", s.total, s.dropped)
	}
	for range 80 { // 80 s at 1 MiB/s exceed the total
		now = now.Add(time.Second)
		for range 1 << 10 {
			s.line(line, "stderr")
		}
	}
	if s.total != logTotal {
		t.Errorf("passed %d in all; want %d", s.total, logTotal)
	}
	s.close()
	if !strings.Contains(out.String(), "bytes="+fmt.Sprint(logRate+(80<<20)-(logTotal-logRate))) {
		t.Errorf("the count of dropped bytes is wrong: %s", out.String()[max(0, out.Len()-200):])
	}
	// A line longer than the limit is truncated, and reading continues.
	s = NewLogSink(nil)
	s.drain(strings.NewReader(strings.Repeat("y", 3*logLine)+"\nlast\n"), "stderr")
	if s.lastOutput() != "last" || s.dropped != 2*logLine+1 {
		t.Errorf("last output %q, dropped %d", s.lastOutput(), s.dropped)
	}
}

// TestLastOutput checks that the first line of a crash report is found. The texts are those of Go 1.26 and of Rust's
// default panic hook.
func TestLastOutput(t *testing.T) {
	trace := strings.Repeat("goroutine 1 [running]:\nmain.main()\n\t/x/main.go:7 +0x1d\n", 1000) + "gs     0x0\n"
	for _, first := range []string{
		"panic: runtime error: index out of range [3] with length 3",
		"fatal error: all goroutines are asleep - deadlock!",
		"SIGSEGV: segmentation violation",
		"SIGABRT: abort",
		"thread '<unnamed>' panicked at 'Error in Queue::submit: parent device is lost', src/lib.rs:43:5",
	} {
		var shown bytes.Buffer
		s := NewLogSink(slog.New(slog.NewTextHandler(&shown, &slog.HandlerOptions{Level: slog.LevelWarn})))
		s.drain(strings.NewReader(strings.Repeat("opened the device\n", logTailLen/10)+first+"\n"+trace), "stderr")
		if got := s.lastOutput(); got != first {
			t.Errorf("after %q: %q", first, got)
		}
		if n := strings.Count(shown.String(), "\n"); n != logTrace || strings.Contains(shown.String(), "opened") {
			t.Errorf("after %q: %d lines are shown as errors; want %d", first, n, logTrace)
		}
	}
	s := NewLogSink(nil)
	s.drain(strings.NewReader("SIGNAL\nSIG: x\nSIGNED copy: done\nthe panic: none\nlast\n"), "stderr")
	if got := s.lastOutput(); got != "last" {
		t.Errorf("lines that only look like a panic's: %q", got)
	}
}

func TestPrivateDir(t *testing.T) {
	base, err := os.MkdirTemp("", "rlxtest")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	a, err := newPrivateDir(base)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(a.path)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Fatalf("%v, %v", st.Mode(), err)
	}
	// When another host starts, it keeps a directory in use, and removes one whose lock is free.
	os.WriteFile(filepath.Join(a.path, "sock"), nil, 0o600)
	b, err := newPrivateDir(base)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(a.path, "sock")); err != nil {
		t.Error("a directory in use was swept")
	}
	a.lock.Close()
	c, err := newPrivateDir(base)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(a.path); err == nil {
		t.Error("a stale directory was left")
	}
	b.remove()
	b.remove()
	c.remove()
	wantEmpty(t, base)
	// A root that others can write to must not be used.
	root := filepath.Dir(a.path)
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	d, err := newPrivateDir(base)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(d.path) == root {
		t.Error("a directory that others can write to was used")
	}
	d.remove()
	// Nor must a runtime directory.
	for mode, used := range map[os.FileMode]bool{0o700: true, 0o777: false} {
		runtime := filepath.Join(base, fmt.Sprintf("%o", mode))
		if err := errors.Join(os.Mkdir(runtime, 0o700), os.Chmod(runtime, mode)); err != nil {
			t.Fatal(err)
		}
		t.Setenv("XDG_RUNTIME_DIR", runtime)
		d, err := newPrivateDir("")
		if err != nil {
			t.Fatal(err)
		}
		if in := strings.HasPrefix(d.path, runtime); in != used {
			t.Errorf("a runtime directory of mode %o: %s", mode, d.path)
		}
		d.remove()
	}
	if _, err := newPrivateDir(filepath.Join(base, strings.Repeat("d", 10))); err == nil {
		t.Error("a base that does not exist was accepted")
	}
	long := filepath.Join(base, strings.Repeat("d", 60))
	os.Mkdir(long, 0o700)
	if _, err := newPrivateDir(long); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("a path too long for a socket: %v", err)
	}
}

// TestSquat checks that if the name of the directory is taken, sessions leave nothing behind, and remove what killed
// hosts have left.
func TestSquat(t *testing.T) {
	base, err := os.MkdirTemp("", "rlxtest")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	name := fmt.Sprintf("rlx-%d", os.Getuid())
	if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
		t.Fatal(err)
	}
	open := func() *privateDir {
		d, err := newPrivateDir(base)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(filepath.Dir(d.path)); err != nil || st.Mode().Perm() != 0o700 {
			t.Fatalf("%v, %v", st.Mode(), err)
		}
		return d
	}
	killed, alive := open(), open()
	killed.lock.Close()
	open().remove()
	if !isPrivate(alive.path) {
		t.Error("a directory in use was swept")
	}
	alive.remove()
	left, err := os.ReadDir(base)
	if err != nil || len(left) != 1 || left[0].Name() != name {
		t.Errorf("left %v, %v; want %s alone", left, err, name)
	}
}

// TestSpans compares the operations on spans with the same operations on a bit per byte.
func TestSpans(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var s spans
	var in [64]bool
	for range 2000 {
		from := rng.Int64N(64)
		to, add := from+rng.Int64N(65-from), rng.IntN(2) == 0
		if add {
			s = s.with(from, to)
		} else {
			s = s.without(from, to)
		}
		for i := from; i < to; i++ {
			in[i] = add
		}
		from, to = rng.Int64N(64), 64
		var got [64]bool
		for k, p := range s {
			if k > 0 && p.from < s[k-1].to {
				t.Fatalf("%v is not disjoint and in order", s)
			}
		}
		for _, p := range s.within(from, to) {
			for i := p.from; i < p.to; i++ {
				got[i] = true
			}
		}
		want := in
		clear(want[:from])
		if got != want {
			t.Fatalf("%v within [%d, %d): got %v; want %v", s, from, to, got, want)
		}
	}
}
