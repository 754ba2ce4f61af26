package rlxbeam

import (
	"context"
	"errors"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/text"
)

// Text is a text with a name for its result.
type Text struct {
	Name string
	Text string
}

// GenerateOptions holds the options of Generate.
type GenerateOptions struct {
	Tokens   int            // maximum number of generated tokens for each text; 0 means no limit
	Sampling *text.Sampling // nil means what the artifact suggests
	Seed     uint64
	Stop     []string
	Chat     bool // texts are what a user says in a conversation
}

// Continuation is what a model generated for a text.
type Continuation struct {
	Name   string
	Text   string
	Stop   string // reason for its end, a text.Stop
	Prompt int    // number of tokens of the text
	Tokens int    // number of tokens generated
}

// Generate continues texts, PCollection<Text>, with a model that declares the task "text". It returns
// PCollection<Continuation> and PCollection<Failure>. With a model that was compiled for several sequences, the texts
// of a bundle share runs, and each has the result that it has in any other bundle. The results of a bundle come when it
// ends, in the global window.
func Generate(s beam.Scope, m Model, o GenerateOptions, texts beam.PCollection) (out, failed beam.PCollection) {
	return beam.ParDo2(s.Scope("rlxbeam.Generate"), &generateFn{Model: m, Options: o}, texts)
}

type generateFn struct {
	Model   Model
	Options GenerateOptions

	texts []Text
}

// StartBundle begins with no texts.
func (f *generateFn) StartBundle(_ context.Context, _ func(Continuation), _ func(Failure)) {
	f.texts = nil
}

// ProcessElement keeps a text until its bundle is complete.
func (f *generateFn) ProcessElement(ctx context.Context, t Text, _ func(Continuation), _ func(Failure)) {
	elements.Inc(ctx, 1)
	f.texts = append(f.texts, t)
}

// FinishBundle continues the texts.
func (f *generateFn) FinishBundle(ctx context.Context, emit func(Continuation), fail func(Failure)) error {
	if len(f.texts) == 0 {
		return nil
	}
	var all []*text.Result
	var errs []error
	err := workerOf(f.Model).do(ctx, warmText, func(s *rlx.Session) (err error) {
		all, errs, err = f.all(ctx, s)
		return err
	})
	if err != nil {
		return err
	}
	for i, t := range f.texts {
		if errs[i] != nil {
			letter, ok := failure(ctx, t.Name, errs[i])
			if !ok {
				return errs[i]
			}
			fail(letter)
			continue
		}
		r := all[i]
		results.Inc(ctx, 1)
		emit(Continuation{Name: t.Name, Text: r.Text, Stop: string(r.Stop), Prompt: r.Prompt, Tokens: len(r.Tokens)})
	}
	return nil
}

// warmText makes what a text needs once, so that the first one does not wait for it.
func warmText(ctx context.Context, s *rlx.Session) error {
	g, err := text.NewGenerator(ctx, s)
	if err != nil {
		return err
	}
	return g.Close()
}

func (f *generateFn) options() text.Options {
	o := f.Options
	return text.Options{Tokens: o.Tokens, Sampling: o.Sampling, Seed: o.Seed, Stop: o.Stop}
}

// all continues the texts of the bundle. errs has the error of each text, and err is one with the session.
func (f *generateFn) all(ctx context.Context, s *rlx.Session) (all []*text.Result, errs []error, err error) {
	all, errs = make([]*text.Result, len(f.texts)), make([]error, len(f.texts))
	facts, err := text.FactsOf(s.Model())
	if err != nil {
		return nil, nil, errSetup{err}
	}
	prompts := make([][]int, len(f.texts))
	for i, t := range f.texts {
		if prompts[i], errs[i] = f.encode(s.Model(), t.Text); errs[i] == nil {
			errs[i] = facts.CheckPrompt(prompts[i])
		}
	}
	if facts.Sequences == 0 {
		return all, errs, f.oneByOne(ctx, s, prompts, all, errs)
	}
	return all, errs, f.together(ctx, s, prompts, all, errs)
}

func (f *generateFn) encode(m *rlx.Model, prompt string) ([]int, error) {
	if f.Options.Chat {
		chat, err := text.ChatPrompt(m, []text.Message{{Role: "user", Content: prompt}})
		if err != nil {
			return nil, err
		}
		return encode(m, chat, false)
	}
	return encode(m, prompt, true)
}

