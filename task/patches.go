package task

import (
	"fmt"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// KindPatches is the kind of Patches in artifacts.
const KindPatches = "patches"

var _ = Register(KindPatches, func() Task { return &Patches{} })

// Patches describes a model that turns an image into embeddings of its patches. Vision encoders for images of any size
// begin with it (Qwen2-VL, arXiv:2409.12191). Package patches runs it. One method computes
//
//	PixelsInput f32 [n,3*Frames*Patch*Patch] -> Embeddings f32 [n,width]
//
// Each row is a patch, and n can have every value from Merge*Merge to MaxPatches. If ImageMethod is set, that method
// computes the same from the pixels of an image that is resized but not normalised, with values from 0 to 255:
//
//	ImageInput f32 [h,w,3] -> Embeddings f32 [h*w/(Patch*Patch),width]
//
// The sides can have every multiple of Patch*Merge, up to MaxSide times that.
type Patches struct {
	Method      string `json:"method"`       // "patch_embed"
	PixelsInput string `json:"pixels_input"` // "pixel_values"
	Embeddings  string `json:"embeddings"`   // "embeddings"

	Patch      int `json:"patch"`       // side of a patch in pixels
	Frames     int `json:"frames"`      // frames in a patch; all equal for a still image
	Merge      int `json:"merge"`       // side of a block in patches; the patches of a block are adjacent rows
	MinPixels  int `json:"min_pixels"`  // smaller images are enlarged
	MaxPixels  int `json:"max_pixels"`  // larger images are shrunk
	MaxPatches int `json:"max_patches"` // per run

	ImageMethod string `json:"image_method,omitempty"` // "embed_image"; empty if there is no such method
	ImageInput  string `json:"image_input,omitempty"`  // "image"
	MaxSide     int    `json:"max_side,omitempty"`     // of its image, in blocks

	Mean [3]float64 `json:"mean"` // of R, G, B from 0 to 1
	Std  [3]float64 `json:"std"`
}

// Kind returns KindPatches.
func (t *Patches) Kind() string { return KindPatches }

// Fields lists the fields, sorted by key.
func (t *Patches) Fields() []Field {
	return []Field{
		{Key: "embeddings", Value: &t.Embeddings}, {Key: "frames", Value: &t.Frames},
		{Key: "image_input", Value: &t.ImageInput, Added: true},
		{Key: "image_method", Value: &t.ImageMethod, Added: true},
		{Key: "max_patches", Value: &t.MaxPatches},
		{Key: "max_pixels", Value: &t.MaxPixels},
		{Key: "max_side", Value: &t.MaxSide, Added: true},
		{Key: "mean", Value: t.Mean[:]}, {Key: "merge", Value: &t.Merge},
		{Key: "method", Value: &t.Method},
		{Key: "min_pixels", Value: &t.MinPixels}, {Key: "patch", Value: &t.Patch},
		{Key: "pixels_input", Value: &t.PixelsInput}, {Key: "std", Value: t.Std[:]},
	}
}

// String describes the inputs of the
func (t *Patches) String() string {
	return fmt.Sprintf("an image of any size (%d to %d px inside), in patches of %d x %d", t.MinPixels, t.MaxPixels,
		t.Patch, t.Patch)
}

// Limits that Validate enforces.
const (
	maxPatch   = 1 << 10
	maxFrames  = 1 << 6
	maxMerge   = 1 << 6
	maxPixels  = 1 << 28
	maxPatches = 1 << 20
	// maxSideBlocks is the longest side of an image in blocks.
	maxSideBlocks = 1 << 14
)

// Validate checks a description that was read from a file. It excludes division by zero, indexes out of range and
// unbounded allocation. The error is a *diag.Error with code.TaskSpec.
func (t *Patches) Validate() error {
	bad := func(format string, args ...any) error {
		return diag.New(code.TaskSpec, "task "+KindPatches, format, args...)
	}
	for field, name := range map[string]string{"method": t.Method, "pixels_input": t.PixelsInput,
		"embeddings": t.Embeddings} {
		if name == "" {
			return bad("%s is empty", field)
		}
	}
	for _, n := range []struct {
		field            string
		value, min, most int
	}{
		{"patch", t.Patch, 1, maxPatch}, {"frames", t.Frames, 1, maxFrames}, {"merge", t.Merge, 1, maxMerge},
		{"max_pixels", t.MaxPixels, 1, maxPixels}, {"min_pixels", t.MinPixels, 1, t.MaxPixels},
		{"max_patches", t.MaxPatches, 1, maxPatches},
	} {
		if n.value < n.min || n.value > n.most {
			return bad("%s is %d; allowed are %d to %d", n.field, n.value, n.min, n.most)
		}
	}
	if image := t.ImageMethod != ""; image != (t.ImageInput != "") || image != (t.MaxSide > 0) ||
		t.MaxSide < 0 || t.MaxSide > maxSideBlocks {
		return bad("image_method %q, image_input %q and max_side %d do not belong together; max_side is at most %d",
			t.ImageMethod, t.ImageInput, t.MaxSide, maxSideBlocks)
	}
	if block := t.Merge * t.Merge; t.MaxPatches < block {
		return bad("max_patches is %d; a block has %d", t.MaxPatches, block)
	}
	if err := checkColours(t.Mean, t.Std); err != nil {
		return bad("%w", err)
	}
	return nil
}

// row returns the number of values of a patch.
func (t *Patches) row() int { return 3 * t.Frames * t.Patch * t.Patch }

// Check compares the task with the methods that it names.
func (t *Patches) Check(m Methods) error {
	if err := t.checkRows(m); err != nil || t.ImageMethod == "" {
		return err
	}
	return t.checkImage(m)
}

// checkImage checks the method that takes an image.
func (t *Patches) checkImage(m Methods) error {
	f, err := m.Taking(t.ImageMethod, t.ImageInput)
	if err != nil {
		return err
	}
	in, err := f.Input(t.ImageInput, dtype.F32, Shape{AnySize, AnySize, Exactly(3)})
	if err != nil {
		return err
	}
	out, err := f.Output(t.Embeddings, dtype.F32, Shape{AnySize, AnySize})
	if err != nil {
		return err
	}
	block := int64(t.Patch * t.Merge)
	var blocks [2]ir.Dim
	for i := range blocks {
		var ok bool
		if blocks[i], ok = in.Shape[i].Div(ir.Static(block)); !ok || !f.TakesEvery(blocks[i], 1, int64(t.MaxSide)) {
			return f.Bad("%s is %v; the task gives sides of %d to %d, multiples of %d", t.ImageInput, in, block,
				block*int64(t.MaxSide), block)
		}
	}
	if blocks[0] == blocks[1] && t.MaxSide > 1 {
		return f.Bad("%s is %v; the task gives images that are not square", t.ImageInput, in)
	}
	rows, ok := blocks[0].Mul(blocks[1])
	if ok {
		rows, ok = rows.Mul(ir.Static(int64(t.Merge * t.Merge)))
	}
	if !ok || out.Shape[0] != rows {
		return f.Bad("%s is %v and %s is %v; want a row for each patch", t.ImageInput, in, t.Embeddings, out)
	}
	return nil
}

// checkRows checks the method that takes patches.
func (t *Patches) checkRows(m Methods) error {
	f, err := m.Taking(t.Method, t.PixelsInput)
	if err != nil {
		return err
	}
	in, err := f.Input(t.PixelsInput, dtype.F32, Shape{AnySize, Exactly(t.row())})
	if err != nil {
		return err
	}
	out, err := f.Output(t.Embeddings, dtype.F32, Shape{AnySize, AnySize})
	if err != nil {
		return err
	}
	if least := t.Merge * t.Merge; !f.TakesEvery(in.Shape[0], int64(least), int64(t.MaxPatches)) {
		return f.Bad("%s is %v; the task gives %d to %d rows", t.PixelsInput, in, least, t.MaxPatches)
	}
	if out.Shape[0] != in.Shape[0] {
		return f.Bad("%s is %v and %s is %v; want a row for each patch", t.PixelsInput, in, t.Embeddings, out)
	}
	return nil
}

// CheckInput accepts every value.
func (t *Patches) CheckInput(string, string, tensor.Tensor) error { return nil }
