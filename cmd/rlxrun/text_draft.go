package main

import (
	"context"
	"fmt"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/text"
)

// draftFlags configure speculative decoding.
type draftFlags struct {
	fs     *cli.FlagSet
	head   string
	tokens int
}

// defaultDrafts is the default number of tokens drafted at a time.
const defaultDrafts = 2

func (f *draftFlags) declare(fs *cli.FlagSet) {
	f.fs = fs
	fs.StringVar(
		&f.head, "draft", "",
		"`mtp` speculative decoding: the multi-token prediction head proposes tokens, and the model checks them in one run. The text is the same; needs --temperature 0")
	fs.IntVar(&f.tokens, "draft-tokens", defaultDrafts, "`N` with --draft, number of tokens proposed at a time")
}

func (f *draftFlags) settle() error {
	switch {
	case f.fs.Changed("draft") && f.head != "mtp":
		return cli.Usagef("--draft", "is %q; want mtp", f.head)
	case f.fs.Changed("draft-tokens") && f.head == "":
		return cli.Usagef("--draft-tokens", "requires --draft")
	case f.head != "" && (f.tokens < 1 || f.tokens > text.MaxDrafts):
		return cli.Usagef("--draft-tokens", "%d tokens; allowed are 1 to %d", f.tokens, text.MaxDrafts)
	}
	return nil
}

// methods returns the methods that drafting needs: nothing without --draft.
func (f *draftFlags) methods(m *rlx.Model) (out []*rlx.Method, err error) {
	if f.head == "" {
		return nil, nil
	}
	t := m.Task().(*task.Text)
	if t.Draft.Method == "" {
		return nil, cli.Usagef("--draft", "%s has no head that drafts tokens", m.Path())
	}
	for _, name := range []string{t.Draft.Method, t.Draft.Rewind} {
		if name == "" {
			continue
		}
		x, err := m.Method(name)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// start makes a generator use drafts.
func (f *draftFlags) start(ctx context.Context, g *text.Generator) error {
	if f.head == "" {
		return nil
	}
	return g.Draft(ctx, f.tokens)
}

// draftTimings counts drafts.
type draftTimings struct {
	Drafted       int     `json:"drafted,omitempty"`        // proposed tokens
	Accepted      int     `json:"accepted,omitempty"`       // proposed tokens that the model accepted
	AcceptedShare float64 `json:"accepted_share,omitempty"` // Accepted / Drafted
}

func (d *draftTimings) add(drafted, accepted int) {
	if d.Drafted, d.Accepted = d.Drafted+drafted, d.Accepted+accepted; d.Drafted > 0 {
		d.AcceptedShare = float64(d.Accepted) / float64(d.Drafted)
	}
}

func (d *draftTimings) String() string {
	return fmt.Sprintf("%d of %d drafts accepted (%.0f %%)", d.Accepted, d.Drafted, 100*d.AcceptedShare)
}