func encode(m *rlx.Model, prompt string, special bool) ([]int, error) {
	t, err := text.NewTokenizer(m)
	if err != nil {
		return nil, errSetup{err}
	}
	return t.Encode(prompt, special)
}

func (f *generateFn) oneByOne(ctx context.Context, s *rlx.Session, prompts [][]int, all []*text.Result,
	errs []error) error {
	g, err := text.NewGenerator(ctx, s)
	if err != nil {
		return err
	}
	defer g.Close()
	for i, ids := range prompts {
		if errs[i] != nil {
			continue
		}
		if err := g.Reset(ctx); err != nil {
			return err
		}
		all[i], errs[i] = g.Generate(ctx, ids, f.options())
		if errors.Is(errs[i], rlx.ErrLost) || ctx.Err() != nil {
			return errs[i]
		}
	}
	return nil
}

// together continues texts that share the runs of the model. Each is independent of the others, bit for bit.
func (f *generateFn) together(ctx context.Context, s *rlx.Session, prompts [][]int, all []*text.Result,
	errs []error) error {
	b, err := text.NewBatch(ctx, s)
	if err != nil {
		return err
	}
	defer b.Close()
	b.Alike = true
	running := map[int]*text.BatchText{}
	for next := 0; next < len(prompts) || len(running) > 0; {
		for ; next < len(prompts) && b.Free() > 0; next++ {
			if errs[next] != nil {
				continue
			}
			x, err := b.Add(ctx, prompts[next], f.options())
			if errors.Is(err, rlx.ErrLost) || ctx.Err() != nil {
				return err
			}
			errs[next] = err
			if err == nil {
				running[next] = x
			}
		}
		if len(running) == 0 {
			continue
		}
		batchSize.Update(ctx, int64(len(running)))
		if err := b.Step(ctx); err != nil {
			return err
		}
		for i, x := range running {
			if x.Done() {
				all[i], errs[i] = x.Result(), x.Err()
				delete(running, i)
			}
		}
	}
	return nil
}

// EmbedOptions holds the options of Embed.
type EmbedOptions struct {
	Pooling string // a text.Pooling; "" means the mean
	Raw     bool   // leave the vector's length as it is
}

// Vector is the embedding of an input: one row, or a row for each patch of an image.
type Vector struct {
	Name   string
	Rows   int
	Values []float32 // [Rows,width]
}

// Embed turns PCollection<Text> into vectors with a model that declares the task "text". It returns PCollection<Vector>
// and PCollection<Failure>.
func Embed(s beam.Scope, m Model, o EmbedOptions, texts beam.PCollection) (vectors, failed beam.PCollection) {
	return beam.ParDo2(s.Scope("rlxbeam.Embed"), &embedFn{Model: m, Options: o}, texts)
}

type embedFn struct {
	Model   Model
	Options EmbedOptions
}

// ProcessElement embeds a text.
func (f *embedFn) ProcessElement(ctx context.Context, t Text, emit func(Vector), fail func(Failure)) error {
	elements.Inc(ctx, 1)
	var out []float32
	err := workerOf(f.Model).do(ctx, warmText, func(s *rlx.Session) error {
		ids, err := encode(s.Model(), t.Text, true)
		if err != nil {
			return err
		}
		g, err := text.NewGenerator(ctx, s)
		if err != nil {
			return err
		}
		defer g.Close()
		out, err = g.Embed(ctx, ids, text.EmbedOptions{Pooling: text.Pooling(f.Options.Pooling), Raw: f.Options.Raw})
		return err
	})
	if letter, ok := failure(ctx, t.Name, err); err != nil && ok {
		fail(letter)
		return nil
	}
	if err == nil {
		results.Inc(ctx, 1)
		emit(Vector{Name: t.Name, Rows: 1, Values: out})
	}
	return err
}

func init() {
	register.DoFn4x0[context.Context, Text, func(Continuation), func(Failure)](&generateFn{})
	register.DoFn4x1[context.Context, Text, func(Vector), func(Failure), error](&embedFn{})
	register.Emitter1[Continuation]()
	register.Emitter1[Vector]()
}
