package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/text"
)

var _ = registerTask(taskKind{
	name: task.KindText, takes: "text", usage: "--prompt, --prompt-file or --ids", several: true,
	example: "--prompt \"Once upon a time\"",
	examples: []cli.Example{
		{About: "continue a text; tokens are printed as they are generated",
			Line: "rlxrun llama.rlx --prompt \"ROMEO:\""},
		{About: "a prompt from stdin, sampled at random; the same seed gives the same text",
			Line: "rlxrun llama.rlx --prompt-file - --temperature 0.8 --top-p 0.95 --seed 7 -n 200"},
		{About: "speculative decoding with the model's draft head: the same text, sooner",
			Line: "rlxrun qwen.rlx --prompt \"ROMEO:\" --temperature 0 --draft mtp"},
		{About: "several texts at a time, one prompt per line; the model was compiled with rlxc --batch",
			Line: "rlxrun llama.rlx --prompts-file prompts.txt -n 100"},
		{About: "a question about an image, to a model that takes images",
			Line: "rlxrun qwen3vl.rlx --image photo.jpg --prompt \"What is this?\""},
		{About: "token ids instead of text, and everything about the result as JSON",
			Line: "rlxrun llama.rlx --ids 5,7,9 -n 16 --temperature 0 --format json"},
	},
	flags: func(im *imageFlag) taskFlags { return &textFlags{images: im} },
})

// textFlags are the flags of the task "text".
type textFlags struct {
	samplingFlags
	prompt, file cli.List
	prompts      string // file with one prompt per line
	ids, logits  string
	chat         bool
	system       string
	tokens       int
	ignoreEnd    bool
	draft        draftFlags
	grammar      grammarFlags
	images       *imageFlag
}

// defaultTokens is the number of tokens to generate if -n is not given. The context may have room for fewer.
const defaultTokens = 256

// textFlagNames lists the flags of the task.
var textFlagNames = []string{"prompt", "prompt-file", "prompts-file", "ids", "chat", "system", "tokens", "temperature",
	"top-k", "top-p", "min-p", "repeat-penalty", "seed", "stop", "ignore-end", "logits", "draft", "draft-tokens",
	"json-schema", "grammar"}

func (f *textFlags) declare(fs *cli.FlagSet) {
	fs.Group("Continuing a text (artifacts that declare the task " + task.KindText + ")")
	fs.ListVarP(
		&f.prompt, "prompt", "",
		"`TEXT` the prompt; - is stdin, as in rlxrun FILE - (repeatable if the model was compiled with rlxc --batch)")
	fs.ListVarP(&f.file, "prompt-file", "", "`FILE` read the prompt from a UTF-8 file; - is stdin")
	fs.StringVar(&f.prompts, "prompts-file", "", "`FILE` read one prompt per line from a UTF-8 file; - is stdin")
	fs.StringVar(&f.ids, "ids", "", "`ID,ID,...` the prompt as token ids")
	fs.BoolVar(&f.chat, "chat", false, "treat the prompt as a user's message: apply the model's chat template; --image does so too, unless the prompt says where the images go")
	fs.StringVar(&f.system, "system", "", "`TEXT` with --chat or --image, the system message")
	fs.IntVarP(&f.tokens, "tokens", "n", 0,
		"`N` generate at most N tokens (default 256, or what fits the context); 0 with --save-state only computes the prompt")
	f.samplingFlags.declare(fs)
	fs.BoolVar(&f.ignoreEnd, "ignore-end", false, "continue after tokens that end a text")
	f.draft.declare(fs)
	f.grammar.declare(fs)
	fs.StringVar(
		&f.logits, "logits", "",
		"`FILE.npy` write the logits that each token was chosen from, f32[n,vocabulary]; short for -o logits=FILE.npy")
}

