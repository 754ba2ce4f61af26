// Package text continues texts with models that declare the task "text", such as Llama. A Generator holds a
// conversation or another sequence of tokens, and appends to it:
//
//	session, err := rlx.Load(ctx, "llama.rlx", "cpu")
//	g, err := text.NewGenerator(ctx, session)
//	prompt, err := g.EncodeChat([]text.Message{{Role: "user", Content: "Why is the sky blue?"}})
//	for token, err := range g.Stream(ctx, prompt, text.Options{}) {
//		fmt.Print(token.Text)
//	}
//
// GenerateBatch continues several texts at a time.
//
// Errors are those of package rlx, such as rlx.ErrUsage and rlx.ErrLost, and the cases below.
package text

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
)

// Errors for errors.Is.
var (
	// ErrPrompt is a case of rlx.ErrUsage: a prompt has no tokens or ids outside the vocabulary, is text although the
	// artifact has no tokenizer or no chat template, or has other images than places for them.
	ErrPrompt error = code.TextPrompt
	// ErrContext is a case of rlx.ErrUsage: a text has more tokens than the model can see.
	ErrContext error = code.TextContext
	// ErrText reports a text that cannot be tokenized, for example because it is not valid UTF-8.
	ErrText error = code.TokenizerText
	// ErrSampling is a case of rlx.ErrUsage: a parameter of Sampling has a value that is not allowed.
	ErrSampling error = code.TextSampling
	// ErrGrammar is a case of rlx.ErrUsage: a grammar or JSON schema that is wrong or not supported, or that no text of
	// the model can follow.
	ErrGrammar error = code.TextGrammar
)

// Sampling holds the parameters for drawing a token. The zero value always chooses the most probable one.
type Sampling struct {
	Temperature float64 `json:"temperature"` // divides the logits; 0 always chooses the most probable token
	TopK        int     `json:"top_k"`       // chooses among the TopK most probable tokens; 0 means all
	// chooses among the most probable tokens whose probabilities add up to TopP; 0 and 1 mean all
	TopP float64 `json:"top_p"`
	// chooses among tokens with at least MinP times the highest probability; 0 means all
	MinP float64 `json:"min_p"`
	// RepeatPenalty divides positive logits, and multiplies negative ones, of tokens that are among the last of the
	// context. 0 and 1 switch it off.
	RepeatPenalty float64 `json:"repeat_penalty"`
}

// Options holds the options of Generate, Stream and GenerateBatch. With the zero value tokens are drawn as the artifact
// suggests, until a token ends the text or the context is full. If all layers of a model have a sliding window, the
// context is never full.
type Options struct {
	Tokens int // maximum number of generated tokens; 0 means no limit
	// Sampling holds the parameters for drawing tokens; nil means Facts.Sampling, which the artifact suggests.
	// &Sampling{} always chooses the most probable token.
	Sampling  *Sampling
	Seed      uint64   // the same seed draws the same tokens on every backend
	Stop      []string // texts that end generation; they are not part of the result
	IgnoreEnd bool     // continue after tokens that end a text
	Logits    bool     // keep the logits, in Result.Logits
	Top       int      // tokens to list in Token.Top
	Adjust    *Adjust  // changes logits before a token is drawn, if not nil
	Grammar   *Grammar // allows only texts that it describes, if not nil
	// Images are those of the ids, in the order of their places. EncodeMessages and PlaceImages make such ids.
	Images []*Image
	// Each, if not nil, is called with every token as it is chosen. Its error ends the text; Generate returns it with
	// the result.
	Each func(Token) error
	// Runner, if not nil, runs methods in place of the session, for example to set Request.CheckNaN in each request.
	Runner rlx.Runner

	guide *guide // follows Grammar
}

// A Token is one token of a generated text.
type Token struct {
	ID      int
	LogProb float32 // natural logarithm of its probability, before temperature and limits apply
	// the text that it adds: whole characters, or nothing while a character is incomplete or a stop text may have begun
	Text string
	Time time.Duration // since Generate was called
	// with Options.Top: the most probable tokens in its place, the most probable one first
	Top []TokenLogProb
}

