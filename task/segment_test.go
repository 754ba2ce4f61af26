package task_test

import (
	"github.com/rlx-go/rlx/core/code"

	"errors"
	"math"
	"testing"

	"github.com/rlx-go/rlx/task"
)

func TestValidateSegment(t *testing.T) {
	good := task.NewSegment(1024, 64)
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(s *task.Segment){
		"size 0":        func(s *task.Segment) { s.Size = 0 },
		"size":          func(s *task.Segment) { s.Size = 1 << 20 },
		"resize":        func(s *task.Segment) { s.Resize = "shortest_side" },
		"features":      func(s *task.Segment) { s.Features = []string{"a", ""} },
		"many features": func(s *task.Segment) { s.Features = make([]string, 17) },
		"pad":           func(s *task.Segment) { s.Pad = "" },
		"std 0":         func(s *task.Segment) { s.Std[1] = 0 },
		"std NaN":       func(s *task.Segment) { s.Std[2] = math.NaN() },
		"mean":          func(s *task.Segment) { s.Mean[0] = math.Inf(1) },
		"max points":    func(s *task.Segment) { s.MaxPoints = 1 },
		"many points":   func(s *task.Segment) { s.MaxPoints = 1 << 30 },
		"a padded box":  func(s *task.Segment) { s.MaxPoints, s.PadBoxes = 2, true },
		"tokens":        func(s *task.Segment) { s.Tokens = 0 },
		"best last":     func(s *task.Segment) { s.BestLast = 4 },
		"best first":    func(s *task.Segment) { s.BestFirst = -1 },
		"best order":    func(s *task.Segment) { s.BestFirst = 3; s.BestLast = 2 },
		"threshold":     func(s *task.Segment) { s.Threshold = math.NaN() },
		"method":        func(s *task.Segment) { s.PromptMethod = "" },
		"image input":   func(s *task.Segment) { s.ImageInput = "" },
		"masks output":  func(s *task.Segment) { s.MasksOutput = "" },
		"mask side":     func(s *task.Segment) { s.MaskInput = "mask" },
		"large mask":    func(s *task.Segment) { s.MaskInput, s.MaskSide = "mask", 1<<20 },
		"no mask":       func(s *task.Segment) { s.MaskSide = 4 },
		"max prompts":   func(s *task.Segment) { s.BatchMethod = "batch" },
		"many prompts":  func(s *task.Segment) { s.BatchMethod, s.MaxPrompts = "batch", 1<<20 },
		"no batch":      func(s *task.Segment) { s.MaxPrompts = 4 },
	} {
		s := *good
		spoil(&s)
		if err := s.Validate(); !errors.Is(err, code.TaskSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
