package rlxbeam

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/patches"
	"github.com/rlx-go/rlx/segment"
	"github.com/rlx-go/rlx/text"
)

// Model names an artifact and how workers run it. It is part of the pipeline, so it holds nothing but values.
type Model struct {
	Path      string // of the artifact, on every worker
	Backend   string // as for rlx.FindBackend; "" means "cpu"
	Device    string // as rlx.Options.Device
	Precision string // as rlx.Options.Precision
	Threads   int    // of the backend; 0 means as many as the process may use
}

// A worker is what a process keeps for a Model: the open artifact and a session that all bundles share.
type worker struct {
	config Model

	mu      sync.Mutex
	model   *rlx.Model
	session *rlx.Session
}

var (
	workersMu sync.Mutex
	workers   = map[Model]*worker{}
)

// workerOf returns the worker of this process for a model. Nothing is opened yet.
func workerOf(m Model) *worker {
	if m.Backend == "" {
		m.Backend = "cpu"
	}
	workersMu.Lock()
	defer workersMu.Unlock()
	w := workers[m]
	if w == nil {
		w = &worker{config: m}
		workers[m] = w
	}
	return w
}

// Metrics of all transforms. Times are in milliseconds.
var (
	sessions  = beam.NewCounter("rlx", "sessions")
	lost      = beam.NewCounter("rlx", "sessions_lost")
	elements  = beam.NewCounter("rlx", "elements")
	results   = beam.NewCounter("rlx", "results")
	skipped   = beam.NewCounter("rlx", "skipped")
	failures  = beam.NewCounter("rlx", "failures")
	runMillis = beam.NewDistribution("rlx", "run_ms")
	batchSize = beam.NewDistribution("rlx", "batch_size")
)

// open returns a running session. It opens the artifact and starts a backend if there is none, or if the last one was
// lost. warm, which may be nil, is called with a new session before others get it.
func (w *worker) open(ctx context.Context, warm func(context.Context, *rlx.Session) error) (*rlx.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session != nil && w.session.Err() == nil {
		return w.session, nil
	}
	if w.session != nil {
		lost.Inc(ctx, 1)
		w.session.Close()
		w.session = nil
	}
	if w.model == nil {
		m, err := rlx.Open(ctx, w.config.Path, rlx.OpenOptions{})
		if err != nil {
			return nil, err
		}
		w.model = m
	}
	backend, err := rlx.FindBackend(w.config.Backend)
	if err != nil {
		return nil, err
	}
	s, err := w.model.NewSession(ctx, rlx.Options{Backend: backend, Device: w.config.Device,
		Precision: w.config.Precision, Threads: w.config.Threads})
	if err != nil {
		return nil, err
	}
	if warm != nil {
		if err := warm(ctx, s); err != nil {
			s.Close()
			return nil, err
		}
	}
	sessions.Inc(ctx, 1)
	w.session = s
	return s, nil
}

// attempts bounds how often a lost backend is replaced for one call. It is not replaced after three crashes in a minute
// before any run (rlx.ErrCrashing).
const attempts = 3

// do calls f with a session, and again with a new one if the backend was lost. An error other than one of the inputs
// fails the bundle.
func (w *worker) do(ctx context.Context, warm func(context.Context, *rlx.Session) error,
	f func(*rlx.Session) error) error {
	for n := 1; ; n++ {
		s, err := w.open(ctx, warm)
		again := n < attempts && errors.Is(err, rlx.ErrLost) && !errors.Is(err, rlx.ErrCrashing)
		if err != nil && !again {
			return errSetup{err}
		} else if err != nil {
			continue
		}
		start := time.Now()
		err = f(s)
		if err == nil {
			runMillis.Update(ctx, time.Since(start).Milliseconds())
		}
		if n == attempts || !errors.Is(err, rlx.ErrLost) {
			return err
		}
	}
}

// errSetup is an error with the model, the backend or the options. It hides the error that it wraps, because code that
// looks for errors with an input must not find one.
type errSetup struct{ error }

// Failure is an input that was not computed, with the reason.
type Failure struct {
	Name  string // of the input
	Code  string // such as "RLX4012"; `rlxrun explain CODE` explains it. Empty if the error has none
	Kind  string // of the error: one of Kinds
	Error string
}

// Kinds are the values of Failure.Kind: the name of the error that the failure matches.
var Kinds = []string{"image", "prompt", "choice", "patches", "text", "context", "nan", "input", "usage"}

var kindErrors = []error{segment.ErrImage, segment.ErrPrompt, segment.ErrChoice, patches.ErrShape, text.ErrText,
	text.ErrContext, rlx.ErrNaN, rlx.ErrInput, rlx.ErrUsage}

// kindOf returns the kind of an error that is due to an input. ok is false for others, which fail the bundle.
func kindOf(err error) (kind string, ok bool) {
	for i, target := range kindErrors {
		if errors.Is(err, target) {
			return Kinds[i], true
		}
	}
	return "nan", errors.Is(err, segment.ErrNoBest) // all qualities are NaN
}

// failure returns the dead letter for an error, and counts it. ok is false if the error is not due to the input.
func failure(ctx context.Context, name string, err error) (f Failure, ok bool) {
	kind, ok := kindOf(err)
	if !ok || ctx.Err() != nil {
		return Failure{}, false
	}
	f = Failure{Name: name, Kind: kind, Error: err.Error()}
	if e := (*rlx.Error)(nil); errors.As(err, &e) {
		f.Code = string(e.Code)
	}
	failures.Inc(ctx, 1)
	return f, true
}