// A Result is a text that was generated.
type Result struct {
	Tokens []Token
	Text   string // without the stop text; empty for a model without a tokenizer
	Stop   Stop   // reason for its end
	// with Options.Grammar: the text was cut off before the grammar allows it to end
	Unfinished bool
	Logits     []float32 // with Options.Logits: for each token, the row of logits from which it was chosen

	Start    time.Time
	Prompt   int           // number of tokens before the first one that was chosen
	Cached   int           // of these, in a Batch, tokens that another text had computed
	Drafted  int           // number of tokens that the draft head proposed
	Accepted int           // number of proposals with which the model agreed
	Prefill  time.Duration // time until the first token was chosen
	Duration time.Duration
}

// IDs returns the ids of the tokens.
func (t *Result) IDs() []int {
	out := make([]int, len(t.Tokens))
	for i, x := range t.Tokens {
		out[i] = x.ID
	}
	return out
}

// Stop is the reason for which a text ended.
type Stop string

const (
	StopLength    Stop = "length"    // Options.Tokens was reached
	StopEnd       Stop = "end"       // the last token ends a text
	StopGrammar   Stop = "grammar"   // the text is whole by Options.Grammar, and nothing may follow
	StopString    Stop = "stop"      // one of Options.Stop was found
	StopContext   Stop = "context"   // the model can see no more tokens
	StopCancelled Stop = "cancelled" // an error ended it, such as a context that is done
)

// A Generator continues a sequence of tokens with a model that declares the task "text". It owns a State. Generated
// tokens stay in the sequence, so a second call continues it, as in a conversation. A Generator is not safe for
// concurrent use, but several generators of one session may be used concurrently.
type Generator struct {
	spec      *spec
	session   *rlx.Session
	state     *rlx.State
	tokenizer *Tokenizer // nil if the artifact has none
	seen      []int      // tokens in the state
	shown     []shown    // images among them
	dropped   int        // rows that were dropped from the state
	last      []int      // the last tokens, which are not in the state yet: usually one, several after drafts, or none
	run       textRun
	draft     drafter
}

// NewGenerator loads the method of the task and makes a state. Close the generator after use; closing the session frees
// its memory, too.
//
// Errors match rlx.ErrUsage (the model does not declare the task "text"), rlx.ErrArtifact (its tokenizer is damaged),
// or are those of rlx.Session.Load and rlx.Session.NewState.
func NewGenerator(ctx context.Context, s *rlx.Session) (*Generator, error) {
	about, err := specOf(s.Model())
	if err != nil {
		return nil, err
	}
	g := &Generator{spec: about, session: s}
	if g.tokenizer, err = tokenizerOf(s.Model(), about); err != nil {
		return nil, err
	}
	for _, name := range []string{about.Method, about.Slide.Method} {
		if name == "" {
			continue
		}
		if err := s.Load(ctx, name); err != nil {
			return nil, err
		}
	}
	if g.state, err = s.NewState(ctx); err != nil {
		return nil, err
	}
	g.run.prepare(g.spec, 1)
	g.run.set(s, g.spec, Options{}, false)
	return g, nil
}

// Facts returns facts about the model.
func (g *Generator) Facts() Facts { return g.spec.facts() }

// Close frees the state.
func (g *Generator) Close() error { return cmp.Or(g.state.Close(), g.draft.close()) }

// IDs returns the tokens of the sequence so far, given and generated.
func (g *Generator) IDs() []int { return slices.Concat(g.seen, g.last) }

// Reset empties the sequence.
func (g *Generator) Reset(ctx context.Context) error {
	g.seen, g.shown, g.dropped, g.last, g.draft.copied = g.seen[:0], nil, 0, nil, false
	return g.state.Reset(ctx)
}

// Encode turns text into tokens. It adds special tokens that begin a text if the sequence is empty. The error matches
// ErrPrompt if the artifact has no tokenizer, or ErrText if the text cannot be tokenized, for example because it is not
// valid UTF-8.
func (g *Generator) Encode(text string) ([]int, error) {
	t, err := NewTokenizer(g.session.Model())
	if err != nil {
		return nil, err
	}
	return t.Encode(text, len(g.seen)+len(g.last) == 0)
}

