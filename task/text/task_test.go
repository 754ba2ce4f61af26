package text_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/task/tasktest"
	"github.com/rlx-go/rlx/task/text"
)

func TestFields(t *testing.T) { tasktest.Fields(t, text.Kind) }

func TestValidate(t *testing.T) {
	if err := tinymodel.TextTask().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(s *text.Task){
		"method":          func(s *text.Task) { s.Method = "" },
		"input":           func(s *text.Task) { s.Inputs.Seed = "" },
		"output":          func(s *text.Task) { s.Outputs.Token = "" },
		"greedy alone":    func(s *text.Task) { s.Outputs.GreedyLogProb = "" },
		"logprob alone":   func(s *text.Task) { s.Outputs.Greedy = "" },
		"vocabulary":      func(s *text.Task) { s.Vocabulary = 0 },
		"huge vocabulary": func(s *text.Task) { s.Vocabulary = 1 << 25 },
		"context":         func(s *text.Task) { s.Context = 0 },
		"chunk":           func(s *text.Task) { s.Chunk = 0 },
		"chunk of more":   func(s *text.Task) { s.Chunk = 25 },
		"window":          func(s *text.Task) { s.Window = 0 },
		"end":             func(s *text.Task) { s.End = []int{3, 17} },
		"negative end":    func(s *text.Task) { s.End = []int{-1} },
		"template alone":  func(s *text.Task) { s.ChatTemplate = "chat_template.jinja" },
		"temperature":     func(s *text.Task) { s.Sampling.Temperature = -1 },
		"temperature NaN": func(s *text.Task) { s.Sampling.Temperature = math.NaN() },
		"top_k":           func(s *text.Task) { s.Sampling.TopK = 18 },
		"top_p":           func(s *text.Task) { s.Sampling.TopP = 1.01 },
		"min_p":           func(s *text.Task) { s.Sampling.MinP = -0.1 },
		"repeat_penalty":  func(s *text.Task) { s.Sampling.RepeatPenalty = math.Inf(1) },
		"infinite":        func(s *text.Task) { s.Sampling.Temperature = math.Inf(1) },
		"NaN among top_p": func(s *text.Task) { s.Sampling.TopP = math.NaN() },
		"half a batch":    func(s *text.Task) { s.Batch.Method = "extend_batch" },
		"no sequences": func(s *text.Task) {
			s.Batch = text.Batch{Method: "extend_batch", Count: "count", Move: "move", From: "from", To: "to"}
		},
		"half a slide": func(s *text.Task) { s.Slide.Method = "slide" },
		"too few rows": func(s *text.Task) {
			s.Slide = text.Slide{Method: "slide", First: "first", Dropped: "dropped", Keep: 20}
		},
		"half a draft":      func(s *text.Task) { s.Draft.Method = "draft" },
		"a draft's rewind":  func(s *text.Task) { s.Draft.Rewind = "rewind" },
		"repeat_penalty -1": func(s *text.Task) { s.Sampling.RepeatPenalty = -1 },
	} {
		s := tinymodel.TextTask()
		spoil(s)
		if err := s.Validate(); !errors.Is(err, code.TaskSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := tinymodel.TextTask().CheckSampling(text.Sampling{TopK: 18})
	if want := "top-k: is 18; allowed are 0 (off) to 17, the size of the vocabulary"; err == nil || err.Error() != want || diag.ExitCode(err) != 2 {
		t.Errorf("%v; want %s", err, want)
	}
}

// TestChosen checks which sampling parameters need no draw.
func TestChosen(t *testing.T) {
	s, old := tinymodel.TextTask(), tinymodel.TextTask()
	old.Outputs.Greedy, old.Outputs.GreedyLogProb = "", ""
	if err := old.Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		text.Sampling
		greedy bool
	}{
		{text.Sampling{}, true}, {text.Sampling{RepeatPenalty: 1, TopK: 3, TopP: 0.5, MinP: 0.1}, true}, {text.Sampling{Temperature: 1}, false},
		{text.Sampling{RepeatPenalty: 1.1}, false}, {text.Sampling{RepeatPenalty: 0.9}, false}, {text.Sampling{Temperature: 0.1, TopK: 1}, false},
	} {
		token, logprob := s.Chosen(c.Sampling)
		if want := map[bool][2]string{true: {"greedy", "greedy_logprob"}, false: {"token", "logprob"}}[c.greedy]; [2]string{token, logprob} != want {
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