func (f *textFlags) settle() error {
	switch {
	case f.tokens < 0:
		return cli.Usagef("-n", "%d tokens; allowed are 1 and more, and 0 with --save-state", f.tokens)
	case f.fs.Changed("logits") && f.logits == "":
		return cli.Usagef("--logits", "the file's name is missing")
	}
	switch {
	case f.chat && f.fs.Changed("ids"):
		return cli.Usagef("--chat", "cannot be combined with --ids")
	case f.fs.Changed("system") && !f.chat && f.images.path == "":
		return cli.Usagef("--system", "requires --chat or --image")
	}
	n := len(f.file.Values)
	for _, given := range []bool{len(f.prompt.Values) > 0, f.fs.Changed("prompts-file"), f.fs.Changed("ids")} {
		if given {
			n++
		}
	}
	if n > 1 {
		return cli.Usagef(
			"--prompt",
			"%d prompts are given, by --prompt, --prompt-file, --prompts-file and --ids; allowed is one of the flags",
			n)
	}
	if slices.Contains(f.images.values.Values, "-") &&
		(slices.Contains(f.prompt.Values, "-") || slices.Contains(f.file.Values, "-")) {
		return cli.Usagef("--image", "cannot be stdin, which has the prompt; name a file")
	}
	if f.several() && f.images.path != "" {
		return cli.Usagef("--image", "cannot be combined with several prompts")
	}
	if f.several() && (f.draft.head != "" || f.logits != "") {
		return cli.Usagef("--prompt", "several prompts cannot be combined with --draft and --logits")
	}
	if err := f.grammar.settle(); err != nil {
		return err
	}
	return f.draft.settle()
}

// several reports whether there is more than one prompt.
func (f *textFlags) several() bool { return f.prompts != "" || len(f.prompt.Values) > 1 }

// given lists the flags of the task that were used.
func (f *textFlags) given() (out []string) {
	for _, name := range textFlagNames {
		if f.fs != nil && f.fs.Changed(name) {
			out = append(out, "--"+name)
		}
	}
	return append(out, f.images.given()...)
}

// A textJob is one use of the task: it continues a prompt.
type textJob struct {
	task    *task.Text
	method  *rlx.Method
	more    []*rlx.Method // methods that draft tokens, or that take images
	flags   *textFlags
	ids     []int // token ids of the prompt
	options text.Options
	only    bool // only compute the prompt, for --save-state
	lines   bool // --format jsonl
	shared  bool // other results follow the text on standard output, or in the same pipe

	text *text.Result
}

// job reads the prompt and checks what can be checked without a backend.
func (f *textFlags) job(ctx context.Context, s *session) (job, error) {
	t := s.model.Task().(*task.Text)
	facts, err := text.FactsOf(s.model)
	if err != nil {
		return nil, err
	}
	j := &textJob{task: t, flags: f, lines: s.env.JSONLines}
	if j.method, err = s.model.Method(t.Method); err != nil {
		return nil, err
	}
	if j.more, err = f.draft.methods(s.model); err != nil {
		return nil, err
	}
	sampling, err := f.samplingOf(facts)
	if err != nil {
		return nil, err
	}
	if f.draft.head != "" && (sampling.Temperature != 0 || sampling.RepeatPenalty > 0 && sampling.RepeatPenalty != 1 ||
		f.logits != "") {
		return nil, cli.Usagef("--draft", "works only with the most probable tokens and without --logits").WithHint(
			"add --temperature 0 --repeat-penalty 1")
	}
	j.only = f.fs.Changed("tokens") && f.tokens == 0
	switch {
	case j.only && s.files.to == "":
		return nil, cli.Usagef("-n", "0 tokens; allowed are 1 and more, and 0 with --save-state")
	case f.several():
		return f.batchJob(ctx, s, t, facts, &sampling)
	}
	prompt, err := f.readPrompt(ctx, s)
	if err != nil {
		return nil, err
	}
	j.ids = prompt.IDs
	for _, name := range []string{t.Images.Method, t.Images.Append} {
		if len(prompt.Images) == 0 {
			break
		}
		m, err := s.model.Method(name)
		if err != nil {
			return nil, err
		}
		j.more = append(j.more, m)
	}
	if s.files.from == "" { // otherwise the tokens of the saved state come before these
		if err := facts.CheckPrompt(j.ids); err != nil {
			if f.fs.Changed("ids") {
				return nil, subject(err, "--ids")
			}
			return nil, asFlag(err)
		}
	}
	n := f.tokens
	if room := facts.Context - len(j.ids) + 1; n == 0 && (s.files.from != "" || room > defaultTokens) {
		n = defaultTokens
	}
	j.options = text.Options{Tokens: n, Sampling: &sampling, Seed: f.seed, Stop: f.stop.Values, IgnoreEnd: f.ignoreEnd,
		Images: prompt.Images}
	j.options.Grammar, err = f.grammar.read(ctx, s.env)
	return j, err
}

