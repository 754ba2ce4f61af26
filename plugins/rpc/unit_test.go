//go:build linux || darwin

package rpc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/internal/campaign"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

func TestHandshake(t *testing.T) {
	cert := testCertificate()
	good := "1|2|unix|/run/d/plugin-dir1/s|grpc|" + cert
	h, err := parseHandshake(good+"\n", "/run/d", []int{Version})
	if err != nil || h.socket != "/run/d/plugin-dir1/s" || h.version != Version || h.line() != "1|2|unix|/run/d/plugin-dir1/s|grpc\n" {
		t.Fatalf("%+v %v", h, err)
	}
	for _, bad := range []string{
		"", "|", "1|2|unix|/run/d/s|grpc", good + "|true", strings.Replace(good, "1|2", "2|2", 1), strings.Replace(good, "1|2", "1|x", 1),
		strings.Replace(good, "1|2", "1|3", 1), strings.Replace(good, "unix", "tcp", 1), strings.Replace(good, "unix|/", "unix|", 1),
		"1|2|unix|/run/d|grpc|" + cert, "1|2|unix|/run/d/../e/s|grpc|" + cert, "1|2|unix|/run/d/./s|grpc|" + cert,
		"1|2|unix|/run/dd/s|grpc|" + cert, "1|2|unix|/run/d/s|netrpc|" + cert, "1|2|unix|/run/d/s|grpc|",
		"1|2|unix|/run/d/s|grpc|" + cert[:60], "1|2|unix|/run/d/s|grpc|" + strings.Repeat("A", 60), good + strings.Repeat(" ", maxLine),
	} {
		if _, err := parseHandshake(bad, "/run/d", []int{Version}); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

// FuzzHandshake checks that the socket of an accepted handshake is in the directory, and that formatting and parsing the handshake again
// does not change it.
func FuzzHandshake(t *testing.F) {
	f := campaign.New(t)
	cert := testCertificate()
	f.Add("1|2|unix|/run/d/plugin-dir1/s|grpc|" + cert)
	f.Add("1|2|tcp|127.0.0.1:80|grpc|" + cert)
	f.Add("hello")
	f.Fuzz(func(t testing.TB, line string) {
		h, err := parseHandshake(line, "/run/d", []int{Version})
		if err != nil {
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
				t.Fatalf("%q has control characters", err)
			}
			return
		}
		if !strings.HasPrefix(h.socket, "/run/d/") || strings.Contains(h.socket, "..") && filepath.Clean(h.socket) != h.socket {
			t.Fatalf("socket %q", h.socket)
		}
		again, err := parseHandshake(strings.TrimSpace(h.line())+"|"+base64.RawStdEncoding.EncodeToString(h.cert), "/run/d", []int{Version})
		if err != nil || again.socket != h.socket || again.version != h.version || !bytes.Equal(again.cert, h.cert) {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
	})
}

func TestErrorsOnTheWire(t *testing.T) {
	in := diag.New(device.ErrUnsupported, "softmax", "axis %d of rank %d", 3, 2).WithHint("use axis 1")
	st, _ := status.FromError(toWire(fmt.Errorf("loading: %w", in), &StepError{Step: 7, Op: "softmax"}))
	out, ok := fromWire(st, "backend cpu")
	var step *StepError
	if !ok || !errors.Is(out, device.ErrUnsupported) || !errors.As(out, &step) || step.Step != 7 || step.Op != "softmax" ||
		out.Error() != "backend cpu: softmax: axis 3 of rank 2; use axis 1" || st.Code() != codes.Unimplemented {
		t.Fatalf("%v %v %v", out, step, st.Code())
	}
	if errors.Is(out, device.ErrLost) {
		t.Error("an error of a call is not the loss of the backend")
	}
	st, _ = status.FromError(toWire(context.Canceled, nil))
	if out, ok := fromWire(st, "b"); !ok || !errors.Is(out, diag.Interrupted) {
		t.Errorf("cancelled: %v", out)
	}
	// Codes that a backend may not send.
	for _, code := range []string{"RLX4007", "RLX2001", "RLX5001", "RLX5106", "RLX9999", "RLX600", "RLX6OO1", "", "RLX60011"} {
		st, err := status.New(codes.Internal, "x").WithDetails(&rlxv1.Error{Code: code, Message: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := fromWire(st, "b"); ok {
			t.Errorf("code %q became %v", code, e)
		}
	}
}

// FuzzWireError checks that any detail that a backend sends with a status becomes printable text of limited length and an allowed code.
func FuzzWireError(t *testing.F) {
	f := campaign.New(t)
	for _, e := range []*rlxv1.Error{{Code: "RLX7001", Subject: "softmax", Message: "axis", Hint: "h", Step: 3, Op: "o"}, {Code: "RLX4001"}, {Message: "\x1b[2J"}} {
		b, err := proto.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t testing.TB, b []byte) {
		w := &rlxv1.Error{}
		if proto.Unmarshal(b, w) != nil {
			return
		}
		st, err := status.New(codes.Internal, "x").WithDetails(w)
		if err != nil {
			return
		}
		e, ok := fromWire(st, "backend b")
		if !ok {
			return
		}
		text := e.Error()
		var step *StepError
		if errors.As(e, &step) {
			text += step.Error()
		}
		if len(text) > 5*maxErrorText || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e }) ||
			!allowedCode(e.Code) {
			t.Fatalf("%q", text)
		}
	})
}

func FuzzInfo(t *testing.F) {
	f := campaign.New(t)
	b, _ := proto.Marshal(infoToWire(device.Info{Name: "cpu", Target: &target.Description{Name: "cpu", Version: "1", Types: dtype.All()}, Precisions: []string{"f32", "bf16"}, Devices: []device.Device{{ID: "0", Memory: 1}}}))
	f.Add(b)
	f.Fuzz(func(t testing.TB, b []byte) {
		r := &rlxv1.InfoReply{}
		if proto.Unmarshal(b, r) != nil {
			return
		}
		info, err := infoFromWire(r)
		if err != nil {
			return
		}
		again, err := infoFromWire(infoToWire(info))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(info) {
			t.Fatalf("%v became %v, %v", info, again, err)
		}
	})
}

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
	l := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: logKeys}))
	l.Error("gone", "why", "x")
	if !json.Valid(out.Bytes()) {
		t.Fatal(out.String())
	}
	if level, msg, attrs = parseLogLine(out.Bytes()); level != slog.LevelError || msg != "gone" || fmt.Sprint(attrs) != "[why=x]" {
		t.Errorf("%v %q %v", level, msg, attrs)
	}
}

