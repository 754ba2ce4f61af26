package task

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// TextImages describes how images become part of a text. An image is resized and cut into patches as Patches describes,
// and each block of Merge x Merge patches takes the place of one token.
//
//	Method: Patches f32[n*Merge*Merge,3*Patch*Patch] (one frame of each), Grid i32[2] (rows and columns of patches) ->
//	Features f32[n,w] (a row for each block)
//	Append: Features f32[t,w], Text.Inputs.Position i32[], Rotary i32[3,t] (appends blocks to the tokens in a state)
//
// with n from 1 to MaxTokens and t from 1 to Text.Chunk. Text.Method then takes Rotary i32[3,t] too, and the method for
// batches Rotary i32[3,B,t]: the time, row and column of each of its t tokens. A token of text has the same number in
// all three: one more than the largest before it. A block of an image that begins at p has time p, row p+y and column
// p+x.
type TextImages struct {
	Append    string     `json:"append"`
	Features  string     `json:"features"`
	Grid      string     `json:"grid"`
	MaxPixels int        `json:"max_pixels"` // area of a resized image, as in Patches
	MaxTokens int        `json:"max_tokens"` // an image with more blocks is refused
	Mean      [3]float64 `json:"mean"`       // of R, G, B from 0 to 1
	Merge     int        `json:"merge"`
	Method    string     `json:"method"`
	MinPixels int        `json:"min_pixels"`
	Patch     int        `json:"patch"` // side in pixels
	Patches   string     `json:"patches"`
	Rotary    string     `json:"rotary"`
	// Sequence i32[1], the number of a sequence in the state, is an input of Append if there are methods for batches.
	// Otherwise it is empty.
	Sequence string `json:"sequence"`

	Std   [3]float64 `json:"std"`
	Token int        `json:"token"` // id that stands for a block of an image
	// id that stands for a part of a video, which no method takes; -1 if there is none
	Video int `json:"video"`
}

func (t *TextImages) fields() []Field {
	return []Field{
		{Key: "append", Value: &t.Append}, {Key: "features", Value: &t.Features}, {Key: "grid", Value: &t.Grid},
		{Key: "max_pixels", Value: &t.MaxPixels}, {Key: "max_tokens", Value: &t.MaxTokens},
		{Key: "mean", Value: t.Mean[:]}, {Key: "merge", Value: &t.Merge}, {Key: "method", Value: &t.Method},
		{Key: "min_pixels", Value: &t.MinPixels}, {Key: "patch", Value: &t.Patch}, {Key: "patches", Value: &t.Patches},
		{Key: "rotary", Value: &t.Rotary}, {Key: "sequence", Value: &t.Sequence}, {Key: "std", Value: t.Std[:]},
		{Key: "token", Value: &t.Token}, {Key: "video", Value: &t.Video},
	}
}

// TakesImages reports whether images may be part of a text.
func (t *Text) TakesImages() bool { return t.Images.Method != "" }

// checkImageParts checks a description that was read from a file: it is complete or absent.
func (t *Text) checkImageParts() error {
	x := &t.Images
	if *x == (TextImages{}) {
		return nil
	}
	if t.Slides() || t.Draft.Method != "" {
		return fmt.Errorf("images is %+v, and there are methods for drafts or sliding; want one of them", *x)
	}
	if several := t.Batch.Method != ""; several != (x.Sequence != "") || several && t.Batch.Sequence == "" {
		return fmt.Errorf("images is %+v and batch %+v; want sequence in both, or in none", *x, t.Batch)
	}
	if slices.Contains([]string{x.Append, x.Features, x.Grid, x.Method, x.Patches, x.Rotary}, "") {
		return fmt.Errorf("images is %+v; want all names, or none", *x)
	}
	for _, n := range []struct {
		field            string
		value, min, most int
	}{
		{"patch", x.Patch, 1, maxPatch}, {"merge", x.Merge, 1, maxMerge},
		{"max_pixels", x.MaxPixels, 1, maxPixels}, {"min_pixels", x.MinPixels, 1, x.MaxPixels},
		{"token", x.Token, 0, t.Vocabulary - 1}, {"video", x.Video, -1, t.Vocabulary - 1},
	} {
		if n.value < n.min || n.value > n.most {
			return fmt.Errorf("images.%s is %d; allowed are %d to %d", n.field, n.value, n.min, n.most)
		}
	}
	if most := min(t.Context, maxPatches/(x.Merge*x.Merge)); x.MaxTokens < 1 || x.MaxTokens > most {
		return fmt.Errorf("images.max_tokens is %d; allowed are 1 to %d", x.MaxTokens, most)
	}
	return checkColours(x.Mean, x.Std)
}