// asFlag changes the subject of an error from a parameter to its flag.
func asFlag(err error) error {
	if e, ok := errors.AsType[*diag.Error](err); ok && slices.Contains(textFlagNames, e.Subject) {
		e.Subject = "--" + e.Subject
	}
	return err
}

func (j *textJob) methods() []*rlx.Method { return append([]*rlx.Method{j.method}, j.more...) }

// offers lists the outputs of the task.
func (j *textJob) offers() []offer { return textOffers() }

func textOffers() []offer {
	return []offer{
		{name: "ids", about: "the generated tokens, i64[n]"},
		{name: "logprobs", about: "the natural logarithms of their probabilities, f32[n]"},
		{name: "logits", about: "the logits that each was chosen from, f32[n,vocabulary]"},
	}
}

func (j *textJob) primary() string { return "" }

func (j *textJob) streams() bool { return true }

func (j *textJob) inputs() []string {
	all := append(j.flags.grammar.files(), j.flags.images.values.Values...)
	return slices.DeleteFunc(append(all, j.flags.file.Values...), func(path string) bool { return path == "-" })
}

// verdict reports a text that was cut off within its grammar. The text has been printed.
func (j *textJob) verdict() error {
	if j.text == nil {
		return nil
	}
	return unfinished(j.text)
}

func (j *textJob) outputs() []string {
	if j.flags.logits == "" {
		return nil
	}
	return []string{"logits=" + j.flags.logits}
}

func (j *textJob) prepare(s *session, sinks []sink) error {
	if j.only && (len(sinks) > 0 || s.debug.any()) {
		return cli.Usagef(
			"-n", "0 tokens cannot be combined with outputs and with flags that look into runs, such as --check")
	}
	j.shared = slices.ContainsFunc(sinks, func(k sink) bool { return k.dest == "-" }) ||
		!s.env.Quiet && s.env.OneStream()
	if slices.ContainsFunc(sinks, func(k sink) bool { return k.offer.name == "logits" }) {
		j.options.Logits = true
		n := j.options.Tokens
		if n == 0 {
			n = j.task.Most() - len(j.ids) + 1
		}
		return s.need("logits", int64(n)*int64(j.task.Vocabulary)*4*2) // twice, because a growing slice is copied
	}
	return nil
}

// run generates the text and prints it as it is generated.
func (j *textJob) run(ctx context.Context, s *session) (map[string]product, error) {
	g, err := text.NewGenerator(ctx, s.host)
	if err != nil {
		return nil, err
	}
	s.text = g
	if err := j.flags.draft.start(ctx, g); err != nil {
		return nil, err
	}
	if s.files.from != "" {
		if err := g.Load(ctx, s.files.from); err != nil {
			return nil, err
		}
	}
	if j.only {
		return nil, j.compute(ctx, s, g)
	}
	// Print the text generated so far even after a signal. But do not wait long for a reader that does not read.
	last, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, func() { cancel(context.Cause(ctx)) }) })()
	s.env.Until(last)
	defer s.env.Until(ctx)
	out, terminal := s.env.Exact()
	printed := 0
	if s.env.JSONLines {
		j.options.Each = func(t text.Token) error { return s.env.WriteJSON(tokenLine{nil, summaryOf(t)}) }
	} else if !s.env.JSON {
		j.options.Each = func(t text.Token) error {
			printed += len(t.Text)
			if t.Text == "" {
				return nil
			}
			_, err := io.WriteString(out, t.Text)
			return err
		}
	}
	if s.debug.any() {
		j.options.Runner = s
	}
	j.text, err = g.Generate(ctx, j.ids, j.options)
	if j.text == nil {
		return nil, err
	}
	if err != nil && s.env.JSON && len(j.text.Tokens) > 0 {
		s.record(j)
		if err := s.env.WriteJSON(j.json(s.summarise(j, nil, nil))); err != nil {
			return nil, err
		}
	}
	if !s.env.JSON {
		io.WriteString(out, j.text.Text[printed:]) // Exec checks standard output at the end
		if terminal || j.shared && j.text.Text != "" && !strings.HasSuffix(j.text.Text, "\n") {
			io.WriteString(out, "\n")
		}
	}
	if err != nil {
		return nil, err
	}
	s.record(j)
	n := len(j.text.Tokens)
	ids, logprobs := make([]int64, n), make([]float32, n)
	for i, t := range j.text.Tokens {
		ids[i], logprobs[i] = int64(t.ID), t.LogProb
	}
	return map[string]product{
		"ids":      {tensor: tensor.Tensor{DType: dtype.I64, Shape: []int{n}, Data: tensor.Bytes(ids)}},
		"logprobs": {tensor: tensor.Tensor{DType: dtype.F32, Shape: []int{n}, Data: tensor.Bytes(logprobs)}},
		"logits": {
			tensor: tensor.Tensor{DType: dtype.F32, Shape: []int{n, j.task.Vocabulary},
				Data: tensor.Bytes(j.text.Logits)}},
	}, nil
}