// TestLogLimits checks the limits of the log with a fake clock.
func TestLogLimits(t *testing.T) {
	var out bytes.Buffer
	s := newLogSink(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
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
	s = newLogSink(nil)
	s.drain(strings.NewReader(strings.Repeat("y", 3*logLine)+"\nlast\n"), "stderr")
	if s.lastOutput() != "last" || s.dropped != 2*logLine+1 {
		t.Errorf("last output %q, dropped %d", s.lastOutput(), s.dropped)
	}
}

// TestLastOutput checks that the first line of a crash report is found. The texts are those of Go 1.26 and of Rust's default panic hook.
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
		s := newLogSink(slog.New(slog.NewTextHandler(&shown, &slog.HandlerOptions{Level: slog.LevelWarn})))
		s.drain(strings.NewReader(strings.Repeat("opened the device\n", logTailLen/10)+first+"\n"+trace), "stderr")
		if got := s.lastOutput(); got != first {
			t.Errorf("after %q: %q", first, got)
		}
		if n := strings.Count(shown.String(), "\n"); n != logTrace || strings.Contains(shown.String(), "opened") {
			t.Errorf("after %q: %d lines are shown as errors; want %d", first, n, logTrace)
		}
	}
	s := newLogSink(nil)
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

// TestSquat checks that if the name of the directory is taken, sessions leave nothing behind, and remove what killed hosts have left.
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

func TestInRange(t *testing.T) {
	const top = 1<<63 - 1
	for _, c := range []struct {
		off, size, n int64
		want         bool
	}{{0, 0, 0, true}, {0, 1, 0, false}, {1, 0, 0, false}, {0, 8, 8, true}, {1, 8, 8, false}, {8, 0, 8, true}, {9, 0, 8, false},
		{-1, 1, 8, false}, {1, -1, 8, false}, {top, top, top, false}, {top, 0, top, true}, {1, top, top, false}, {0, top, top, true}} {
		if got := inRange(c.off, c.size, c.n); got != c.want {
			t.Errorf("inRange(%d, %d, %d) = %v", c.off, c.size, c.n, got)
		}
	}
}

func TestInheritedFiles(t *testing.T) {
	for _, bad := range []string{"io", "io=x", "io=2", "io=99999", "io=1000", "lifeline=3,"} {
		if c, err := inheritedFiles(bad); err == nil {
			t.Errorf("%q gave %+v", bad, c)
		}
	}
}

// TestCheckCall checks that both sides reject calls that are not in the protocol and calls without a deadline.
func TestCheckCall(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := checkCall(ctx, serviceMethods+"Info"); err != nil {
		t.Error(err)
	}
	for _, m := range []string{serviceMethods + "Info", stdioMethod} {
		if checkCall(t.Context(), m) == nil {
			t.Errorf("%s passed without a deadline", m)
		}
	}
	for _, m := range []string{"/plugin.GRPCBroker/StartStream", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"} {
		if checkServed(ctx, m) == nil {
			t.Errorf("%s is served", m)
		}
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

func TestAliased(t *testing.T) {
	at := func(pairs ...int64) (out []*rlxv1.Range) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, &rlxv1.Range{Offset: pairs[i], Size: pairs[i+1]})
		}
		return out
	}
	for _, c := range []struct {
		in, out []*rlxv1.Range
		want    []bool
	}{
		{nil, nil, []bool{}},
		{at(0, 8), at(8, 8, 16, 8), []bool{false, false}},
		{at(0, 8), at(16, 8, 16, 8), []bool{true, true}},
		{at(0, 8), at(16, 100, 20, 4, 30, 4, 116, 4), []bool{true, true, true, false}},
		{at(0, 20), at(16, 8, 24, 8), []bool{true, false}},
		{at(0, 8), at(16, 10, 20, 20, 30, 5), []bool{true, true, true}},
		{at(0, 8), at(16, 0, 16, 8), []bool{false, false}},
	} {
		if got := aliased(c.in, c.out); !slices.Equal(got, c.want) {
			t.Errorf("%v, %v: %v; want %v", c.in, c.out, got, c.want)
		}
	}
}
