package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/tokenizer"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/text"
	"github.com/rlx-go/rlx/train"
)

type trainFlags struct {
	fs               *cli.FlagSet
	text, eval       string
	evalEvery        int
	save, plot       string
	checkpoint       string
	every            int
	resume           bool
	settings         train.Settings
	schedule         cli.Choice
	scratch          bool
	adapter          string
	host             hostFlags
	warmup, logEvery int
}

func trainCommand() *cli.Command {
	return &cli.Command{
		Name: "train", Args: "MODEL.rlx --text FILE -n STEPS [flags]",
		Short: "train a language model or an adapter on a text",
		Long: `Trains what rlxc --train prepared: low-rank adapters (LoRA) beside a model that stays as it is, or all weights. Each step takes sequences of the
text, in an order that follows from --seed, and prints the loss: the mean negative log likelihood of a token, in nats. An adapter is saved in PEFT's format, for
rlxrun --lora and for Python. docs/training.md explains it step by step.`,
		Examples: []cli.Example{
			{About: "an adapter, in 300 steps, with a picture of the loss",
				Line: "rlxrun train t.rlx --text corpus.txt -n 300 --save my-adapter --plot loss.svg"},
			{About: "use it with the model, compiled with rlxc --lora 8",
				Line: "rlxrun llama.rlx --lora my-adapter --prompt \"ROMEO:\""},
			{About: "with checkpoints; the same command goes on after a crash",
				Line: "rlxrun train t.rlx --text corpus.txt -n 3000 --checkpoint run.ckpt --resume --save my-adapter"},
			{About: "a small model from random weights (rlxc --train full)",
				Line: "rlxrun train t.rlx --text corpus.txt -n 2000 --from-scratch --lr 1e-3 --eval held-out.txt --save model.safetensors"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			f := trainFlags{fs: fs, settings: train.Defaults(0)}
			f.declare()
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if err := f.settle(); err != nil {
					return err
				}
				return inSession(ctx, env, args, &f.host, new(debugFlags), func(ctx context.Context, s *session) error {
					return s.train(ctx, &f)
				})
			}
		},
	}
}

func (f *trainFlags) declare() {
	fs, s := f.fs, &f.settings
	fs.Group("What is trained")
	fs.StringVar(&f.text, "text", "", "`FILE` the text to train on, UTF-8; - is stdin")
	fs.IntVarP(&s.Steps, "steps", "n", 0, "`N` number of steps")
	fs.StringVar(&f.save, "save", "",
		"`PATH` write the result: an adapter to a folder, or to a .safetensors file with adapter_config.json beside it; a model to a .safetensors file")
	fs.StringVar(&f.adapter, "adapter", "", "`DIR` begin with this adapter (default random, without effect at first)")
	fs.BoolVar(&f.scratch, "from-scratch", false, "begin with random weights (artifacts of rlxc --train full)")
	fs.Group("How")
	fs.Float64Var(&s.LearningRate, "lr", s.LearningRate, "`RATE` largest learning rate")
	fs.ChoiceVar(&f.schedule, "schedule", "how the learning rate falls after the warm-up",
		slices.Insert(slices.DeleteFunc(train.Schedules(), func(x string) bool { return x == string(train.Cosine) }), 0,
			string(train.Cosine))...)
	fs.IntVar(&f.warmup, "warmup", 0, "`N` steps in which the learning rate grows (default a tenth)")
	fs.Float64Var(&s.WeightDecay, "weight-decay", s.WeightDecay,
		"`RATE` decay of all trained values, times the learning rate")
	fs.Float64Var(&s.Clip, "clip", s.Clip, "`NORM` largest norm of all gradients together; 0 is off")
	fs.Float64Var(&s.Momentum, "momentum", s.Momentum, "`M` of SGD")
	fs.Float64Var(&s.Beta1, "beta1", s.Beta1, "`B` of AdamW")
	fs.Float64Var(&s.Beta2, "beta2", s.Beta2, "`B` of AdamW")
	fs.Float64Var(&s.Epsilon, "epsilon", s.Epsilon, "`E` of AdamW")
	fs.Uint64Var(&s.Seed, "seed", 0, "`N` seed of the order of the text and of random first values")
	fs.Group("Watching and going on")
	fs.StringVar(&f.eval, "eval", "", "`FILE` a text that is not trained on, whose loss is measured")
	fs.IntVar(&f.evalEvery, "eval-every", 0, "`N` steps between evaluations (default a tenth of all)")
	fs.IntVar(&f.logEvery, "log-every", 0, "`N` steps between lines of progress (default a twentieth of all)")
	fs.StringVar(&f.plot, "plot", "", "`FILE.svg` draw the loss")
	fs.StringVar(&f.checkpoint, "checkpoint", "", "`FILE` save all that is needed to go on")
	fs.IntVar(&f.every, "checkpoint-every", 100, "`N` steps between checkpoints")
	fs.BoolVar(&f.resume, "resume", false,
		"go on from --checkpoint if the file exists, with the same bits as without the interruption")
	f.host.declare(fs)
}