// compute runs the prompt and generates no token.
func (j *textJob) compute(ctx context.Context, s *session, g *text.Generator) error {
	start := time.Now()
	if err := g.Append(ctx, j.ids, j.options.Images...); err != nil {
		return err
	}
	took := time.Since(start)
	j.text = &text.Result{Stop: text.StopLength, Start: start, Prompt: len(j.ids), Prefill: took, Duration: took}
	s.record(j)
	return nil
}

// record adds the runs of a text to the session's, unless each run was recorded already.
func (s *session) record(j *textJob) {
	if len(s.runs) == 0 {
		s.runs = append(s.runs, runRecord{&rlx.Result{Start: j.text.Start, Duration: j.text.Duration}, j.method.Name})
		s.trace.add("generate", j.text.Start, j.text.Start.Add(j.text.Duration))
	}
}

func (j *textJob) json(sum *summary) any {
	if j.lines {
		return finalLine{true, []textEnd{endOf(j.text)}, *j.options.Sampling, j.options.Seed}
	}
	return textSummary{sum, resultOf(j.ids, j.text), j.options.Seed, *j.options.Sampling}
}

// note returns a line about the text for stderr.
func (j *textJob) note() string {
	t := timingsOf(j.text)
	line := fmt.Sprintf("prompt of %s in %.0f ms (%.1f tokens/s)", cli.Count(t.PromptTokens, "token", "tokens"),
		t.PromptMS, t.PromptPerSecond)
	if j.only {
		return line
	}
	if t.DecodePerSecond > 0 {
		line += fmt.Sprintf("; then %.1f tokens/s", t.DecodePerSecond)
	}
	if t.Drafted > 0 {
		line += "; " + t.draftTimings.String()
	}
	return line + fmt.Sprintf("; %s, ended by %s", cli.Count(t.Tokens, "token", "tokens"), j.text.Stop)
}

// help explains the flags for an artifact with this task.
func (f *textFlags) help(m *rlx.Model) string {
	t := m.Task().(*task.Text)
	prompt := "--prompt, --prompt-file or --ids"
	if t.Tokenizer == "" {
		prompt = "--ids (it has no tokenizer)"
	}
	s := t.Sampling
	length := fmt.Sprintf("up to %d tokens", t.Context)
	if t.Slides() {
		length = fmt.Sprintf("any number of tokens (the model sees the last %d)", t.Slide.Keep+1)
	}
	out := fmt.Sprintf(
		"Task %s: %s, %s including the generated ones; ids from 0 to %d.\nSampling unless flags say otherwise: temperature %g, top-k %d, top-p %g, min-p %g, repeat-penalty %g.\nOutputs for -o:\n",
		task.KindText, prompt, length, t.Vocabulary-1, s.Temperature, s.TopK, s.TopP, s.MinP, s.RepeatPenalty)
	if t.Batch.Method != "" {
		out = strings.Replace(
			out, "Outputs for -o",
			fmt.Sprintf(
				"It continues up to %d texts at a time: --prompts-file, or --prompt several times.\nOutputs for -o",
				t.Batch.Sequences), 1)
	}
	if t.TakesImages() {
		out = strings.Replace(out, "Outputs for -o",
			fmt.Sprintf("It takes images: --image, several times if need be; an image has up to %d tokens.\nOutputs for -o",
				t.Images.MaxTokens), 1)
	}
	if t.Draft.Method != "" {
		out = strings.Replace(out, "Outputs for -o", "It has a head that drafts tokens: --draft mtp.\nOutputs for -o",
			1)
	}
	for _, o := range textOffers() {
		out += fmt.Sprintf("  %-16s %s\n", o.name, o.about)
	}
	return out
}
