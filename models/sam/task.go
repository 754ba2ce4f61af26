package sam

import (
	"github.com/rlx-go/rlx/models/promptable"
	"github.com/rlx-go/rlx/task"
)

// describe returns the task of a whole model. Mask token 0 is meant for unambiguous prompts; tokens 1 to 3 are the
// three candidates among which the predicted IoU decides.
func describe(c config) *task.Segment {
	s := task.NewSegment(int(c.imageSize), promptable.MaxPoints)
	s.Tokens = int(c.masks)
	s.BestFirst, s.BestLast = min(1, s.Tokens-1), s.Tokens-1
	s.BatchMethod, s.MaxPrompts = "decode_batch", promptable.MaxPrompts
	if c.maskChannels[0] > 0 {
		s.MaskInput, s.MaskSide = "mask", int(4*c.grid)
	}
	return s
}
