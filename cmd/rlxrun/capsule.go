package main

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/capsule"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/release"
	"github.com/rlx-go/rlx/internal/values"
)

// capsuleFlags request a capsule of a run that fails.
type capsuleFlags struct {
	path    string
	weights bool
}

func (f *capsuleFlags) declare(fs *cli.FlagSet) {
	fs.StringVar(&f.path, "capsule", "",
		"`FILE` if a run fails, write what \"rlxrun replay\" needs to repeat it elsewhere: program, inputs, state, versions, device and the last step")
	fs.BoolVar(&f.weights, "capsule-weights", false, "with --capsule: the weights that the method uses, too")
}

func (f *capsuleFlags) check() error {
	switch {
	case f.path == "-":
		return cli.Usagef("--capsule -", "a capsule cannot go to stdout").WithHint("for example --capsule run.capsule")
	case f.weights && f.path == "":
		return cli.Usagef("--capsule-weights", "is for --capsule")
	}
	return onlyRegular("--capsule "+f.path, f.path)
}

// onlyRegular refuses the path of a pipe or a device for a file that is written only in some cases. In the other cases,
// its reader would wait.
func onlyRegular(flag, path string) error {
	if st, err := os.Stat(path); path != "" && err == nil && !st.Mode().IsRegular() {
		return cli.Usagef(flag, "is not a regular file")
	}
	return nil
}

// attempt has the data of a run in progress that a capsule needs.
type attempt struct {
	method *rlx.Method
	given  values.Given
}

// begin remembers a run for a capsule. It does nothing without --capsule.
func (s *session) begin(ctx context.Context, r *rlx.Request) error {
	if s.debug.capsule.path == "" {
		return nil
	}
	m, err := s.model.Method(r.Method)
	if err != nil {
		return err
	}
	s.attempt = &attempt{method: m}
	s.attempt.given, err = s.given(ctx, m, r, true)
	return err
}

// failed writes the capsule of the run that was begun last and has failed with err. It returns err, with a note of the
// capsule.
func (s *session) failed(ctx context.Context, err error) error {
	a := s.attempt
	if err == nil || a == nil || ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return err // nothing failed, or the user stopped it
	}
	s.attempt = nil
	ctx = context.WithoutCancel(ctx) // --timeout may have expired
	if failed := s.writeCapsule(ctx, a, err); failed != nil {
		s.env.Notef("no capsule was written: %v", failed)
		return err
	}
	s.env.Notef("%s has what \"rlxrun replay\" needs to repeat this", s.debug.capsule.path)
	return err
}

// writeCapsule writes the capsule of a run that ended with cause.
func (s *session) writeCapsule(ctx context.Context, a *attempt, cause error) error {
	plan, err := s.plan(a.method.Name)
	if err != nil {
		return err
	}
	d, threads := s.host.Device(), s.options.Threads
	m := capsule.Manifest{Host: "rlxrun " + release.Version + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Model: s.model.Facts().Name, From: s.model.Facts().Identity, Sizes: a.given.Sizes,
		Backend: capsule.Backend{Name: s.backend.Name, Version: s.host.Backend().Version, Device: d.ID,
			Type: d.Type, Product: d.Name, Features: d.Features},
		Precision: s.host.Precision(), Threads: threads, Error: capsule.Error{Message: cause.Error()}}
	if c, ok := diag.CodeOf(cause); ok {
		m.Error.Code = string(c)
	}
	var at interface {
		error
		LastStep() string
	}
	if errors.As(cause, &at) {
		m.LastStep = at.LastStep()
	}
	signature, _ := s.graphs.Meta().Method(a.method.Name)
	for _, v := range signature.Inputs {
		m.Inputs = append(m.Inputs, capsule.Input{Name: v.Name, Type: v.Type.String()})
	}
	c := capsule.Contents{Split: plan.Split, Inputs: a.given.Inputs, States: map[string]tensor.Tensor{}}
	for _, x := range plan.Split.Segments {
		for _, n := range x.Graph.States() {
			c.States[n.Name] = a.given.States[n.Name]
		}
	}
	if s.debug.capsule.weights {
		c.Weight = func(segment int, n *ir.Node) (tensor.Tensor, error) { return plan.Param(segment, n) }
	}
	var w files
	defer w.abort()
	err = w.add(ctx, s.debug.capsule.path, func(to io.Writer) error { return capsule.Write(ctx, to, m, c) })
	if err != nil {
		return err
	}
	return w.commit()
}

// targetOf returns the target of the program that the session runs, or would run, for a method.
func (s *session) targetOf(method string) string {
	if l, ok := s.host.Loaded(method); ok {
		return l.Target
	}
	m, err := s.model.Method(method)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	for _, x := range m.Schedules {
		if device.BackendOf(x.Target) == s.backend.Name {
			return x.Target
		}
	}
	return m.Schedules[0].Target
}
