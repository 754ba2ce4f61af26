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
func (c *Concepts) Check(m Methods) error {
	image, errImage := m.Taking(c.ImageMethod, c.ImageInput)
	text, errText := m.Taking(c.TextMethod, c.IDsInput)
	inputs := append(slices.Clone(c.Features), c.Text)
	detect, errDetect := m.Taking(c.DetectMethod, slices.Clone(inputs)...)
	if err := cmp.Or(errImage, errText, errDetect); err != nil {
		return err
	}
	one, side := Exactly(1), Exactly(c.Size)
	if _, err := image.Input(c.ImageInput, dtype.F32, Shape{one, Exactly(3), side, side}); err != nil {
		return err
	}
	words, err := c.checkText(text)
	if err != nil {
		return err
	}
	if err := c.checkDetect(image, detect, words); err != nil {
		return err
	}
	if c.hasClicks() {
		if err := c.Clicks.Check(m); err != nil {
			return err
		}
	}
	if c.ExamplesMethod == "" {
		return nil
	}
	examples, err := m.Taking(c.ExamplesMethod, append(inputs, c.ExamplesInput, c.LabelsInput)...)
	if err != nil {
		return err
	}
	boxes, errBoxes := examples.Input(c.ExamplesInput, dtype.F32, Shape{one, AnySize, Exactly(4)})
	labels, errLabels := examples.Input(c.LabelsInput, dtype.I32, Shape{one, AnySize})
	if err := cmp.Or(errBoxes, errLabels); err != nil {
		return err
	}
	if n := boxes.Shape[1]; n != labels.Shape[1] || !examples.TakesEvery(n, 1, int64(c.MaxExamples)) {
		return examples.Bad("%s is %v and %s is %v; want one number of examples that can be 1 to %d", c.ExamplesInput,
			boxes, c.LabelsInput, labels, c.MaxExamples)
	}
	return c.checkDetect(image, examples, words)
}

// checkText checks the method of texts, and returns the type of a text without its number of tokens.
func (c *Concepts) checkText(text *Method) (width ir.Dim, err error) {
	one := Exactly(1)
	ids, errIDs := text.Input(c.IDsInput, dtype.I32, Shape{one, AnySize})
	words, errText := text.Output(c.Text, dtype.F32, Shape{one, AnySize, AnySize})
	if err := cmp.Or(errIDs, errText); err != nil {
		return width, err
	}
	n := ids.Shape[1]
	if !text.TakesEvery(n, 1, int64(c.MaxTokens)) {
		return width, text.Bad("%s is %v; want a number of tokens that can be 1 to %d", c.IDsInput, ids, c.MaxTokens)
	}
	if words.Shape[1] != n || !words.Shape[2:].IsStatic() {
		return width, text.Bad("%s is %v; want a row of known size for each of %v tokens", c.Text, words, n)
	}
	return words.Shape[2], nil
}

// checkDetect checks a method that finds objects. width is the size of a row of a text.
func (c *Concepts) checkDetect(image, detect *Method, width ir.Dim) error {
	one, queries, low := Exactly(1), Exactly(c.Queries), Sizes{Min: 1, Max: maxSide}
	words, errText := detect.Input(c.Text, dtype.F32, Shape{one, AnySize, AnySize})
	_, errLogits := detect.Output(c.LogitsOutput, dtype.F32, Shape{one, queries})
	_, errPresence := detect.Output(c.PresenceOutput, dtype.F32, Shape{one, one})
	_, errBoxes := detect.Output(c.BoxesOutput, dtype.F32, Shape{one, queries, Exactly(4)})
	_, errMasks := detect.Output(c.MasksOutput, dtype.F32, Shape{one, queries, low, low})
	if err := cmp.Or(errText, errLogits, errPresence, errBoxes, errMasks); err != nil {
		return err
	}
	if words.Shape[2] != width || !detect.TakesEvery(words.Shape[1], 1, int64(c.MaxTokens)) {
		return detect.Bad("%s is %v; want rows of %v for a number of tokens that can be 1 to %d", c.Text, words, width,
			c.MaxTokens)
	}
	return checkFeatures(image, detect, c.Features)
}

// Default returns the default of the mask input that clicks use. The other inputs have none.
func (c *Concepts) Default(method, input string) (value float64, ok bool) {
	if !c.hasClicks() {
		return 0, false
	}
	return c.Clicks.Default(method, input)
}

// CheckInput checks the ids, labels and boxes of a request, and the inputs of clicks. The model uses ids and labels as
// indices, and reads the image at the place of a box.
func (c *Concepts) CheckInput(method, input string, v tensor.Tensor) error {
	switch {
	case c.hasClicks() && (method == c.Clicks.PromptMethod || method == c.Clicks.BatchMethod):
		return c.Clicks.CheckInput(method, input, v)
	case method == c.TextMethod && input == c.IDsInput:
		return below(v, c.Vocabulary, "id")
	case method != c.ExamplesMethod || method == "":
	case input == c.LabelsInput:
		return below(v, 2, "label")
	case input == c.ExamplesInput:
		for i := range len(v.Data) / 4 {
			x := float64(math.Float32frombits(binary.NativeEndian.Uint32(v.Data[4*i:])))
			if !(x >= 0 && x <= 1) {
				return fmt.Errorf("number %d of example %d is %v; allowed are 0 to 1, parts of the image", i%4, i/4, x)
			}
		}
	}
	return nil
}

// below checks that each i32 is from 0 to n-1.
func below(v tensor.Tensor, n int, what string) error {
	for i := range len(v.Data) / 4 {
		if x := int32At(v, i); x < 0 || x >= n {
			return fmt.Errorf("%s %d is %d; allowed are 0 to %d", what, i, x, n-1)
		}
	}
	return nil
}
