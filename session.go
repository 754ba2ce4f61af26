package rlx

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/budget"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

// Options holds the options of a session. Only Backend is required; FindBackend finds one by its name.
type Options struct {
	Backend Backend
	// Device is a Device.ID, or SoftwareDevice. Empty means the first device of the backend that is not a software
	// device.
	Device string
	// Devices, if there are several, are devices of Backend that divide the work of a model that was compiled with rlxc
	// --stages: each runs consecutive stages of a method in a process of its own, and keeps only the states and weights
	// of these. Runs that are in progress at the same time use different devices at the same time. A device may be
	// named several times. Device must be empty then.
	Devices   []string
	Threads   int    // of the backend; 0 means all that the process may use. Devices that are the processor share them
	Precision string // precision of the operands of products, one of Facts.Precisions; empty means the default
	// Fallbacks lists backends that may run segments of methods that Backend cannot run alone (see Method.Schedules). A
	// session chooses one by its name; nil means the backends that FindBackend finds. It starts the backend, on its
	// first device, when it loads a method that needs it.
	Fallbacks []Backend

	// Memory limits the memory of the session and its backend; nil means the memory that is free when the session
	// begins.
	Memory  *Budget
	Sandbox Sandbox
	// Log receives the log of the backend and events of its process; nil means no log.
	Log *slog.Logger
	// Protocol, if not nil, receives every message between the host and the backends, as lines of text. It must be safe
	// for concurrent use if the session starts Fallbacks.
	Protocol io.Writer
	Timeouts Timeouts
}

// SoftwareDevice, in Options.Device, is the first device of type "software": a device that the processor emulates, such
// as Mesa's lavapipe. It is many times slower than the cpu backend, so a session uses one only if Options.Device names
// it, by this word or by its ID.
const SoftwareDevice = "software"

// Timeouts limit the time that a backend may take, whatever the caller's context allows. A backend that exceeds one is
// stopped, and its session is lost. Zero values mean the defaults.
type Timeouts struct {
	Start time.Duration // until the process has sent its description: 30 s
	Load  time.Duration // to load a method: 2 min
	Run   time.Duration // a run: 1 h
	Step  time.Duration // one step of a run: 10 min; negative means no limit
	Stall time.Duration // without a heartbeat: 10 s
	// Cancel limits how long a run may continue after its context is done: 2 s. Backends check between two steps.
	Cancel time.Duration
}

// A Session is a running backend that executes methods of one model. Its methods may be called concurrently; runs are
// serialised, except that several of Options.Devices run at the same time. When the backend is lost, Done is closed,
// and every call returns an error that matches ErrLost. Then close the session and make another.
type Session struct {
	model     *Model
	options   Options
	precision string
	memory    *Budget
	*worker

	owner    bool          // closes the model with itself
	loading  chan struct{} // holds a token while methods are loaded
	stages   []*worker     // of Options.Devices, in order; otherwise the one of Options.Backend
	homes    []home        // by stage
	reserved []budget.Part // guarded by loading
	mu       sync.Mutex    // guards the fields below; loaded and others change only while loading is held
	loaded   map[string]*loaded
	others   map[string]*worker // of Options.Fallbacks, by name
	lost     error              // error of one of others
	replaced map[string]Tensor  // weights with other values than the artifact's; changes only while hold is in effect
	written  map[string]bool    // weights that were ever replaced: their memory is reserved; guarded by loading
	once     sync.Once          // of Close
}

// A worker is a running backend.
type worker struct {
	backend *host.Session
	info    device.Info
	device  device.Device
	threads int
	line    *line // of runs; those of Options.Fallbacks have none, because the line of Options.Backend is enough
}

const maxThreads = 1 << 16

// Load opens the artifact at path on the backend of the given name, such as "cpu", which FindBackend finds. It is short
// for Open, FindBackend and NewSession with their default options. Closing the session closes the model, too. Errors
// are those of these functions.
func Load(ctx context.Context, path, backend string) (*Session, error) {
	b, err := FindBackend(backend)
	if err != nil {
		return nil, err
	}
	m, err := Open(ctx, path, OpenOptions{})
	if err != nil {
		return nil, err
	}
	s, err := m.NewSession(ctx, Options{Backend: b})
	if err != nil {
		m.Close()
		return nil, err
	}
	s.owner = true
	return s, nil
}

