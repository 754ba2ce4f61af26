package main

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/tokenizer"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/text"
	"github.com/rlx-go/rlx/train"
)

// trainText trains language models.
type trainText struct {
	text, eval string
	scratch    bool
	adapter    string
}

func (k *trainText) declare(fs *cli.FlagSet) {
	fs.Group("A language model (rlxc --train lora=RANK or full)")
	fs.StringVar(&k.text, "text", "", "`FILE` the text to train on, UTF-8; - is stdin")
	fs.StringVar(&k.eval, "eval", "", "`FILE` a text that is not trained on, whose loss is measured")
	fs.StringVar(&k.adapter, "adapter", "", "`DIR` begin with this adapter (default random, without effect at first)")
	fs.BoolVar(&k.scratch, "from-scratch", false, "begin with random weights (artifacts of rlxc --train full)")
}

func (k *trainText) names() []string { return []string{"text", "eval", "adapter", "from-scratch"} }

func (k *trainText) settle() error {
	switch {
	case k.text == "":
		return cli.Usagef("--text", "is missing").WithHint("for example --text corpus.txt")
	case k.adapter != "" && k.scratch:
		return cli.Usagef("--from-scratch", "cannot be combined with --adapter")
	case k.text == "-" && k.eval == "-":
		return cli.Usagef("--eval", "stdin has the text to train on already")
	}
	return nil
}

func (k *trainText) defaults(steps int) train.Settings { return train.Defaults(steps) }

func (k *trainText) begin(ctx context.Context, s *session, f *trainFlags) (*training, error) {
	about := s.model.Task().(*task.Train)
	ids, held, err := k.texts(ctx, s, about)
	if err != nil {
		return nil, err
	}
	inputs := slices.DeleteFunc([]string{k.text, k.eval, k.adapter}, func(p string) bool { return p == "" || p == "-" })
	if err := s.ready(ctx, nil, inputs); err != nil {
		return nil, err
	}
	t, err := train.New(ctx, s.host, ids, train.Options{Settings: f.settings, Scratch: k.scratch, Adapter: k.adapter})
	if err != nil {
		if e, ok := errors.AsType[*rlx.Error](err); ok && e.Subject == "text" {
			e.Subject = k.text
		}
		return nil, err
	}
	out := &training{learner: t, about: about, save: t.SaveModel,
		examples: func(steps int) (float64, string) { return float64(steps * about.Batch * about.Tokens), "tokens" }}
	if about.Rank > 0 {
		out.save = t.SaveAdapter
	}
	if held != nil {
		out.evaluate = func(ctx context.Context) (evalJSON, error) {
			loss, _, err := t.Evaluate(ctx, held)
			return evalJSON{Loss: loss, Perplexity: math.Exp(loss)}, err
		}
	}
	return out, nil
}

// texts returns the tokens of --text, and those of --eval or nil.
func (k *trainText) texts(ctx context.Context, s *session, about *task.Train) (ids, held []int, err error) {
	if about.Tokenizer == "" {
		return nil, nil, cli.Usagef(s.model.Path(), "has no tokenizer").WithHint(
			"put tokenizer.json beside the checkpoint and compile it again")
	}
	doc, err := s.model.Attachment(about.Tokenizer, tokenizer.MaxFile)
	if err != nil {
		return nil, nil, err
	}
	t, err := text.ParseTokenizer(doc)
	if err != nil {
		return nil, nil, subject(err, s.model.Path())
	}
	read := func(path string) ([]int, error) {
		words, err := readText(ctx, path, s.env.Stdin, maxText)
		if err != nil {
			return nil, err
		}
		ids, err := ctxio.Do(ctx, "tokenize", func() ([]int, error) { return t.Encode(words, true) }, nil)
		if err == nil && len(ids) <= about.Tokens {
			err = train.CheckText(len(ids), about.Tokens)
		}
		return ids, subject(err, path)
	}
	if ids, err = read(k.text); err != nil || k.eval == "" {
		return ids, nil, err
	}
	held, err = read(k.eval)
	return ids, held, err
}
