package main

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"
)

// trace collects spans for --trace. A nil trace collects nothing.
type trace struct {
	mu     sync.Mutex
	origin time.Time // process start
	events []traceEvent
}

// traceEvent is an event of the Trace Event Format, which Perfetto and chrome://tracing read
// (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). Times are in microseconds.
type traceEvent struct {
	Name string         `json:"name"`
	Cat  string         `json:"cat,omitempty"`
	Ph   string         `json:"ph"` // X: complete, M: metadata
	TS   float64        `json:"ts"`
	Dur  float64        `json:"dur,omitempty"`
	PID  int            `json:"pid"`
	TID  int            `json:"tid"`
	Args map[string]any `json:"args,omitempty"`
}

// The two sides of a run are shown as processes.
const (
	traceHost    = 1
	traceBackend = 2
)

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// span starts a span of the host. Call the result to end it.
func (t *trace) span(name string) func() {
	if t == nil {
		return func() {}
	}
	begin := time.Now()
	return func() { t.add(name, begin, time.Now()) }
}

// add adds a span of the host.
func (t *trace) add(name string, begin, end time.Time) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, traceEvent{Name: name, Cat: "host", Ph: "X", TS: micros(begin.Sub(t.origin)),
		Dur: micros(end.Sub(begin)), PID: traceHost, TID: t.lane(begin)})
}

// lane returns the lowest free thread number at the time. Spans that overlap without nesting need different threads. A
// linear search suffices, because the host has few spans.
func (t *trace) lane(begin time.Time) int {
	at := micros(begin.Sub(t.origin))
	for lane := 1; ; lane++ {
		free := true
		for _, e := range t.events {
			free = free && !(e.PID == traceHost && e.TID == lane && e.TS <= at && at < e.TS+e.Dur)
		}
		if free {
			return lane
		}
	}
}

// steps adds the steps of a run. Their times come from the backend, relative to the start of the run as the host saw
// it.
func (t *trace) steps(r runRecord) {
	base := r.Start.Sub(t.origin)
	for _, s := range r.Steps {
		t.events = append(
			t.events, traceEvent{Name: s.Op, Cat: r.method, Ph: "X", TS: micros(base + s.Start), Dur: micros(s.Time),
				PID: traceBackend, TID: 1,
				Args: map[string]any{"step": s.Step, "node": s.Name, "out": strings.Join(s.Types, ", "),
					"attrs": s.Attrs, "flops": s.FLOPs, "bytes": s.Bytes, "clock": r.Clock}})
	}
}

// write writes the trace as JSON.
func (t *trace) write(w io.Writer, backend string) error {
	named := func(pid int, name string) traceEvent {
		return traceEvent{Name: "process_name", Ph: "M", PID: pid, Args: map[string]any{"name": name}}
	}
	return json.NewEncoder(w).Encode(map[string]any{
		"displayTimeUnit": "ms",
		"traceEvents": append([]traceEvent{named(traceHost, "rlxrun"), named(traceBackend, "backend "+backend)},
			t.events...),
	})
}
