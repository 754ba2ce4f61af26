package segment

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/task"
	"github.com/rlx-go/rlx/core/tensor"
)

// Check compares the task with the methods that it names.
func (s *Task) Check(m task.Methods) error {
	image, err := m.Taking(s.ImageMethod, s.ImageInput)
	if err != nil {
		return err
	}
	prompt, err := m.Taking(s.PromptMethod, s.EmbeddingInput, s.PointsInput, s.LabelsInput)
	if err != nil {
		return err
	}
	one, two, three := task.Exactly(1), task.Exactly(2), task.Exactly(3)
	side, tokens, low := task.Exactly(s.Size), task.Exactly(s.Tokens), task.Sizes{Min: 1, Max: MaxSize}
	_, errImage := image.Input(s.ImageInput, dtype.F32, task.Shape{one, three, side, side})
	made, errMade := image.Output(s.Embedding, dtype.F32, nil)
	taken, errTaken := prompt.Input(s.EmbeddingInput, dtype.F32, nil)
	points, errPoints := prompt.Input(s.PointsInput, dtype.F32, task.Shape{one, task.AnySize, two})
	labels, errLabels := prompt.Input(s.LabelsInput, dtype.I32, task.Shape{one, task.AnySize})
	_, errMasks := prompt.Output(s.MasksOutput, dtype.F32, task.Shape{one, tokens, low, low})
	_, errIoU := prompt.Output(s.IoUOutput, dtype.F32, task.Shape{one, tokens})
	if err := cmp.Or(errImage, errMade, errTaken, errPoints, errLabels, errMasks, errIoU); err != nil {
		return err
	}
	if !made.Equal(taken) || !made.Shape.IsStatic() {
		return image.Bad("output %s is %v and input %s of method %s is %v; want one type without symbols", s.Embedding, made, s.EmbeddingInput, prompt.Name, taken)
	}
	if !points.Shape[:2].Equal(labels.Shape) {
		return prompt.Bad("%s is %v and %s is %v; want one number of points", s.PointsInput, points, s.LabelsInput, labels)
	}
	// One point and padding are the fewest.
	if n := points.Shape[1]; !prompt.TakesEvery(n, 2, int64(s.MaxPoints)) {
		lo, hi := prompt.Syms.Bounds(n)
		return prompt.Bad("%s is %v, %d to %d points; the task gives 2 to %d", s.PointsInput, points, lo, hi, s.MaxPoints)
	}
	return nil
}

// CheckInput compares the labels of a prompt with those that the task knows: inside the model an unknown one would be the index of
// a row that is not there.
func (s *Task) CheckInput(method, input string, v tensor.Tensor) error {
	if method != s.PromptMethod || input != s.LabelsInput {
		return nil
	}
	l := s.Labels
	for i := range len(v.Data) / 4 {
		label := int32(binary.NativeEndian.Uint32(v.Data[4*i:]))
		if !slices.Contains([]int32{l.Background, l.Foreground, l.BoxStart, l.BoxEnd, l.Pad}, label) {
			return fmt.Errorf("label %d is %d; allowed are %d (foreground), %d (background), %d and %d (corners of a box) and %d (padding)",
				i, label, l.Foreground, l.Background, l.BoxStart, l.BoxEnd, l.Pad)
		}
	}
	return nil
}
