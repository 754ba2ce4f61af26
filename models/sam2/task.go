package sam2

import (
	"github.com/rlx-go/rlx/models/promptable"
	"github.com/rlx-go/rlx/task"
)

// describe returns the task. Mask 0 is meant for unambiguous prompts; the others are candidates among which the
// predicted quality decides.
func describe(c config) *task.Segment {
	s := task.NewSegment(int(c.ImageSize), promptable.MaxPoints)
	s.Resize, s.PadBoxes = task.ResizeStretch, true
	s.Features = promptable.FinerNames[:]
	s.Tokens = int(c.Masks)
	s.BestFirst, s.BestLast = min(1, s.Tokens-1), s.Tokens-1
	s.BatchMethod, s.MaxPrompts = "decode_batch", promptable.MaxPrompts
	s.MaskInput, s.MaskSide = "mask", int(4*c.Grid)
	return s
}
