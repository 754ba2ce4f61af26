package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/term"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/inference"
	"github.com/rlx-go/rlx/internal/openai"
	"github.com/rlx-go/rlx/internal/release"
	"github.com/rlx-go/rlx/task"
)

// apis are the APIs of a server of artifacts. Each artifact can be loaded again while it runs.
type apis struct {
	ctx       context.Context
	flags     *serveFlags
	log       *slog.Logger
	inference *inference.Service // nil if no artifact has a method without a state
	text      *openai.Models     // nil if there is no language model
	several   bool               // language models

	loading  sync.Mutex // held while an artifact is loaded
	sessions map[string]*session
}

// A servable is an artifact that is ready for requests.
type servable struct {
	s       *session
	engine  *openai.Engine // nil if it is not a language model
	methods bool           // some keep no state
}

// newAPIs makes the sessions ready and adds what they can serve to a server.
func newAPIs(ctx context.Context, f *serveFlags, sessions []*session, server *api.Server) (*apis, error) {
	a := &apis{ctx: ctx, flags: f, log: f.api.logger(sessions[0].env.Stderr), sessions: map[string]*session{}}
	texts := 0
	for _, s := range sessions {
		if _, ok := s.model.Task().(*task.Text); ok {
			texts++
		}
	}
	a.several = texts > 1
	if texts > 0 {
		a.text = &openai.Models{}
	}
	var artifacts []inference.Artifact
	for _, s := range sessions {
		name := f.api.nameOf(s)
		if a.sessions[name] != nil {
			return nil, cli.Usagef(s.model.Path(), "is the second artifact of the name %s: rename one of the files",
				name)
		}
		x, err := a.prepare(s, name)
		if err != nil {
			return nil, err
		}
		a.sessions[name] = s
		end := a.ender(x)
		if x.engine != nil {
			a.text.Put(name, s.model, x.engine, end)
		}
		if x.methods {
			artifacts = append(artifacts, artifactOf(s, name, end))
		}
	}
	if a.text != nil {
		a.text.Add(server)
	}
	if len(artifacts) > 0 {
		var err error
		if a.inference, err = inference.New(artifacts,
			inference.Limits{Parallel: f.api.parallel, Waiting: f.api.waiting, Kept: f.api.kept,
				Apart: f.api.alike || len(f.host.devices) > 1}); err != nil { // or devices would have nothing to do
			return nil, err
		}
		a.inference.Add(server, release.Own().Version)
	} else if f.api.grpc != "" || a.text == nil {
		return nil, cli.Usagef(sessions[0].model.Path(),
			"has no method without a state, which the Open Inference Protocol could run; it offers the methods %s",
			methodNames(sessions[0].model))
	}
	inference.AddLoad(server, a.load)
	return a, nil
}

// artifactOf returns the methods of a session for the Open Inference Protocol.
func artifactOf(s *session, name string, end func()) inference.Artifact {
	const what = "encodings of images"
	return inference.Artifact{Name: name, Runner: &apiRunner{s}, End: end,
		Reserve: func(n int64) error { return s.need(what, n) },
		Release: func(n int64) { s.memory.Release(what, n) }}
}

// prepare makes an artifact ready for requests.
func (a *apis) prepare(s *session, name string) (x servable, err error) {
	methods := inference.Methods(s.model)
	x = servable{s: s, methods: len(methods) > 0}
	if t, ok := s.model.Task().(*task.Text); ok {
		label := ""
		if a.several {
			label = name
		}
		var m *rlx.Method
		if x.engine, m, err = a.flags.api.engineOf(s, t, label); err != nil {
			return x, err
		}
		methods = []*rlx.Method{m} // requests load the others
	}
	if err := s.readyToServe(a.ctx, methods); err != nil {
		return x, err
	}
	for _, m := range methods {
		if err := s.strictly(a.ctx, m.Name); err != nil {
			return x, err
		}
	}
	return x, nil
}

// ender returns the function that each API calls when it no longer uses a replaced artifact. The last call closes its
// session.
func (a *apis) ender(x servable) func() {
	var left atomic.Int32
	if x.engine != nil {
		left.Add(1)
	}
	if x.methods {
		left.Add(1)
	}
	return func() {
		if left.Add(-1) == 0 {
			x.s.close()
		}
	}
}

// load opens the file of an artifact again and lets new requests use it. The old one is closed when its last request
// has ended. If the file cannot be used, the old one stays.
func (a *apis) load(name string) (err error) {
	a.loading.Lock()
	defer a.loading.Unlock()
	defer func() {
		if e, ok := errors.AsType[*diag.Error](err); ok {
			err = fmt.Errorf("%w (%s)", err, e.Code)
		}
		if err != nil {
			a.log.Error("not loaded", slog.String("artifact", name), slog.Any("error", err))
		}
	}()
	old := a.sessions[name]
	if old == nil {
		return fmt.Errorf("%s: %w", diag.Printable(name), inference.ErrArtifact)
	}
	o, err := old.flags.options(old.env)
	if err != nil {
		return err
	}
	o.Memory = old.memory // so that a limit counts both
	s, err := openSession(a.ctx, old.env, old.model.Path(), old.flags, o, debugFlags{})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := s.model.Verify(a.ctx); err != nil {
		return err
	}
	_, was := old.model.Task().(*task.Text)
	if _, is := s.model.Task().(*task.Text); is != was || len(inference.Methods(s.model)) > 0 !=
		(len(inference.Methods(old.model)) > 0) {
		return diag.New(diag.Usage, s.model.Path(),
			"offers %s, and the file that is served %s: start another server for it",
			methodNames(s.model), methodNames(old.model))
	}
	x, err := a.prepare(s, name)
	if err != nil {
		return err
	}
	end := a.ender(x)
	if x.methods {
		if err := a.inference.Put(artifactOf(s, name, end)); err != nil {
			return err
		}
	}
	if x.engine != nil {
		a.text.Put(name, s.model, x.engine, end)
	}
	a.sessions[name] = s
	a.log.Info("loaded", slog.String("artifact", name), slog.String("file", s.model.Path()))
	return nil
}

// path returns the path of the base URL: /v1 if there is a language model.
func (a *apis) path() string {
	if a.text != nil {
		return "/v1"
	}
	return ""
}

// onHangup lets SIGHUP load all artifacts again, unless the terminal of the server has gone. The caller calls release.
func (a *apis) onHangup() (release func()) {
	input := int(os.Stdin.Fd())
	terminal := term.IsTerminal(input)
	return cli.OnHangup(func() bool {
		if terminal && !term.IsTerminal(input) {
			return false
		}
		go func() {
			a.loading.Lock()
			names := slices.Sorted(maps.Keys(a.sessions))
			a.loading.Unlock()
			for _, name := range names {
				a.load(name) // it logs errors
			}
		}()
		return true
	})
}

// close closes the artifacts. No request is in progress, except those that did not end in time.
func (a *apis) close() {
	a.loading.Lock()
	defer a.loading.Unlock()
	for _, s := range a.sessions {
		s.close()
	}
}
