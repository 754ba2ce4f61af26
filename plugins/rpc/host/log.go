package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

const (
	logRate    = 1 << 20  // bytes per second that a backend may log, and the size of a burst
	logTotal   = 64 << 20 // bytes in a session
	logLine    = 8 << 10  // bytes per line; the rest of the line is dropped
	logTailLen = 2 << 10  // bytes of the log kept for error messages
	logTrace   = 40       // lines of a stack trace logged as errors; later lines keep their own level
)

// logSink receives what a backend prints. It always reads everything, so that logging never blocks the backend. It
// passes on no more than logRate and logTotal allow, and counts the bytes that it drops.
type logSink struct {
	Log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	credit  float64 // bytes that may be passed on now
	last    time.Time
	total   int64
	dropped int64
	trace   int // lines of the current stack trace so far, including the first; 0 outside a trace
	tail    []string
	tailLen int
}

func NewLogSink(log *slog.Logger) *logSink {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &logSink{Log: log, now: time.Now, credit: logRate}
}

// drain reads lines from r until it ends.
func (s *logSink) drain(r io.Reader, stream string) {
	br := bufio.NewReaderSize(r, logLine)
	long := false // whether the next bytes continue a line that was too long
	for {
		line, err := br.ReadSlice('\n')
		if !long && len(line) > 0 {
			s.line(line, stream)
		}
		if long {
			s.drop(len(line))
		}
		long = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !long {
			return
		}
	}
}

// Write receives what a library in the backend prints after the start, through go-plugin's stdio stream.
func (s *logSink) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		s.line(line[:min(len(line), logLine)], "stdio")
	}
	return len(b), nil
}

func (s *logSink) drop(n int) {
	s.mu.Lock()
	s.dropped += int64(n)
	s.mu.Unlock()
}

// line passes on one line, within the limits.
func (s *logSink) line(b []byte, stream string) {
	s.mu.Lock()
	now := s.now()
	if !s.last.IsZero() {
		s.credit = min(logRate, s.credit+now.Sub(s.last).Seconds()*logRate)
	}
	s.last = now
	n := len(b)
	if s.total+int64(n) > logTotal || s.credit < float64(n) {
		s.dropped += int64(n)
		s.mu.Unlock()
		return
	}
	s.credit -= float64(n)
	s.total += int64(n)
	level, msg, attrs := parseLogLine(b)
	if s.trace > 0 || isPanic(msg) {
		if s.trace++; s.trace <= logTrace {
			level = slog.LevelError
		}
	}
	if msg != "" {
		s.keep(msg)
	}
	s.mu.Unlock()
	if msg != "" {
		s.Log.LogAttrs(context.Background(), level, msg, append(attrs, slog.String("stream", stream))...)
	}
}

// keep stores the first lines of a panic, or else the last lines of the log.
func (s *logSink) keep(msg string) {
	msg = wire.Abridge(msg, 400)
	switch {
	case s.trace == 1: // drop the lines before the trace
		s.tail, s.tailLen = nil, 0
	case s.trace > 1 && s.tailLen+len(msg) > logTailLen:
		return
	}
	s.tail = append(s.tail, msg)
	s.tailLen += len(msg)
	for s.tailLen > logTailLen {
		s.tailLen -= len(s.tail[0])
		s.tail = s.tail[1:]
	}
}

// isPanic reports whether a line is the first one that a crashing program prints: a panic, a fatal error of the Go
// runtime, a signal, or a panic of a Rust library. Hundreds of lines may follow.
func isPanic(line string) bool {
	if rest, ok := strings.CutPrefix(line, "SIG"); ok {
		name, _, found := strings.Cut(rest, ": ")
		return found && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
	}
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") ||
		strings.HasPrefix(line, "thread '") && strings.Contains(line, "' panicked at ")
}

// lastOutput returns the line that is most likely to explain why the backend ended: the first line of a panic, or else
// the last line.
func (s *logSink) lastOutput() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.tail {
		if isPanic(l) {
			return l
		}
	}
	if len(s.tail) == 0 {
		return ""
	}
	return s.tail[len(s.tail)-1]
}

// lastLines returns the last n lines of the output, or the first n lines of a panic, in one line.
func (s *logSink) lastLines(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.tail
	if len(lines) > n && isPanic(lines[0]) {
		lines = lines[:n]
	}
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}

// close logs how many bytes were dropped.
func (s *logSink) close() {
	s.mu.Lock()
	n := s.dropped
	s.dropped = 0
	s.mu.Unlock()
	if n > 0 {
		s.Log.Warn("part of the backend's log was dropped", "bytes", n, "bytes_per_second", logRate, "bytes_in_total",
			logTotal)
	}
}

// parseLogLine parses a JSON line with the keys @message, @level and @timestamp. Any other line is itself the message.
// Values may have any type. go-plugin's own reader would panic on {"@message":1}, so it does not receive stderr.
func parseLogLine(b []byte) (slog.Level, string, []slog.Attr) {
	b = bytes.TrimSpace(b)
	var rec map[string]json.RawMessage
	if len(b) == 0 || b[0] != '{' || json.Unmarshal(b, &rec) != nil {
		return slog.LevelDebug, wire.Clean(string(b)), nil
	}
	text := func(key string) string {
		var s string
		if json.Unmarshal(rec[key], &s) != nil {
			return string(rec[key])
		}
		return s
	}
	msg := wire.Clean(text("@message"))
	if msg == "" {
		return slog.LevelDebug, wire.Clean(string(b)), nil
	}
	var attrs []slog.Attr
	for _, k := range slices.Sorted(maps.Keys(rec)) {
		if !strings.HasPrefix(k, "@") && len(attrs) < 32 {
			attrs = append(attrs, slog.String(wire.Clean(k), wire.CleanTo(text(k), logLine)))
		}
	}
	return parseLevel(text("@level")), msg, attrs
}

func parseLevel(s string) slog.Level {
	switch strings.ToLower(s) {
	case "info":
		return slog.LevelInfo
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelDebug
}