// NewSession starts a backend and returns after it has sent its description. It loads no method: Run does that when
// needed, and Load in advance. Close the session to stop the backend.
//
// Errors match ErrUsage, ErrLost, ErrDevice (no such device, or only a software device that Options.Device does not
// name), ErrUnsupported (the device does not have the precision), or the context's cause. After a recent crash before
// a run has succeeded, the backend starts with a delay, and after three of them in a minute not at all (ErrCrashing).
func (m *Model) NewSession(ctx context.Context, o Options) (*Session, error) {
	if o.Backend.Path == "" {
		return nil, usage("backend", "Options.Backend has no path")
	}
	if o.Threads < 0 || o.Threads > maxThreads {
		return nil, usage("threads", "Options.Threads is %d; allowed are 0 to %d", o.Threads, maxThreads)
	}
	switch {
	case len(o.Devices) > 0 && o.Device != "":
		return nil, usage("Options.Devices", "cannot be combined with Options.Device").Naming("Options.Devices",
			"Options.Device")
	case len(o.Devices) > 0:
		o.Device = o.Devices[0]
	}
	precision, err := m.Precision(o.Precision)
	if err != nil {
		return nil, err
	}
	if o.Memory == nil {
		o.Memory = NewBudget(0)
	}
	if err := m.retain(); err != nil {
		return nil, err
	}
	s := &Session{model: m, options: o, precision: precision, memory: o.Memory, loaded: map[string]*loaded{},
		others: map[string]*worker{}, replaced: map[string]Tensor{}, written: map[string]bool{},
		loading: make(chan struct{}, 1)}
	if s.worker, err = s.start(ctx, o.Backend, o.Device); err == nil {
		s.line = newLine()
		if err = s.startStages(ctx); err != nil {
			s.end()
		}
	}
	if err != nil {
		m.release()
		return nil, err
	}
	return s, nil
}

// start starts a backend, chooses its device and checks that the device has the precision.
func (s *Session) start(ctx context.Context, b Backend, id string) (*worker, error) {
	o, m := s.options, s.model
	t := o.Timeouts
	start := b.options(o)
	start.Artifact, start.IOSize, start.Encode = m.verified.File(), m.largestIO(), encodeProgram
	start.Timeouts = host.Timeouts{Start: t.Start, Load: t.Load, Run: t.Run, Step: t.Step, Stall: t.Stall,
		Cancel: t.Cancel}
	backend, err := m.launcher.Start(ctx, start)
	if err != nil {
		return nil, err
	}
	w := &worker{backend: backend, threads: o.Threads}
	if w.info, err = backend.Info(ctx); err == nil {
		w.device, err = chooseDevice(w.info, backend.Name(), id)
	}
	if err == nil {
		err = w.info.CheckPrecision(s.precision)
	}
	if err != nil {
		backend.Close()
		return nil, err
	}
	return w, nil
}

// other returns a backend of Options.Fallbacks that a method needs, and starts it if necessary. The caller holds
// loading.
func (s *Session) other(ctx context.Context, name, method string) (*worker, error) {
	s.mu.Lock()
	w := s.others[name]
	s.mu.Unlock()
	if w != nil {
		return w, nil
	}
	b, err := s.fallback(name)
	if err != nil {
		return nil,
			diag.New(code.Backend, "backend "+name,
				"runs a part of %s, which was compiled with --fallback %s; the session has no backend of that name",
				method, name).
				WithHint("give its executable in Options.Fallbacks").Naming("Options.Fallbacks")
	}
	w, err = s.start(ctx, b, "")
	if errors.Is(err, device.ErrSoftware) && s.options.Device == SoftwareDevice {
		w, err = s.start(ctx, b, SoftwareDevice)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others[name] = w
	return w, nil
}

// fallback returns the backend of a name among Options.Fallbacks, or one that FindBackend finds.
func (s *Session) fallback(name string) (Backend, error) {
	list := s.options.Fallbacks
	if list == nil {
		return FindBackend(name)
	}
	if i := slices.IndexFunc(list, func(b Backend) bool { return b.Name == name }); i >= 0 {
		return list[i], nil
	}
	return Backend{}, ErrNoBackend
}

// workers returns the running backends, the one of Options.Backend first.
func (s *Session) workers() []*worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := append([]*worker{s.worker}, s.stages[min(1, len(s.stages)):]...)
	for _, name := range slices.Sorted(maps.Keys(s.others)) {
		list = append(list, s.others[name])
	}
	return list
}