// Decode returns the text of tokens, without special ones. It returns "" if the artifact has no tokenizer.
func (g *Generator) Decode(ids []int) string {
	if g.tokenizer == nil {
		return ""
	}
	return g.tokenizer.Decode(ids, true)
}

// Append appends ids to the sequence without generating a token. images are those of the ids, as in Options. Errors are
// those of Generate.
func (g *Generator) Append(ctx context.Context, ids []int, images ...*Image) error {
	all, places, err := g.check(ids, images)
	if err != nil || len(ids) == 0 {
		return err
	}
	run, end := graceful(ctx)
	defer end()
	g.run.set(g.session, g.spec, Options{}, g.draft.count > 0)
	if err := g.feed(ctx, run, all, len(all)-1, places); err != nil {
		return err
	}
	g.last = all[len(all)-1:]
	return nil
}

// Generate appends ids to the sequence and continues it.
//
// When ctx is done, Generate ends within a second. It returns the text so far with the context's cause. The sequence
// stays usable, unless a run had to be cancelled; the error then matches rlx.ErrState. Other errors match ErrPrompt,
// ErrSampling, ErrContext (prompt and Tokens exceed the model's context), ErrGrammar or rlx.ErrNaN, or are those of
// rlx.Session.Run. If some tokens were generated, the result is returned with the error.
func (g *Generator) Generate(ctx context.Context, ids []int, o Options) (*Result, error) {
	start := time.Now()
	if err := g.spec.check(o); err != nil {
		return nil, err
	}
	all, places, err := g.check(ids, o.Images)
	if err != nil {
		return nil, err
	}
	if err := g.checkDrafts(o); err != nil {
		return nil, err
	}
	run, end := graceful(ctx)
	defer end()
	if err := o.begin(g.spec, g.tokenizer); err != nil {
		return nil, err
	}
	g.run.set(g.session, g.spec, o, g.draft.count > 0)
	t := &Result{Stop: StopCancelled, Start: start, Prompt: len(all)}
	defer func() { t.Duration, t.Unfinished = time.Since(start), o.guide.unfinished() }()
	first := 0
	if n := len(places); n > 0 {
		first = places[n-1].at + places[n-1].image.Tokens()
	}
	first += (len(all) - 1 - first) / g.spec.Chunk * g.spec.Chunk
	if err := g.feed(ctx, run, all, first, places); err != nil {
		return nil, err
	}
	out := newTextStream(g.tokenizer, o.Stop)
	for rest := all[first:]; ; rest = g.last {
		if ctx.Err() != nil {
			return t.ended(out), context.Cause(ctx)
		}
		at := len(g.seen) + len(rest) // position of the chosen token
		var chosen []Token
		if g.draft.count > 0 && len(t.Tokens) > 0 {
			chosen, err = g.speculate(run, t, &o)
		} else {
			chosen, err = g.chooseOne(run, rest, t, &o)
		}
		if err != nil {
			return t.ended(out), err
		}
		over, ids := false, []int(nil)
		for i := 0; i < len(chosen) && !over && err == nil; i++ {
			over, err = t.take(g.spec, chosen[i], at+i == g.spec.most(), out, &o)
			ids = append(ids, chosen[i].ID)
		}
		if g.draft.count > 0 {
			if failed := g.accept(run, ids); failed != nil {
				return t.ended(out), cmp.Or(err, failed)
			}
		} else {
			g.last = ids
		}
		switch {
		case err != nil:
			t.Stop = StopCancelled
			return t.ended(out), err
		case t.Stop == StopContext && o.Tokens > 0:
			return t, g.spec.full(len(t.Tokens), o.Tokens)
		case over:
			return t, nil
		}
	}
}

