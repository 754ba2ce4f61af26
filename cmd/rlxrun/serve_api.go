package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/otlp"
	"github.com/rlx-go/rlx/internal/release"
)

// nameOf returns the name of an artifact in requests and answers.
func (f *apiFlags) nameOf(s *session) string {
	if f.name != "" {
		return f.name
	}
	return strings.TrimSuffix(filepath.Base(s.model.Path()), ".rlx")
}

// serveAPI serves artifacts to programs until ctx ends: a language model over OpenAI's API, and all methods without a
// state over the Open Inference Protocol.
func serveAPI(ctx context.Context, f *serveFlags, sessions []*session) error {
	keys, err := f.api.keys()
	if err != nil {
		return err
	}
	first := sessions[0]
	log := f.api.logger(first.env.Stderr)
	traces, endTraces, err := otlp.Start(ctx, "rlxrun", release.Own().Version, log)
	if err != nil {
		return err
	}
	defer endTraces()
	server := api.New(api.Options{Keys: keys, Local: keys == nil, Log: log, Traces: traces,
		Drain: f.api.drain})
	base, err := newAPIs(ctx, f, sessions, server)
	if err != nil {
		return err
	}
	defer base.close()
	defer base.onHangup()()
	listener, err := listen(f.address())
	if err != nil {
		return err
	}
	defer listener.Close()
	at := listener.Addr()
	listener, scheme, err := f.api.secure(listener)
	if err != nil {
		return err
	}
	note := "the address for clients of the Open Inference Protocol; Ctrl-C ends the server"
	if base.path() != "" {
		note = "the base URL for clients of OpenAI's API; Ctrl-C ends the server"
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 2)
	wait := 1
	if f.api.grpc != "" {
		calls, err := listen(f.api.grpc)
		if err != nil {
			return err
		}
		defer calls.Close()
		config, err := f.api.tls()
		if err != nil {
			return err
		}
		var o []grpc.ServerOption
		if config != nil {
			o = append(o, grpc.Creds(credentials.NewTLS(config)))
		}
		g := base.inference.NewGRPC(server, release.Own().Version, o...)
		first.env.Notef("gRPC at %s", calls.Addr())
		go func() { ended <- g.Serve(ctx, calls) }()
		wait++
	}
	if err := first.announce(scheme+"://"+at.String()+base.path(), note); err != nil {
		return err
	}
	go func() { ended <- server.Serve(ctx, listener) }()
	err = <-ended
	cancel(err)
	for range wait - 1 {
		<-ended
	}
	if cli.AskedToStop(ctx) {
		return nil
	}
	return err
}

// An apiRunner runs methods for requests. If the backend is lost, it is started again and the run repeated once.
type apiRunner struct{ s *session }

// Model returns the open artifact.
func (r *apiRunner) Model() *rlx.Model { return r.s.model }

// Run executes a method. The error matches rlx.ErrLost if the backend was lost twice.
func (r *apiRunner) Run(ctx context.Context, q rlx.Request) (*rlx.Result, error) {
	host, err := r.s.reopen(ctx)
	if err != nil {
		return nil, err
	}
	res, err := host.Run(ctx, q)
	if !errors.Is(err, rlx.ErrLost) || ctx.Err() != nil {
		return res, err
	}
	if host, err = r.s.reopen(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return host.Run(ctx, q)
}

// reopen returns the session, or another one if its backend is lost.
func (s *session) reopen(ctx context.Context) (*rlx.Session, error) {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	why := s.host.Err()
	if why == nil {
		return s.host, nil
	}
	old := s.host
	if err := s.renew(context.WithoutCancel(ctx), why); err != nil {
		return nil, err
	}
	old.Close()
	return s.host, nil
}

// inSessions opens several artifacts and a backend for each, calls work, and closes all.
func inSessions(ctx context.Context, env *cli.Env, args []string, f *hostFlags,
	work func(context.Context, []*session) error, opened ...*session) error {
	if len(args) == 0 {
		return work(ctx, opened)
	}
	return inSession(ctx, env, args[:1], f, &debugFlags{}, func(ctx context.Context, s *session) error {
		return inSessions(ctx, env, args[1:], f, work, append(opened, s)...)
	})
}
