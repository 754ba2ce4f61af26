package task

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Check compares the task with the methods that it names.
func (s *Segment) Check(m Methods) error {
	image, err := m.Taking(s.ImageMethod, s.ImageInput)
	if err != nil {
		return err
	}
	side := Exactly(s.Size)
	_, errImage := image.Input(s.ImageInput, dtype.F32, Shape{Exactly(1), Exactly(3), side, side})
	made, errMade := image.Output(s.Embedding, dtype.F32, nil)
	if err := cmp.Or(errImage, errMade); err != nil {
		return err
	}
	inputs := append([]string{s.EmbeddingInput, s.PointsInput, s.LabelsInput}, s.Features...)
	if s.BatchMethod != "" {
		batch, err := m.Taking(s.BatchMethod, slices.Clone(inputs)...)
		if err == nil {
			err = s.checkPrompts(image, batch, made, Sizes{Min: 1, Max: int64(s.MaxPrompts)})
		}
		if err != nil {
			return err
		}
	}
	if s.MaskInput != "" {
		inputs = append(inputs, s.MaskInput)
	}
	prompt, err := m.Taking(s.PromptMethod, inputs...)
	if err != nil {
		return err
	}
	if s.MaskInput != "" {
		side := Exactly(s.MaskSide)
		if _, err := prompt.Input(s.MaskInput, dtype.F32, Shape{Exactly(1), Exactly(1), side, side}); err != nil {
			return err
		}
	}
	return s.checkPrompts(image, prompt, made, Exactly(1))
}

// checkPrompts compares the task with a method that takes a number of prompts in the range prompts. made is the type of
// the embedding.
func (s *Segment) checkPrompts(image, prompt *Method, made ir.Type, prompts Sizes) error {
	two := Exactly(2)
	tokens, low := Exactly(s.Tokens), Sizes{Min: 1, Max: maxSide}
	taken, errTaken := prompt.Input(s.EmbeddingInput, dtype.F32, nil)
	points, errPoints := prompt.Input(s.PointsInput, dtype.F32, Shape{AnySize, AnySize, two})
	labels, errLabels := prompt.Input(s.LabelsInput, dtype.I32, Shape{AnySize, AnySize})
	masks, errMasks := prompt.Output(s.MasksOutput, dtype.F32, Shape{AnySize, tokens, low, low})
	iou, errIoU := prompt.Output(s.IoUOutput, dtype.F32, Shape{AnySize, tokens})
	if err := cmp.Or(errTaken, errPoints, errLabels, errMasks, errIoU); err != nil {
		return err
	}
	if !made.Equal(taken) || !made.Shape.IsStatic() {
		return image.Bad("output %s is %v and input %s of method %s is %v; want one type without symbols", s.Embedding,
			made, s.EmbeddingInput, prompt.Name, taken)
	}
	if err := checkFeatures(image, prompt, s.Features); err != nil {
		return err
	}
	if !points.Shape[:2].Equal(labels.Shape) {
		return prompt.Bad("%s is %v and %s is %v; want one number of points", s.PointsInput, points, s.LabelsInput,
			labels)
	}
	// The smallest prompt is one point and padding.
	if n := points.Shape[1]; !prompt.TakesEvery(n, 2, int64(s.MaxPoints)) {
		lo, hi := prompt.Syms.Bounds(n)
		return prompt.Bad("%s is %v, %d to %d points; the task gives 2 to %d", s.PointsInput, points, lo, hi,
			s.MaxPoints)
	}
	p := points.Shape[0]
	if lo, hi := prompt.Syms.Bounds(p); !prompt.TakesEvery(p, prompts.Min, prompts.Max) || prompts.Max == 1 && hi != 1 {
		return prompt.Bad("%s is %v, %d to %d prompts; the task gives %v", s.PointsInput, points, lo, hi, prompts)
	}
	if masks.Shape[0] != p || iou.Shape[0] != p {
		return prompt.Bad("%s is %v and %s is %v for %v prompts; want masks of every prompt", s.MasksOutput, masks,
			s.IoUOutput, iou, p)
	}
	return nil
}

// checkFeatures checks that outputs of the image method are inputs of another of the same names and types.
func checkFeatures(image, other *Method, names []string) error {
	for _, name := range names {
		made, errMade := image.Output(name, dtype.F32, nil)
		taken, errTaken := other.Input(name, dtype.F32, nil)
		if err := cmp.Or(errMade, errTaken); err != nil {
			return err
		}
		if !made.Equal(taken) || !made.Shape.IsStatic() {
			return image.Bad("output %s is %v and that input of method %s is %v; want one type without symbols", name,
				made, other.Name, taken)
		}
	}
	return nil
}

// Default returns NaN for the mask. A mask of NaN means that the run has no mask.
func (s *Segment) Default(method, input string) (value float64, ok bool) {
	return math.NaN(), s.MaskInput != "" && method == s.PromptMethod && input == s.MaskInput
}

// CheckInput checks labels and masks. The model uses a label as an index, so an unknown one would be out of range. A
// mask with some NaN elements would be taken for no mask, or for one with holes.
func (s *Segment) CheckInput(method, input string, v tensor.Tensor) error {
	switch {
	case (method == s.PromptMethod || method == s.BatchMethod) && input == s.LabelsInput:
		return s.checkLabels(v)
	case method == s.PromptMethod && s.MaskInput != "" && input == s.MaskInput:
		return checkSegmentMask(v)
	}
	return nil
}

func checkSegmentMask(v tensor.Tensor) error {
	value := func(i int) float32 { return math.Float32frombits(binary.NativeEndian.Uint32(v.Data[4*i:])) }
	n := len(v.Data) / 4
	none := n > 0 && value(0) != value(0)
	for i := range n {
		if x := value(i); (x != x) != none || math.IsInf(float64(x), 0) {
			return fmt.Errorf(
				"logit %d is %v and logit 0 is %v; allowed are finite numbers, or NaN throughout for no mask", i, x,
				value(0))
		}
	}
	return nil
}

func (s *Segment) checkLabels(v tensor.Tensor) error {
	l := s.Labels
	for i := range len(v.Data) / 4 {
		label := int32(binary.NativeEndian.Uint32(v.Data[4*i:]))
		if !slices.Contains([]int32{l.Background, l.Foreground, l.BoxStart, l.BoxEnd, l.Pad}, label) {
			return fmt.Errorf(
				"label %d is %d; allowed are %d (foreground), %d (background), %d and %d (corners of a box) and %d (padding)",
				i, label, l.Foreground, l.Background, l.BoxStart, l.BoxEnd, l.Pad)
		}
	}
	return nil
}