// settle checks the flags and sets the defaults that depend on others.
func (f *trainFlags) settle() error {
	switch s := &f.settings; {
	case f.text == "":
		return cli.Usagef("--text", "is missing").WithHint("for example --text corpus.txt")
	case s.Steps < 1:
		return cli.Usagef("-n", "%d steps; allowed are 1 and more", s.Steps).WithHint("for example -n 300")
	case f.resume && f.checkpoint == "":
		return cli.Usagef("--resume", "requires --checkpoint FILE")
	case f.adapter != "" && f.scratch:
		return cli.Usagef("--from-scratch", "does not go with --adapter")
	case f.text == "-" && f.eval == "-":
		return cli.Usagef("--eval", "stdin has the text to train on already")
	}
	for _, name := range []string{"eval-every", "log-every", "checkpoint-every"} {
		if n, _ := f.fs.GetInt(name); f.fs.Changed(name) && n < 1 {
			return cli.Usagef("--"+name, "is %d; allowed are 1 and more", n)
		}
	}
	f.settings.Schedule = train.Schedule(f.schedule.Value)
	f.settings.Warmup = f.settings.Steps / 10
	if f.fs.Changed("warmup") {
		f.settings.Warmup = f.warmup
	}
	if f.evalEvery == 0 {
		f.evalEvery = max(1, f.settings.Steps/10)
	}
	if f.logEvery == 0 {
		f.logEvery = max(1, f.settings.Steps/20)
	}
	return nil
}

// trainJSON is the result as JSON.
type trainJSON struct {
	Steps      int        `json:"steps"`
	Losses     []float32  `json:"losses"`
	Eval       []evalJSON `json:"eval,omitempty"`
	MS         float64    `json:"ms"`
	StepMS     float64    `json:"median_step_ms"`
	Tokens     float64    `json:"tokens_per_s"`
	PeakMemory int64      `json:"backend_peak_rss_bytes"`
}

type evalJSON struct {
	Step       int     `json:"step"`
	Loss       float64 `json:"loss"`
	Perplexity float64 `json:"perplexity"`
}

func (s *session) train(ctx context.Context, f *trainFlags) error {
	about, ok := s.model.Task().(*task.Train)
	if !ok {
		return cli.Usagef(s.model.Path(), "was not compiled for training").WithHint(
			"compile the checkpoint with rlxc --train lora=8, or --train full")
	}
	ids, held, err := f.texts(ctx, s, about)
	if err != nil {
		return err
	}
	inputs := slices.DeleteFunc([]string{f.text, f.eval, f.adapter}, func(p string) bool { return p == "" || p == "-" })
	if err := s.ready(ctx, nil, inputs); err != nil {
		return err
	}
	t, err := train.New(ctx, s.host, ids, train.Options{Settings: f.settings, Scratch: f.scratch, Adapter: f.adapter})
	if err != nil {
		return f.inFlags(err)
	}
	defer t.Close()
	if err := f.goOn(ctx, s, t); err != nil {
		return err
	}
	start, first := time.Now(), t.Done()
	curve, times, err := f.steps(ctx, s, t, held)
	took := time.Since(start)
	if f.plot != "" && len(curve.Losses) > 0 && (err == nil || errors.Is(err, rlx.ErrNaN)) {
		drawn := atomicfile.WriteFile(ctx, f.plot, curve.SVG)
		if err == nil {
			err = drawn
		}
	}
	if err != nil {
		return err
	}
	if err := f.saveResult(ctx, t, about); err != nil {
		return err
	}
	out := trainJSON{Steps: t.Done(), Losses: t.Losses(), MS: ms(took), PeakMemory: s.host.PeakMemory()}
	for _, e := range curve.Eval {
		out.Eval = append(out.Eval, evalJSON{e.Step, e.Loss, math.Exp(e.Loss)})
	}
	if n := len(times); n > 0 {
		slices.Sort(times)
		out.StepMS = ms(times[n/2])
		out.Tokens = float64((t.Done()-first)*about.Batch*about.Tokens) / took.Seconds()
	}
	if s.env.JSON {
		return s.env.WriteJSON(out)
	}
	io.WriteString(s.env.Stdout, curve.Text(64, 8)) // Exec checks standard output at the end
	return s.env.Table(f.summary(out, about, s))
}

