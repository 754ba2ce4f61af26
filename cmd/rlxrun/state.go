package main

import (
	"context"
	"io"
	"slices"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/cli"
)

// stateFlags name the file from which a run reads an earlier state, and the file to which it saves its own.
type stateFlags struct{ from, to string }

func (f *stateFlags) declare(fs *cli.FlagSet) {
	fs.StringVar(
		&f.from, "state", "", "`FILE` start from a state that --save-state wrote (default the model's initial state)")
	fs.StringVar(
		&f.to, "save-state", "",
		"`FILE` save the model's state after the run, as safetensors; may be the file of --state")
}

// check refuses flags that do not fit the methods of a run.
func (f *stateFlags) check(methods []*rlx.Method) error {
	for _, flag := range []struct{ name, value string }{{"--state", f.from}, {"--save-state", f.to}} {
		if flag.value != "" && !slices.ContainsFunc(methods, func(m *rlx.Method) bool { return m.Stateful }) {
			return cli.Usagef(flag.name, "%s has no state", methods[0].Name)
		}
	}
	return nil
}

// outputs and inputs return the files.
func (f *stateFlags) outputs() []string {
	if f.to == "" {
		return nil
	}
	return []string{f.to}
}

func (f *stateFlags) inputs() []string {
	if f.from == "" || f.from == f.to {
		return nil
	}
	return []string{f.from}
}

// keeps returns the state that the session's runs use.
func (s *session) keeps(ctx context.Context) (_ *rlx.State, err error) {
	if s.state != nil {
		return s.state, nil
	}
	if s.files.from != "" {
		s.state, err = s.host.ImportState(ctx, s.files.from)
	} else {
		s.state, err = s.host.NewState(ctx)
	}
	return s.state, err
}

// saveState adds the state to the result files.
func (s *session) saveState(ctx context.Context, w *files) error {
	if s.files.to == "" {
		return nil
	}
	export := func(to io.Writer) error { return s.state.Export(ctx, to) }
	if s.text != nil {
		export = func(to io.Writer) error { return s.text.Save(ctx, to) }
	}
	return w.add(ctx, s.files.to, export)
}