// checkColours checks the numbers that normalise colours.
func checkColours(mean, std [3]float64) error {
	for c := range 3 {
		if !(math.Abs(mean[c]) <= 1e6) || !(std[c] >= 1e-6 && std[c] <= 1e6) {
			return fmt.Errorf("mean %v and std %v of channel %d are out of range", mean[c], std[c], c)
		}
	}
	return nil
}

// checkImages compares the methods for images with the task. f is the method of the task, and tokens its number of ids.
func (t *Text) checkImages(m Methods, f *Method, tokens ir.Dim) error {
	x := &t.Images
	three := Shape{Exactly(3), AnySize}
	rotary, err := f.Input(x.Rotary, dtype.I32, three)
	if err != nil {
		return err
	}
	if rotary.Shape[1] != tokens {
		return f.Bad("%s is %v; want a column for each of %v tokens", x.Rotary, rotary, tokens)
	}
	see, err := m.Taking(x.Method, x.Patches, x.Grid)
	if err != nil {
		return err
	}
	patches, err := see.Input(x.Patches, dtype.F32, Shape{AnySize, Exactly(3 * x.Patch * x.Patch)})
	_, wrong := see.Input(x.Grid, dtype.I32, Shape{Exactly(2)})
	features, wrong2 := see.Output(x.Features, dtype.F32, Shape{AnySize, AnySize})
	if err = cmp.Or(err, wrong, wrong2); err != nil {
		return err
	}
	blocks := features.Shape[0]
	if n, ok := blocks.Mul(ir.Static(int64(x.Merge * x.Merge))); !ok || n != patches.Shape[0] ||
		!see.TakesEvery(blocks, 1, int64(x.MaxTokens)) || !features.Shape[1].IsStatic() {
		return see.Bad("%s is %v and %s is %v; want %d rows for each of 1 to %d rows of known size", x.Patches, patches,
			x.Features, features, x.Merge*x.Merge, x.MaxTokens)
	}
	inputs := []string{x.Features, t.Inputs.Position, x.Rotary}
	if x.Sequence != "" {
		inputs = append(inputs, x.Sequence)
	}
	add, err := m.Taking(x.Append, inputs...)
	if err == nil && x.Sequence != "" {
		_, err = add.Input(x.Sequence, dtype.I32, Shape{Exactly(1)})
	}
	if err != nil {
		return err
	}
	in, err := add.Input(x.Features, dtype.F32, Shape{AnySize, Exactly(int(features.Shape[1].Const))})
	_, wrong = add.Input(t.Inputs.Position, dtype.I32, Shape{})
	rotary, wrong2 = add.Input(x.Rotary, dtype.I32, three)
	if err = cmp.Or(err, wrong, wrong2); err != nil {
		return err
	}
	if in.Shape[0] != rotary.Shape[1] || !add.TakesEvery(in.Shape[0], 1, int64(t.Chunk)) {
		return add.Bad("%s is %v and %s %v; want 1 to %d rows, and as many columns", x.Features, in, x.Rotary, rotary,
			t.Chunk)
	}
	return nil
}

// checkGrid checks the rows and columns of an image.
func (t *TextImages) checkGrid(v tensor.Tensor) error {
	for i := range len(v.Data) / 4 {
		if n := int32At(v, i); n < t.Merge || n%t.Merge != 0 || n > t.MaxTokens*t.Merge {
			return fmt.Errorf("is %d; allowed are multiples of %d up to %d", n, t.Merge, t.MaxTokens*t.Merge)
		}
	}
	return nil
}