func (f *trainFlags) summary(out trainJSON, about *task.Train, s *session) [][]string {
	rows := [][]string{
		{"trained", about.String()},
		{"device", deviceName(s.backend.Name, s.host.Device())},
		{"loss", fmt.Sprintf("%.4f in the first step, %.4f in the last", out.Losses[0], out.Losses[len(out.Losses)-1])},
	}
	if n := len(out.Eval); n > 0 {
		rows = append(rows, []string{"evaluation", fmt.Sprintf("loss %.4f, perplexity %.4g", out.Eval[n-1].Loss,
			out.Eval[n-1].Perplexity)})
	}
	if out.StepMS > 0 {
		rows = append(rows, []string{"speed", fmt.Sprintf("%.0f ms a step, %.0f tokens/s", out.StepMS, out.Tokens)})
	}
	rows = append(rows, []string{"peak memory", "backend " + cli.Size(out.PeakMemory)})
	for _, x := range [][2]string{{"saved", f.save}, {"plot", f.plot}, {"checkpoint", f.checkpoint}} {
		if x[1] != "" {
			rows = append(rows, []string{x[0], x[1]})
		}
	}
	return rows
}

// goOn loads the checkpoint, if --resume asks for it.
func (f *trainFlags) goOn(ctx context.Context, s *session, t *train.Trainer) error {
	if !f.resume {
		return nil
	}
	if _, err := os.Stat(f.checkpoint); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := t.Resume(ctx, f.checkpoint); err != nil {
		return err
	}
	s.env.Notef("goes on after step %d", t.Done())
	return nil
}

// steps trains until there are as many steps as -n says.
func (f *trainFlags) steps(ctx context.Context, s *session, t *train.Trainer, held []int) (c train.Curve,
	times []time.Duration, err error) {
	bar := s.env.Progress("training", int64(f.settings.Steps))
	defer func() { bar.Clear() }()
	saved := t.Done()
	for t.Done() < f.settings.Steps {
		x, err := t.Step(ctx)
		c.Losses = t.Losses()
		if err != nil {
			if errors.Is(err, rlx.ErrNaN) && saved > 0 && f.checkpoint != "" {
				s.env.Notef("%s has the state after step %d", f.checkpoint, saved)
			}
			return c, times, err
		}
		times = append(times, x.Duration)
		bar.Set(int64(t.Done()))
		last := t.Done() == f.settings.Steps
		if t.Done()%f.logEvery == 0 || last {
			bar.Clear()
			s.env.Notef("step %*d  loss %.4f  norm %.3g  rate %.3g  %.0f ms", len(fmt.Sprint(f.settings.Steps)),
				t.Done(), x.Loss,
				x.Norm, x.Rate, ms(x.Duration))
		}
		if held != nil && (t.Done()%f.evalEvery == 0 || last) {
			loss, _, err := t.Evaluate(ctx, held)
			if err != nil {
				return c, times, err
			}
			c.Eval = append(c.Eval, train.Evaluation{Step: t.Done(), Loss: loss})
			bar.Clear()
			s.env.Notef("step %*d  evaluation loss %.4f  perplexity %.4g", len(fmt.Sprint(f.settings.Steps)), t.Done(),
				loss,
				math.Exp(loss))
		}
		if f.checkpoint != "" && (t.Done()%f.every == 0 || last) {
			if err := t.Save(ctx, f.checkpoint); err != nil {
				return c, times, err
			}
			saved = t.Done()
		}
	}
	c.Losses = t.Losses()
	return c, times, nil
}

func (f *trainFlags) saveResult(ctx context.Context, t *train.Trainer, about *task.Train) error {
	switch {
	case f.save == "":
		return nil
	case about.Rank > 0:
		return t.SaveAdapter(ctx, f.save)
	}
	return t.SaveModel(ctx, f.save)
}

// texts returns the tokens of --text, and those of --eval or nil.
func (f *trainFlags) texts(ctx context.Context, s *session, about *task.Train) (ids, held []int, err error) {
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
		words, err := readText(ctx, path, s.env.Stdin)
		if err != nil {
			return nil, err
		}
		ids, err := ctxio.Do(ctx, "tokenize", func() ([]int, error) { return t.Encode(words, true) }, nil)
		if err == nil && len(ids) <= about.Tokens {
			err = train.CheckText(len(ids), about.Tokens)
		}
		return ids, subject(err, path)
	}
	if ids, err = read(f.text); err != nil || f.eval == "" {
		return ids, nil, err
	}
	held, err = read(f.eval)
	return ids, held, err
}

// inFlags names flags in errors about settings.
func (f *trainFlags) inFlags(err error) error {
	if e, ok := errors.AsType[*rlx.Error](err); ok && f.fs.Lookup(e.Subject) != nil &&
		!strings.HasPrefix(e.Subject, "-") {
		if e.Subject == "text" {
			e.Subject = f.text
		} else {
			e.Subject = "--" + e.Subject
		}
	}
	return err
}
