package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/train"
)

type trainFlags struct {
	fs               *cli.FlagSet
	kinds            map[string]trainKind // by the kind of the artifact's task
	evalEvery        int
	holdOut          int
	save, plot       string
	checkpoint       string
	every            int
	resume           bool
	settings         train.Settings
	schedule         cli.Choice
	host             hostFlags
	warmup, logEvery int
}

// A trainKind has what the command does differently for one kind of task.
type trainKind interface {
	// declare declares the flags of the kind, the first of which names its examples.
	declare(fs *cli.FlagSet)
	// names lists the flags of the kind.
	names() []string
	// settle checks them. It is called only if the first is given.
	settle() error
	// defaults returns the settings where no flag says anything else.
	defaults(steps int) train.Settings
	// begin starts the training of an artifact.
	begin(ctx context.Context, s *session, f *trainFlags) (*training, error)
}

// A learner is a training of package train.
type learner interface {
	Step(ctx context.Context) (train.Step, error)
	Done() int
	Losses() []float32
	Save(ctx context.Context, path string) error
	Resume(ctx context.Context, path string) error
	Close() error
}

// A training is one that the command drives.
type training struct {
	learner
	about    fmt.Stringer
	evaluate func(ctx context.Context) (evalJSON, error) // nil if nothing is evaluated
	examples func(steps int) (n float64, unit string)    // that the steps take
	save     func(ctx context.Context, path string) error
}

