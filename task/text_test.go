package task_test

import (
	"github.com/rlx-go/rlx/core/code"

	"errors"
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/task/tasktest"
)

func TestFields(t *testing.T) {
	for _, kind := range []string{task.KindConcepts, task.KindPatches, task.KindSegment, task.KindSplats, task.KindText,
		task.KindTrain, task.KindTrainSplats, task.KindTrainSegment} {
		t.Run(kind, func(t *testing.T) { tasktest.Fields(t, kind) })
	}
}

func TestValidateText(t *testing.T) {
	if err := tinymodel.TextTask().Validate(); err != nil {
		t.Fatal(err)
	}
	paged := tinymodel.TextTask()
	if paged.Batch = inPages(); paged.Validate() != nil || paged.PerSequence() != 5 {
		t.Errorf("in pages: %v, %d of a sequence", paged.Validate(), paged.PerSequence())
	}
	for name, spoil := range map[string]func(s *task.Text){
		"method":          func(s *task.Text) { s.Method = "" },
		"input":           func(s *task.Text) { s.Inputs.Seed = "" },
		"output":          func(s *task.Text) { s.Outputs.Token = "" },
		"greedy alone":    func(s *task.Text) { s.Outputs.GreedyLogProb = "" },
		"logprob alone":   func(s *task.Text) { s.Outputs.Greedy = "" },
		"vocabulary":      func(s *task.Text) { s.Vocabulary = 0 },
		"huge vocabulary": func(s *task.Text) { s.Vocabulary = 1 << 25 },
		"context":         func(s *task.Text) { s.Context = 0 },
		"chunk":           func(s *task.Text) { s.Chunk = 0 },
		"chunk of more":   func(s *task.Text) { s.Chunk = 25 },
		"window":          func(s *task.Text) { s.Window = 0 },
		"end":             func(s *task.Text) { s.End = []int{3, 17} },
		"negative end":    func(s *task.Text) { s.End = []int{-1} },
		"template alone":  func(s *task.Text) { s.ChatTemplate = "chat_template.jinja" },
		"temperature":     func(s *task.Text) { s.Sampling.Temperature = -1 },
		"temperature NaN": func(s *task.Text) { s.Sampling.Temperature = math.NaN() },
		"top_k":           func(s *task.Text) { s.Sampling.TopK = 18 },
		"top_p":           func(s *task.Text) { s.Sampling.TopP = 1.01 },
		"min_p":           func(s *task.Text) { s.Sampling.MinP = -0.1 },
		"repeat_penalty":  func(s *task.Text) { s.Sampling.RepeatPenalty = math.Inf(1) },
		"infinite":        func(s *task.Text) { s.Sampling.Temperature = math.Inf(1) },
		"NaN among top_p": func(s *task.Text) { s.Sampling.TopP = math.NaN() },
		"half a batch":    func(s *task.Text) { s.Batch.Method = "extend_batch" },
		"no sequences": func(s *task.Text) {
			s.Batch = task.TextBatch{Method: "extend_batch", Count: "count", Move: "move", From: "from", To: "to"}
		},
		"half of pages":       func(s *task.Text) { s.Batch = inPages(); s.Batch.Pages = "" },
		"pages and sequences": func(s *task.Text) { s.Batch = inPages(); s.Batch.Sequence, s.Batch.Row = "sequence", "row" },
		"pages without rows":  func(s *task.Text) { s.Batch = inPages(); s.Batch.Rows = 0 },
		"too few pages":       func(s *task.Text) { s.Batch = inPages(); s.Batch.PageCount = 5 },
		"too many pages":      func(s *task.Text) { s.Batch = inPages(); s.Batch.PageCount = task.MaxPages + 1 },
		"no pages":            func(s *task.Text) { s.Batch = inPages(); s.Batch.PageCount = 0 },
		"long tables": func(s *task.Text) {
			s.Batch, s.Context = inPages(), 1<<20
			s.Batch.Rows, s.Batch.PageCount, s.Batch.Sequences = 1, task.MaxPages, 1<<10
		},
		"pages that slide": func(s *task.Text) {
			s.Batch = inPages()
			s.Slide = task.TextSlide{Method: "slide", First: "first", Dropped: "dropped", Keep: 7}
		},
		"half a slide": func(s *task.Text) { s.Slide.Method = "slide" },
		"too few rows": func(s *task.Text) {
			s.Slide = task.TextSlide{Method: "slide", First: "first", Dropped: "dropped", Keep: 20}
		},
		"half a draft":      func(s *task.Text) { s.Draft.Method = "draft" },
		"a draft's rewind":  func(s *task.Text) { s.Draft.Rewind = "rewind" },
		"repeat_penalty -1": func(s *task.Text) { s.Sampling.RepeatPenalty = -1 },
	} {
		s := tinymodel.TextTask()
		spoil(s)
		if err := s.Validate(); !errors.Is(err, code.TaskSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := tinymodel.TextTask().CheckSampling(task.Sampling{TopK: 18})
	if want := "top-k: is 18; allowed are 0 (off) to 17, the size of the vocabulary"; err == nil ||
		err.Error() != want || diag.ExitCode(err) != 2 {
		t.Errorf("%v; want %s", err, want)
	}
}

// inPages returns the description of a batch whose state is in pages: 5 of them hold the context of the tiny model.
func inPages() task.TextBatch {
	return task.TextBatch{Method: "several", Count: "count", Sequences: 3, Move: "move", From: "from", To: "to",
		Pages: "pages", PageCount: 8, Rows: 5}
}

// TestChosen checks which sampling parameters need no draw.
func TestChosen(t *testing.T) {
	s, old := tinymodel.TextTask(), tinymodel.TextTask()
	old.Outputs.Greedy, old.Outputs.GreedyLogProb = "", ""
	if err := old.Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		task.Sampling
		greedy bool
	}{
		{task.Sampling{}, true}, {task.Sampling{RepeatPenalty: 1, TopK: 3, TopP: 0.5, MinP: 0.1}, true},
		{task.Sampling{Temperature: 1}, false},
		{task.Sampling{RepeatPenalty: 1.1}, false}, {task.Sampling{RepeatPenalty: 0.9}, false},
		{task.Sampling{Temperature: 0.1, TopK: 1}, false},
	} {
		token, logprob := s.Chosen(c.Sampling)
		if want := map[bool][2]string{true: {"greedy", "greedy_logprob"},
			false: {"token", "logprob"}}[c.greedy]; [2]string{token, logprob} != want {
			t.Errorf("%+v: %s and %s; want %v", c.Sampling, token, logprob, want)
		}
		if token, logprob = old.Chosen(c.Sampling); token != "token" || logprob != "logprob" {
			t.Errorf("%+v without greedy outputs: %s and %s", c.Sampling, token, logprob)
		}
	}
}

func TestAttachments(t *testing.T) {
	s := tinymodel.TextTask()
	if got := s.Attachments(); len(got) != 0 {
		t.Errorf("%q; want none", got)
	}
	s.Tokenizer, s.ChatTemplate = "tokenizer.json", "chat"
	if got := s.Attachments(); !slices.Equal(got, []string{"tokenizer.json", "chat"}) {
		t.Errorf("%q", got)
	}
}