// chooseDevice returns the device that Options.Device selects.
func chooseDevice(info device.Info, backend, id string) (device.Device, error) {
	if len(info.Devices) == 0 {
		return device.Device{}, diag.New(device.ErrUnavailable, "backend "+backend, "has no device on this machine")
	}
	var ids []string
	for _, d := range info.Devices {
		if d.ID == id {
			return d, nil
		}
		ids = append(ids, backend+":"+d.ID)
	}
	for _, d := range info.Devices {
		if software := d.Type == SoftwareDevice; id == "" && !software || id == SoftwareDevice && software {
			return d, nil
		}
	}
	if id == "" {
		return device.Device{},
			diag.New(device.ErrSoftware, "backend "+backend,
				"has no device on this machine but %s, %s, which the processor emulates slowly",
				ids[0], info.Devices[0].Name).WithHint(
				"use backend cpu, or give Options.Device %s to use it all the same", SoftwareDevice).
				Naming("backend cpu", "Options.Device")
	}
	return device.Device{}, diag.New(device.ErrUnavailable, "device "+backend+":"+id, "is not there; allowed are %s",
		strings.Join(ids, ", "))
}

// Close ends the backend and waits for its process. Active runs end with an error.
func (s *Session) Close() error {
	s.once.Do(func() {
		s.end()
		s.loading <- struct{}{} // a concurrent Load has failed by now, or has reserved memory for its methods
		s.end()                 // ends backends that the concurrent Load started
		s.memory.budget.Release(s.reserved...)
		<-s.loading
		s.model.release()
		if s.owner {
			s.model.Close()
		}
	})
	return nil
}

// end ends the backends.
func (s *Session) end() {
	for _, w := range s.workers() {
		w.backend.Close()
	}
}

// Done returns a channel that is closed when the backend has ended, for any reason. If a backend of Options.Fallbacks
// has ended, the next run that needs it fails and ends the session.
func (s *Session) Done() <-chan struct{} { return s.backend.Done() }

// Err returns the error with which the backend ended, which matches ErrLost, or nil while the backend runs.
func (s *Session) Err() error {
	s.mu.Lock()
	err := s.lost
	s.mu.Unlock()
	if err == nil {
		_, err = s.backend.Info(context.Background())
	}
	return err
}

// lose ends the session if a backend of Options.Fallbacks is lost.
func (s *Session) lose(w *worker, err error) {
	if w == s.worker || !errors.Is(err, device.ErrLost) {
		return
	}
	s.mu.Lock()
	if s.lost == nil {
		s.lost = err
	}
	s.mu.Unlock()
	s.end()
}

// Model returns the model whose methods the session runs.
func (s *Session) Model() *Model { return s.model }

// Backend returns the description that the backend gave of itself.
func (s *Session) Backend() BackendInfo { return backendInfo(s.info, s.backend) }

// Device returns the device that runs use, or the first of them.
func (s *Session) Device() Device { return Device(s.device) }

// Devices returns the devices that runs use: those of Options.Devices, or one.
func (s *Session) Devices() (out []Device) {
	for _, w := range s.stages {
		out = append(out, Device(w.device))
	}
	return out
}

// Precision returns the precision of the operands of products.
func (s *Session) Precision() string { return s.precision }

// PeakMemory returns the peak resident size of the backends' processes in bytes, mapped weights included, or 0 if the
// system does not report it.
func (s *Session) PeakMemory() (n int64) {
	for _, w := range s.workers() {
		n += w.backend.PeakRSS()
	}
	return n
}

// changed returns ErrChanged in place of err if the artifact was written to and the context is not the cause.
// Truncating the file crashes a backend that has mapped the weights, so this may be the reason for err.
func (s *Session) changed(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if changed := s.model.unchanged(); changed != nil && !errors.Is(changed, code.Closed) {
		return changed
	}
	return err
}

// orderly returns a context without the deadline of ctx that is cancelled when ctx is done. In the protocol of
// backends, a missed deadline stops the backend, whereas a cancelled run ends between two steps and leaves the session
// usable.
func orderly(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); !ok {
		return ctx, func() {}
	}
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	if ctx.Err() != nil {
		cancel(context.Cause(ctx)) // now; AfterFunc would call it on another goroutine
	}
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return out, func() {
		stop()
		cancel(nil)
	}
}
