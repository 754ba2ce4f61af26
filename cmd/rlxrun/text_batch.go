package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/text"
)

// textBatchJob is the task for several prompts.
type textBatchJob struct {
	method  *rlx.Method
	move    *rlx.Method
	flags   *textFlags
	prompts [][]int
	options text.Options
	lines   bool // --format jsonl

	texts []*text.Result
	took  time.Duration
}

// batchJob reads the prompts and checks everything that needs no backend.
func (f *textFlags) batchJob(ctx context.Context, s *session, t *task.Text, facts text.Facts, sampling *text.Sampling) (
	job, error) {
	if t.Batch.Method == "" {
		return nil, cli.Usagef("--prompt", "several prompts are given; %s was compiled for one sequence at a time",
			s.model.Path()).WithHint("compile it with rlxc --batch N")
	}
	if s.files.from != "" || s.files.to != "" {
		return nil, cli.Usagef("--prompt", "several prompts cannot be combined with --state and --save-state")
	}
	j := &textBatchJob{flags: f, lines: s.env.JSONLines}
	var err error
	if j.method, err = s.model.Method(t.Batch.Method); err != nil {
		return nil, err
	}
	if j.move, err = s.model.Method(t.Batch.Move); err != nil {
		return nil, err
	}
	tok, err := text.NewTokenizer(s.model)
	if err != nil {
		return nil, err
	}
	prompts := f.prompt.Values
	if f.prompts != "" {
		all, err := readText(ctx, f.prompts, s.env.Stdin, maxText)
		if err != nil {
			return nil, err
		}
		prompts = strings.Split(strings.TrimSuffix(all, "\n"), "\n")
	}
	room := defaultTokens
	for i, p := range prompts {
		name := fmt.Sprintf("prompt %d", i+1)
		ids, err := f.encode(s, tok, name, strings.TrimSuffix(p, "\r"))
		if err != nil {
			return nil, err
		}
		if err := facts.CheckPrompt(ids); err != nil {
			return nil, subject(err, name)
		}
		j.prompts, room = append(j.prompts, ids), min(room, t.Context-len(ids)+1)
	}
	n := f.tokens
	if n == 0 && room == defaultTokens {
		n = room
	}
	j.options = text.Options{Tokens: n, Sampling: sampling, Seed: f.seed, Stop: f.stop.Values, IgnoreEnd: f.ignoreEnd}
	j.options.Grammar, err = f.grammar.read(ctx, s.env)
	return j, err
}

func (j *textBatchJob) methods() []*rlx.Method         { return []*rlx.Method{j.method, j.move} }
func (j *textBatchJob) offers() []offer                { return nil }
func (j *textBatchJob) primary() string                { return "" }
func (j *textBatchJob) streams() bool                  { return true }
func (j *textBatchJob) outputs() []string              { return nil }
func (j *textBatchJob) prepare(*session, []sink) error { return nil }

func (j *textBatchJob) inputs() []string {
	if j.flags.prompts == "" || j.flags.prompts == "-" {
		return j.flags.grammar.files()
	}
	return append(j.flags.grammar.files(), j.flags.prompts)
}

func (j *textBatchJob) verdict() error { return unfinished(j.texts...) }

// run generates the texts and prints them in the order of their prompts.
func (j *textBatchJob) run(ctx context.Context, s *session) (map[string]product, error) {
	if s.debug.any() {
		j.options.Runner = s
	}
	var err error
	start := time.Now()
	var each func(int, text.Token) error
	if j.lines {
		each = func(i int, t text.Token) error {
			i++
			return s.env.WriteJSON(tokenLine{&i, summaryOf(t)})
		}
	}
	j.texts, err = text.GenerateBatch(ctx, s.host, j.prompts, j.options, each)
	if j.texts == nil {
		return nil, err
	}
	j.took = time.Since(start)
	if !s.env.JSON {
		out, _ := s.env.Exact()
		for i, t := range j.texts {
			fmt.Fprintf(out, "==> %d <==\n", i+1) // as head(1) does for several files
			io.WriteString(out, strings.TrimSuffix(t.Text, "\n")+"\n")
		}
	}
	if err != nil {
		return nil, err
	}
	if len(s.runs) == 0 {
		s.runs = append(s.runs, runRecord{&rlx.Result{Start: start, Duration: j.took}, j.method.Name})
		s.trace.add("generate", start, start.Add(j.took))
	}
	return nil, nil
}

func (j *textBatchJob) json(sum *summary) any {
	if j.lines {
		last := finalLine{true, nil, *j.options.Sampling, j.options.Seed}
		for _, t := range j.texts {
			last.Texts = append(last.Texts, endOf(t))
		}
		return last
	}
	out := struct {
		*summary
		Texts    []textResult  `json:"texts"`
		Seed     uint64        `json:"seed"`
		Sampling text.Sampling `json:"sampling"`
	}{summary: sum, Seed: j.options.Seed, Sampling: *j.options.Sampling}
	for i, t := range j.texts {
		out.Texts = append(out.Texts, resultOf(j.prompts[i], t))
	}
	return out
}

// note returns a line about the texts for stderr.
func (j *textBatchJob) note() string {
	tokens := 0
	for _, t := range j.texts {
		tokens += len(t.Tokens)
	}
	return fmt.Sprintf("%s, %s in %.0f ms (%.1f tokens/s together)", cli.Count(len(j.prompts), "prompt", "prompts"),
		cli.Count(tokens, "token", "tokens"), ms(j.took), float64(tokens)/j.took.Seconds())
}
