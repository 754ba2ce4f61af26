package text

import (
	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/task"
)

// Facts describes a language model: its limits and its defaults.
type Facts struct {
	Vocabulary int      // ids are less than this
	Context    int      // maximum number of tokens of a sequence; huge if all layers have a sliding window
	Sampling   Sampling // that the artifact suggests, from the generation_config.json of the checkpoint
	End        []int    // ids that end a text
	// texts that GenerateBatch continues in one run; 0 if the model was compiled for one sequence at a time
	Sequences int
	Pages     int // that texts of a Batch share; 0 if each has a part of the state to itself
	Drafts    int // largest number for Generator.Draft; 0 if the model has no draft head

	Tokenizer    bool // the artifact has a tokenizer; otherwise prompts are ids
	ChatTemplate bool // the artifact has a chat template, for ChatPrompt
	Images       bool // a prompt may have images
}

// FactsOf returns facts about a model. The error matches rlx.ErrUsage if the model does not declare the task "text".
func FactsOf(m *rlx.Model) (Facts, error) {
	t, err := specOf(m)
	if err != nil {
		return Facts{}, err
	}
	return t.facts(), nil
}

// A spec is the description in the artifact.
type spec task.Text

func specOf(m *rlx.Model) (*spec, error) {
	t, ok := m.Task().(*task.Text)
	if !ok {
		return nil, diag.New(diag.Usage, m.Path(), "declares no task %q", task.KindText)
	}
	return (*spec)(t), nil
}

func (t *spec) facts() Facts {
	f := Facts{Vocabulary: t.Vocabulary, Context: t.most(), Sampling: Sampling(t.Sampling), End: t.End,
		Sequences: t.sequences(), Pages: max(0, t.Batch.PageCount-1),
		Tokenizer: t.Tokenizer != "", ChatTemplate: t.ChatTemplate != "",
		Images: t.takesImages()}
	if t.Draft.Method != "" {
		f.Drafts = t.drafts()
	}
	return f
}

// sequences returns the number of texts of a Batch.
func (t *spec) sequences() int {
	if t.Batch.Sequence == "" && t.Batch.Pages == "" {
		return 0
	}
	return t.Batch.Sequences
}

func (t *spec) perSequence() int { return (*task.Text)(t).PerSequence() }

func (t *spec) takesImages() bool { return (*task.Text)(t).TakesImages() }

func (t *spec) slides() bool { return (*task.Text)(t).Slides() }

func (t *spec) most() int { return (*task.Text)(t).Most() }

// drafts returns the largest number of tokens that a draft head may propose at a time.
func (t *spec) drafts() int { return min(MaxDrafts, (t.Chunk-1)/2) }

// sampling returns the parameters that options stand for.
func (t *spec) sampling(o Options) task.Sampling {
	if o.Sampling != nil {
		return task.Sampling(*o.Sampling)
	}
	return t.Sampling
}

// check checks options.
func (t *spec) check(o Options) error {
	if err := (*task.Text)(t).CheckSampling(t.sampling(o)); err != nil {
		return err
	}
	if o.Tokens < 0 {
		return diag.New(diag.Usage, "Options.Tokens", "is %d; allowed are 1 and more, and 0 for no limit", o.Tokens)
	}
	if len(o.Images) > 0 && !t.takesImages() {
		return diag.New(code.TextPrompt, "prompt", "has %d images; the model takes none", len(o.Images))
	}
	return t.checkHost(o)
}

// Check checks the parameters for a model. Generate does the same. The error matches ErrSampling.
func (s Sampling) Check(f Facts) error {
	return (&task.Text{Vocabulary: f.Vocabulary}).CheckSampling(task.Sampling(s))
}

// CheckPrompt checks ids that begin a sequence against the vocabulary and the context. Generate does the same; call
// CheckPrompt to find a mistake before anything is loaded. The error matches ErrPrompt or ErrContext.
func (f Facts) CheckPrompt(ids []int) error {
	return (&spec{Vocabulary: f.Vocabulary, Context: f.Context}).checkPrompt(ids, 0)
}

// checkPrompt checks tokens that follow seen others against the vocabulary and the context. The error matches
// code.TextPrompt or code.TextContext.
func (t *spec) checkPrompt(ids []int, seen int) error {
	for i, id := range ids {
		if id < 0 || id >= t.Vocabulary {
			return diag.New(code.TextPrompt, "prompt", "id %d is %d; the vocabulary has 0 to %d", i, id, t.Vocabulary-1)
		}
	}
	switch n := len(ids); {
	case n+seen == 0:
		return diag.New(code.TextPrompt, "prompt", "has no tokens; want one or more")
	case n+seen > t.most() && seen > 0:
		return diag.New(code.TextContext, "prompt", "has %d tokens after %d; the context has %d", n, seen,
			t.Context).WithHint(goOn)
	case n+seen > t.most():
		return t.tooLong(n)
	}
	return nil
}

// tooLong returns the error for a prompt of n tokens that exceeds the context.
func (t *spec) tooLong(n int) error {
	return diag.New(code.TextContext, "prompt", "has %d tokens; the context has %d", n, t.Context).WithHint(goOn)
}

// full returns the error for a context that was full after done of n tokens were generated.
func (t *spec) full(done, n int) error {
	return diag.New(code.TextContext, "context", "its %d tokens are full after %d of %d generated ones", t.Context,
		done, n).WithHint(goOn)
}

const goOn = "give a shorter prompt, generate less, or compile the model with a larger context (rlxc --context N)"
