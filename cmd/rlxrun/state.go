package main

import (
	"context"
	"io"
	"slices"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/cli"
)

// stateFlags name the files from which a run reads the state of an earlier one, and to which it writes its own.
type stateFlags struct{ from, to string }

func (f *stateFlags) declare(fs *cli.FlagSet) {
	fs.StringVar(&f.from, "state", "", "`FILE` start from a state that --save-state wrote (default the model's initial state)")
	fs.StringVar(&f.to, "save-state", "", "`FILE` save the model's state after the run, as safetensors; may be the file of --state")
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

// outputs and inputs are the files.
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

// keeps returns the state of the session's runs.
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

// saveState writes the state beside the other results.
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