func trainCommand() *cli.Command {
	return &cli.Command{
		Name: "train", Args: "MODEL.rlx --text FILE -n STEPS [flags]",
		Short: "train a language model or an adapter on a text, or fit a scene to images",
		Long: `Trains what rlxc --train prepared: low-rank adapters (LoRA) beside a model that stays as it is, or all weights. Each step takes sequences of the
text, in an order that follows from --seed, and prints the loss: the mean negative log likelihood of a token, in nats. An adapter is saved in PEFT's format, for
rlxrun --lora and for Python. docs/training.md explains it step by step.
A scene of Gaussian splats is fitted to images from known cameras, one image in each step (--views; docs/splats.md). The mask decoder of a SAM is
trained on images and masks, whose embeddings are computed once (--images and --masks).`,
		Examples: []cli.Example{
			{About: "an adapter, in 300 steps, with a picture of the loss",
				Line: "rlxrun train t.rlx --text corpus.txt -n 300 --save my-adapter --plot loss.svg"},
			{About: "use it with the model, compiled with rlxc --lora 8",
				Line: "rlxrun llama.rlx --lora my-adapter --prompt \"ROMEO:\""},
			{About: "with checkpoints; the same command goes on after a crash",
				Line: "rlxrun train t.rlx --text corpus.txt -n 3000 --checkpoint run.ckpt --resume --save my-adapter"},
			{About: "a small model from random weights (rlxc --train full)",
				Line: "rlxrun train t.rlx --text corpus.txt -n 2000 --from-scratch --lr 1e-3 --eval held-out.txt --save model.safetensors"},
			{About: "a scene of splats (rlxc images --train splats=5000)",
				Line: "rlxrun train fit.rlx --views images -n 2000 --hold-out 8 --save scene.ply"},
			{About: "the mask decoder of a SAM (rlxc sam.safetensors --train decoder)",
				Line: "rlxrun train t.rlx --images photos --masks masks -n 500 --hold-out 5 --save decoder.safetensors"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			f := trainFlags{fs: fs, settings: train.Defaults(0), kinds: trainKinds()}
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
	fs.IntVarP(&s.Steps, "steps", "n", 0, "`N` number of steps")
	fs.StringVar(&f.save, "save", "",
		"`PATH` write the result: an adapter to a folder, or to a .safetensors file with adapter_config.json beside it; a model to a .safetensors file; a scene to a .ply file; a mask decoder to a .safetensors file for rlxrun --weights")
	for _, name := range slices.Sorted(maps.Keys(f.kinds)) {
		f.kinds[name].declare(fs)
	}
	fs.Group("How")
	fs.Float64Var(&s.LearningRate, "lr", s.LearningRate,
		"`RATE` largest learning rate; for a scene a factor of --rates, 1 by default")
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
	fs.IntVar(&f.holdOut, holdOut, 0,
		"`N` --views and --images: keep every Nth image for evaluation (default none: it measures all)")
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
	given := ""
	for _, name := range slices.Sorted(maps.Keys(f.kinds)) {
		k := f.kinds[name]
		if !f.fs.Changed(k.names()[0]) {
			continue
		}
		if given != "" {
			return cli.Usagef("--"+k.names()[0], "cannot be combined with --%s", given)
		}
		given = k.names()[0]
		if err := k.settle(); err != nil {
			return err
		}
	}
	switch s := &f.settings; {
	case given == "":
		return cli.Usagef("--text", "is missing").WithHint(
			"for example --text corpus.txt; a scene of splats takes --views FOLDER, a mask decoder --images and --masks")
	case s.Steps < 1:
		return cli.Usagef("-n", "%d steps; allowed are 1 and more", s.Steps).WithHint("for example -n 300")
	case f.resume && f.checkpoint == "":
		return cli.Usagef("--resume", "requires --checkpoint FILE")
	}
	for _, name := range []string{"eval-every", "log-every", "checkpoint-every"} {
		if n, _ := f.fs.GetInt(name); f.fs.Changed(name) && n < 1 {
			return cli.Usagef("--"+name, "is %d; allowed are 1 and more", n)
		}
	}
	f.settings.Schedule = train.Schedule(f.schedule.Value)
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
	Tokens     float64    `json:"tokens_per_s,omitempty"`
	Images     float64    `json:"images_per_s,omitempty"`
	PeakMemory int64      `json:"backend_peak_rss_bytes"`
}

type evalJSON struct {
	Step       int     `json:"step"`
	Loss       float64 `json:"loss"`
	Perplexity float64 `json:"perplexity,omitempty"`
	PSNR       float64 `json:"psnr,omitempty"` // in dB
	Splats     int     `json:"splats,omitempty"`
	IoU        float64 `json:"iou,omitempty"`
}

// String returns the measured numbers as text.
func (e evalJSON) String() string {
	text := fmt.Sprintf("loss %.4f", e.Loss)
	if e.Perplexity != 0 {
		text += fmt.Sprintf(", perplexity %.4g", e.Perplexity)
	}
	if e.PSNR != 0 {
		text += fmt.Sprintf(", PSNR %.2f dB", e.PSNR)
	}
	if e.Splats != 0 {
		text += fmt.Sprintf(", %d splats", e.Splats)
	}
	if e.IoU != 0 {
		text += fmt.Sprintf(", IoU %.4f", e.IoU)
	}
	return text
}

func (s *session) train(ctx context.Context, f *trainFlags) error {
	kind, err := f.kind(s.model)
	if err != nil {
		return err
	}
	s.outputs = f.outputs(s.model)
	t, err := kind.begin(ctx, s, f)
	if err != nil {
		return f.inFlags(err)
	}
	defer t.Close()
	if err := f.goOn(ctx, s, t); err != nil {
		return err
	}
	start, first := time.Now(), t.Done()
	curve, evals, times, err := f.steps(ctx, s, t)
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
	if f.save != "" {
		if err := t.save(ctx, f.save); err != nil {
			return err
		}
	}
	out := trainJSON{Steps: t.Done(), Losses: t.Losses(), MS: ms(took), PeakMemory: s.host.PeakMemory(), Eval: evals}
	if n := len(times); n > 0 {
		slices.Sort(times)
		out.StepMS = ms(times[n/2])
		rate, unit := t.examples(t.Done() - first)
		to := &out.Tokens
		if unit == "images" {
			to = &out.Images
		}
		*to = rate / took.Seconds()
	}
	if s.env.JSON {
		return s.env.WriteJSON(out)
	}
	io.WriteString(s.env.Stdout, curve.Text(64, 8)) // Exec checks standard output at the end
	return s.env.Table(f.summary(out, t.about, s))
}

// outputs returns the files that training writes at its end, so that the command can check them before it trains.
func (f *trainFlags) outputs(m *rlx.Model) []string {
	save := f.save
	if about, ok := m.Task().(*task.Train); ok && about.Rank > 0 && filepath.Ext(save) != ".safetensors" && save != "" {
		// a folder, which is made with those above it
		for dir := save; ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
				save = filepath.Join(dir, "adapter_model.safetensors")
				break
			}
		}
	}
	return slices.DeleteFunc([]string{save, f.plot, f.checkpoint}, func(p string) bool { return p == "" })
}

func (f *trainFlags) summary(out trainJSON, about fmt.Stringer, s *session) [][]string {
	rows := [][]string{
		{"trained", about.String()},
		{"device", deviceName(s.backend.Name, s.host.Device())},
		{"loss", fmt.Sprintf("%.4f in the first step, %.4f in the last", out.Losses[0], out.Losses[len(out.Losses)-1])},
	}
	if n := len(out.Eval); n > 0 {
		rows = append(rows, []string{"evaluation", out.Eval[n-1].String()})
	}
	if out.StepMS > 0 {
		speed := fmt.Sprintf("%.0f ms a step, %.0f tokens/s", out.StepMS, out.Tokens)
		if out.Images > 0 {
			speed = fmt.Sprintf("%.0f ms a step, %.3g images/s", out.StepMS, out.Images)
		}
		rows = append(rows, []string{"speed", speed})
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
func (f *trainFlags) goOn(ctx context.Context, s *session, t *training) error {
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

// steps trains until the number of steps is that of -n.
func (f *trainFlags) steps(ctx context.Context, s *session, t *training) (c train.Curve, evals []evalJSON,
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
			return c, evals, times, err
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
		if t.evaluate != nil && (t.Done()%f.evalEvery == 0 || last) {
			e, err := t.evaluate(ctx)
			if err != nil {
				return c, evals, times, err
			}
			e.Step = t.Done()
			evals = append(evals, e)
			c.Eval = append(c.Eval, train.Evaluation{Step: e.Step, Loss: e.Loss})
			bar.Clear()
			s.env.Notef("step %*d  evaluation %v", len(fmt.Sprint(f.settings.Steps)), e.Step, e)
		}
		if f.checkpoint != "" && (t.Done()%f.every == 0 || last) {
			if err := t.Save(ctx, f.checkpoint); err != nil {
				return c, evals, times, err
			}
			saved = t.Done()
		}
	}
	c.Losses = t.Losses()
	return c, evals, times, nil
}

// kind returns the trainKind for the artifact, and fills in its default settings.
func (f *trainFlags) kind(m *rlx.Model) (trainKind, error) {
	name := ""
	if m.Task() != nil {
		name = m.Task().Kind()
	}
	kind, ok := f.kinds[name]
	if !ok {
		return nil, cli.Usagef(m.Path(), "was not compiled for training").WithHint(
			"compile the checkpoint with rlxc --train lora=8, or --train full")
	}
	for other, k := range f.kinds {
		for _, flag := range k.names() {
			if other != name && f.fs.Changed(flag) && !slices.Contains(kind.names(), flag) {
				return nil, cli.Usagef("--"+flag, "does not apply; %s is for %v", m.Path(), m.Task()).
					WithHint("give --%s", kind.names()[0])
			}
		}
	}
	if first := kind.names()[0]; !f.fs.Changed(first) {
		return nil, cli.Usagef("--"+first, "is missing; %s is for %v", m.Path(), m.Task())
	}
	given, d := f.settings, kind.defaults(f.settings.Steps)
	f.settings = d
	f.settings.Seed, f.settings.Schedule = given.Seed, given.Schedule
	for flag, set := range map[string]func(){
		"lr":           func() { f.settings.LearningRate = given.LearningRate },
		"warmup":       func() { f.settings.Warmup = f.warmup },
		"weight-decay": func() { f.settings.WeightDecay = given.WeightDecay },
		"clip":         func() { f.settings.Clip = given.Clip },
		"momentum":     func() { f.settings.Momentum = given.Momentum },
		"beta1":        func() { f.settings.Beta1 = given.Beta1 },
		"beta2":        func() { f.settings.Beta2 = given.Beta2 },
		"epsilon":      func() { f.settings.Epsilon = given.Epsilon },
	} {
		if f.fs.Changed(flag) {
			set()
		}
	}
	return kind, nil
}

// inFlags names flags in errors about settings.
func (f *trainFlags) inFlags(err error) error {
	if e, ok := errors.AsType[*rlx.Error](err); ok && f.fs.Lookup(e.Subject) != nil &&
		!strings.HasPrefix(e.Subject, "-") {
		e.Subject = "--" + e.Subject
	}
	return err
}

// holdOut is a flag of several kinds.
const holdOut = "hold-out"

// trainKinds returns the kinds of tasks that can be trained.
func trainKinds() map[string]trainKind {
	return map[string]trainKind{task.KindTrain: &trainText{}, task.KindTrainSplats: &trainSplats{},
		task.KindTrainSegment: &trainSegment{}}
}