// take adds a token to a text. over reports whether it is the last one. full tells that the sequence has no room for
// it.
func (t *Result) take(about *spec, x Token, full bool, out *textStream, o *Options) (over bool, err error) {
	x.Time = time.Since(t.Start)
	if len(t.Tokens) == 0 {
		t.Prefill = x.Time
	}
	if !o.IgnoreEnd && slices.Contains(about.End, x.ID) {
		t.Stop, over = StopEnd, true
		x.Text = out.flush()
	} else if x.Text, over = out.next(x.ID); over {
		t.Stop = StopString
	} else if o.guide != nil {
		if over, err = o.guide.accept(x.ID); err != nil {
			return false, err
		}
		if over {
			t.Stop = StopGrammar
			x.Text += out.flush()
		}
	}
	if enough := len(t.Tokens)+1 == o.Tokens; !over && (enough || full) {
		t.Stop, over = StopContext, true
		if enough {
			t.Stop = StopLength
		}
		x.Text += out.flush()
	}
	t.Tokens = append(t.Tokens, x)
	t.Text += x.Text
	if o.Each != nil {
		err = o.Each(x)
	}
	return over, err
}

// errLeft ends a text when the loop over Stream was left.
var errLeft = errors.New("the caller left the loop")

// Stream is like Generate, but yields every token as it is chosen. The loop may be left at any time. An error comes
// last, with a Token that has the rest of the text.
func (g *Generator) Stream(ctx context.Context, ids []int, o Options) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		given, each := 0, o.Each
		o.Each = func(t Token) error {
			given += len(t.Text)
			if each != nil {
				if err := each(t); err != nil {
					return err
				}
			}
			if !yield(t, nil) {
				return errLeft
			}
			return nil
		}
		t, err := g.Generate(ctx, ids, o)
		if err != nil && !errors.Is(err, errLeft) {
			rest := Token{ID: -1}
			if t != nil {
				rest.Text = t.Text[given:]
			}
			yield(rest, err)
		}
	}
}

// Keys in the metadata of a state file: the tokens of the sequence, the images among them, and the number of rows
// dropped from the state.
const (
	idsKey     = "rlx.text.ids"
	imagesKey  = "rlx.text.images"
	droppedKey = "rlx.text.dropped"
)

// Save writes the sequence, tokens and state, in the safetensors format. Load restores it, for example to compute the
// common beginning of many prompts only once. Errors are those of rlx.State.Export.
func (g *Generator) Save(ctx context.Context, w io.Writer) error {
	if n := len(g.last); n > 1 { // Load expects all tokens but the last in the state
		g.run.set(g.session, g.spec, Options{}, g.draft.count > 0)
		run, end := graceful(ctx)
		defer end()
		last := g.last
		if err := g.feed(ctx, run, last, n-1, nil); err != nil {
			return err
		}
		g.last = last[n-1:]
	}
	meta := map[string]string{}
	maps.Copy(meta, g.state.Meta)
	meta[idsKey] = strings.Trim(fmt.Sprint(g.IDs()), "[]")
	delete(meta, droppedKey)
	delete(meta, imagesKey)
	if len(g.shown) > 0 {
		meta[imagesKey] = formatShown(g.shown)
	}
	if g.dropped > 0 {
		meta[droppedKey] = strconv.Itoa(g.dropped)
	}
	g.state.Meta = meta
	return g.state.Export(ctx, w)
}

// Load replaces the sequence by one that Save wrote for the same artifact. Errors match rlx.ErrInput if the file does
// not fit, or are those of rlx.Session.ImportState; the sequence is then unchanged.
func (g *Generator) Load(ctx context.Context, path string) error {
	st, err := g.session.ImportState(ctx, path)
	if err != nil {
		return err
	}
	meta := st.Meta
	ids, err := g.parseIDs(path, meta[idsKey])
	dropped := 0
	if err == nil {
		dropped, err = g.parseDropped(path, meta[droppedKey], max(0, len(ids)-1))
	}
	var images []shown
	if err == nil {
		images, err = g.parseShown(path, meta[imagesKey], ids)
	}
	if err != nil {
		st.Close()
		return err
	}
	g.state.Close()
	g.state = st
	rows := max(0, len(ids)-1)
	g.dropped, g.shown = dropped, images
	g.seen, g.last, g.draft.copied = ids[:rows:rows], ids[rows:], false
	return nil
}
