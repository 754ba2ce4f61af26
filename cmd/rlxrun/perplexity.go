package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/text"
)

type perplexityFlags struct {
	text    string
	options text.PerplexityOptions
	host    hostFlags
}

func perplexityCommand() *cli.Command {
	return &cli.Command{
		Name: "perplexity", Args: "MODEL.rlx --text FILE [flags]",
		Short: "measure how well a language model predicts a text",
		Long: `Prints the mean negative log likelihood of the tokens of a text, in nats, and its exponential, the perplexity. Use it to compare what
rlxc --quantize and other choices cost: give the same text, window and stride to both artifacts. Less is better. The model sees a window of the text at a
time; each window starts --stride tokens after the one before, and only its new tokens count.`,
		Examples: []cli.Example{
			{About: "the perplexity on a text of one's own", Line: "rlxrun perplexity llama.rlx --text book.txt"},
			{About: "more context for each token, at four times the time of stride 512",
				Line: "rlxrun perplexity llama.rlx --text book.txt --window 512 --stride 128"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f perplexityFlags
			fs.Group("What is measured")
			fs.StringVar(&f.text, "text", "", "`FILE` the text, UTF-8; - is stdin")
			fs.IntVar(&f.options.Window, "window", 0,
				"`TOKENS` how many tokens the model sees at a time (default 512, or what it takes if that is less)")
			fs.IntVar(&f.options.Stride, "stride", 0,
				"`TOKENS` by how many tokens a window follows the one before (default half the window)")
			f.host.declare(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if f.text == "" {
					return cli.Usagef("--text", "is missing").WithHint("for example --text book.txt")
				}
				for _, name := range []string{"window", "stride"} {
					if n, _ := fs.GetInt(name); fs.Changed(name) && n < 1 {
						return cli.Usagef("--"+name, "is %d; allowed are 1 and more", n)
					}
				}
				return inSession(ctx, env, args, &f.host, new(debugFlags), func(ctx context.Context, s *session) error {
					return s.perplexity(ctx, &f)
				})
			}
		},
	}
}

// perplexityJSON is the result as JSON.
type perplexityJSON struct {
	Tokens     int     `json:"tokens"` // that were predicted
	Loss       float64 `json:"loss"`   // mean negative log likelihood in nats
	Perplexity float64 `json:"perplexity"`
	Window     int     `json:"window"`
	Stride     int     `json:"stride"`
	MS         float64 `json:"ms"`
}

func (s *session) perplexity(ctx context.Context, f *perplexityFlags) error {
	ids, err := s.readIDs(ctx, f.text)
	if err != nil {
		return err
	}
	if err := s.ready(ctx, nil, []string{f.text}); err != nil {
		return err
	}
	var bar *cli.Progress
	defer func() { bar.Clear() }()
	o, start := f.options, time.Now()
	o.Progress = func(done, total int) {
		if bar == nil {
			bar = s.env.Progress("predicting", int64(total))
		}
		bar.Set(int64(done))
	}
	r, err := text.Perplexity(ctx, s.host, ids, o)
	bar.Clear()
	if err != nil {
		return asTextFlag(err, f.text)
	}
	if s.env.JSON {
		return s.env.WriteJSON(
			perplexityJSON{r.Tokens, r.Loss, r.Perplexity, r.Window, r.Stride, ms(time.Since(start))})
	}
	return s.env.Table([][]string{
		{"tokens", fmt.Sprintf("%d, in windows of %d, each %d after the one before", r.Tokens, r.Window, r.Stride)},
		{"loss", fmt.Sprintf("%.5f nats per token", r.Loss)},
		{"perplexity", fmt.Sprintf("%.4f", r.Perplexity)},
	})
}

// readIDs returns the tokens of a text file.
func (s *session) readIDs(ctx context.Context, path string) ([]int, error) {
	t, err := text.NewTokenizer(s.model)
	if err != nil {
		return nil, err
	}
	words, err := readText(ctx, path, s.env.Stdin, maxText)
	if err != nil {
		return nil, err
	}
	ids, err := ctxio.Do(ctx, "tokenize", func() ([]int, error) { return t.Encode(words, true) }, nil)
	return ids, subject(err, path)
}

// asTextFlag names the flag or the file that an error of Perplexity is about.
func asTextFlag(err error, path string) error {
	if e, ok := err.(*rlx.Error); ok {
		switch e.Subject {
		case "text":
			e.Subject = path
		case "window", "stride":
			e.Subject = "--" + e.Subject
		}
	}
	return err
}
