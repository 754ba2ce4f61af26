// Package segment implements the task "segment": promptable segmentation, which turns an image and prompts into masks.
package segment

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/task"
)

// Kind is the name of the task in artifacts.
const Kind = "segment"

var _ = task.Register(Kind, func() task.Task { return &Task{} })

// Task describes promptable segmentation. The artifact stores it.
//
// One method turns the square image into an embedding, another turns the embedding and the prompts into masks:
//
//	image f32 [1,3,Size,Size]                                        -> Embedding
//	Embedding, points f32 [1,N,2], labels i32 [1,N], 1<=N<=MaxPoints -> masks f32 [1,Tokens,h,w] (logits), iou f32 [1,Tokens]
//
// PromptMethod may also take a mask f32 [1,1,MaskSide,MaskSide] of logits. NaN throughout means no mask, and a run may leave the
// input out. A third method may take P prompts for one image, 1<=P<=MaxPrompts, each with the same number of points and without a
// mask.
type Task struct {
	ImageMethod string `json:"image_method"` // "encode"
	ImageInput  string `json:"image_input"`  // "image"
	Embedding   string `json:"embedding"`    // output of ImageMethod, "embeddings"

	PromptMethod   string `json:"prompt_method"`        // "decode"
	EmbeddingInput string `json:"embedding_input"`      // input of PromptMethod that takes Embedding
	PointsInput    string `json:"points_input"`         // "points"
	LabelsInput    string `json:"labels_input"`         // "labels"
	MasksOutput    string `json:"masks_output"`         // "low_res_masks"
	IoUOutput      string `json:"iou_output"`           // "iou"
	MaskInput      string `json:"mask_input,omitempty"` // "mask"; empty if the model takes no masks
	MaskSide       int    `json:"mask_side,omitempty"`  // side of the mask in logits; 0 without MaskInput

	BatchMethod string `json:"batch_method,omitempty"` // "decode_batch"; empty if there is no such method
	MaxPrompts  int    `json:"max_prompts,omitempty"`  // prompts in one run of BatchMethod; 0 without it

	Size   int        `json:"size"`   // side of the square input in pixels
	Resize string     `json:"resize"` // ResizeLongestSide
	Pad    string     `json:"pad"`    // PadBottomRight
	Mean   [3]float64 `json:"mean"`   // of R, G, B, from 0 to 255
	Std    [3]float64 `json:"std"`

	Labels    Labels  `json:"labels"`
	MaxPoints int     `json:"max_points"` // upper bound of N, padding and box corners included
	Tokens    int     `json:"tokens"`     // masks that PromptMethod returns
	BestFirst int     `json:"best_first"` // "best" is chosen among masks BestFirst to BestLast
	BestLast  int     `json:"best_last"`
	Threshold float64 `json:"threshold"` // a pixel is inside the mask if its logit is larger
}

// Labels holds the codes of the labels tensor.
type Labels struct {
	Background int32 `json:"background"`
	Foreground int32 `json:"foreground"`
	BoxStart   int32 `json:"box_start"` // upper left corner
	BoxEnd     int32 `json:"box_end"`   // lower right corner
	Pad        int32 `json:"pad"`       // label of a point (0,0) that goes last if there is no box
}

// Values of Task.Resize and Task.Pad.
const (
	// ResizeLongestSide scales the longest side to Size, and the other in proportion to the nearest pixel. It is bilinear with
	// antialiasing, first in x and then in y, rounded to 8 bits after each. Pillow does this, and the published models were trained
	// and evaluated with it; with the rounding our input equals theirs.
	ResizeLongestSide = "longest_side"
	// PadBottomRight fills the square with zeros to the right and below, after normalisation.
	PadBottomRight = "bottom_right"
)

// New returns the description of a model that follows the Segment Anything conventions. size is the side of its square input in
// pixels, maxPoints the maximum number of points.
func New(size, maxPoints int) *Task {
	return &Task{
		ImageMethod: "encode", ImageInput: "image", Embedding: "embeddings",
		PromptMethod: "decode", EmbeddingInput: "embeddings", PointsInput: "points", LabelsInput: "labels",
		MasksOutput: "low_res_masks", IoUOutput: "iou",
		Size: size, Resize: ResizeLongestSide, Pad: PadBottomRight,
		Mean: [3]float64{123.675, 116.28, 103.53}, Std: [3]float64{58.395, 57.12, 57.375},
		Labels:    Labels{Background: 0, Foreground: 1, BoxStart: 2, BoxEnd: 3, Pad: -1},
		MaxPoints: maxPoints, Tokens: 4, BestFirst: 1, BestLast: 3,
	}
}

// Kind returns Kind.
func (s *Task) Kind() string { return Kind }

// Fields lists the fields, sorted by key.
func (s *Task) Fields() []task.Field {
	l := &s.Labels
	return []task.Field{
		{Key: "batch_method", Value: &s.BatchMethod, Added: true},
		{Key: "best_first", Value: &s.BestFirst}, {Key: "best_last", Value: &s.BestLast}, {Key: "embedding", Value: &s.Embedding},
		{Key: "embedding_input", Value: &s.EmbeddingInput}, {Key: "image_input", Value: &s.ImageInput}, {Key: "image_method", Value: &s.ImageMethod},
		{Key: "iou_output", Value: &s.IoUOutput}, {Key: "labels", Value: []task.Field{
			{Key: "background", Value: &l.Background}, {Key: "box_end", Value: &l.BoxEnd}, {Key: "box_start", Value: &l.BoxStart},
			{Key: "foreground", Value: &l.Foreground}, {Key: "pad", Value: &l.Pad},
		}},
		{Key: "labels_input", Value: &s.LabelsInput}, {Key: "mask_input", Value: &s.MaskInput, Added: true}, {Key: "mask_side", Value: &s.MaskSide, Added: true},
		{Key: "masks_output", Value: &s.MasksOutput}, {Key: "max_points", Value: &s.MaxPoints}, {Key: "max_prompts", Value: &s.MaxPrompts, Added: true},
		{Key: "mean", Value: s.Mean[:]}, {Key: "pad", Value: &s.Pad}, {Key: "points_input", Value: &s.PointsInput},
		{Key: "prompt_method", Value: &s.PromptMethod}, {Key: "resize", Value: &s.Resize}, {Key: "size", Value: &s.Size},
		{Key: "std", Value: s.Std[:]}, {Key: "threshold", Value: &s.Threshold}, {Key: "tokens", Value: &s.Tokens},
	}
}

// String describes the inputs of the task.
func (s *Task) String() string {
	prompts := "points and a box"
	if s.MaskInput != "" {
		prompts = "points, a box and a mask"
	}
	return fmt.Sprintf("an image of any size (%d px inside), %s, up to %d prompt tokens", s.Size, prompts, s.MaxPoints)
}

// MaxSize bounds Task.Size and the height and width of mask logits, in pixels.
const MaxSize = 1 << 14

// Limits that Validate enforces.
const (
	maxPoints  = 1 << 16
	maxPrompts = 1 << 12
	maxTokens  = 64
)

// Validate checks a description that was read from a file. It excludes division by zero, indexes out of range and unbounded
// allocation. The error is a *diag.Error with code.TaskSpec.
func (s *Task) Validate() error {
	bad := func(format string, args ...any) error { return diag.New(code.TaskSpec, "task "+Kind, format, args...) }
	for field, name := range map[string]string{
		"image_method": s.ImageMethod, "image_input": s.ImageInput, "embedding": s.Embedding, "prompt_method": s.PromptMethod,
		"embedding_input": s.EmbeddingInput, "points_input": s.PointsInput, "labels_input": s.LabelsInput,
		"masks_output": s.MasksOutput, "iou_output": s.IoUOutput,
	} {
		if name == "" {
			return bad("%s is empty", field)
		}
	}
	switch {
	case s.Size < 1 || s.Size > MaxSize:
		return bad("size is %d; allowed are 1 to %d", s.Size, MaxSize)
	case s.Resize != ResizeLongestSide:
		return bad("resize is %q; known is %q", s.Resize, ResizeLongestSide)
	case s.Pad != PadBottomRight:
		return bad("pad is %q; known is %q", s.Pad, PadBottomRight)
	case s.MaxPoints < 2 || s.MaxPoints > maxPoints:
		return bad("max_points is %d; allowed are 2 (one point and padding, or one box) to %d", s.MaxPoints, maxPoints)
	case s.MaskInput == "" && s.MaskSide != 0 || s.MaskInput != "" && (s.MaskSide < 1 || s.MaskSide > MaxSize):
		return bad("mask_side is %d with mask_input %q; allowed are 1 to %d, and 0 without a mask", s.MaskSide, s.MaskInput, MaxSize)
	case s.BatchMethod == "" && s.MaxPrompts != 0 || s.BatchMethod != "" && (s.MaxPrompts < 1 || s.MaxPrompts > maxPrompts):
		return bad("max_prompts is %d with batch_method %q; allowed are 1 to %d, and 0 without a method", s.MaxPrompts, s.BatchMethod, maxPrompts)
	case s.Tokens < 1 || s.Tokens > maxTokens:
		return bad("tokens is %d; allowed are 1 to %d", s.Tokens, maxTokens)
	case s.BestFirst < 0 || s.BestLast < s.BestFirst || s.BestLast >= s.Tokens:
		return bad("best is chosen among masks %d to %d of %d", s.BestFirst, s.BestLast, s.Tokens)
	case math.IsNaN(s.Threshold) || math.IsInf(s.Threshold, 0):
		return bad("threshold is %v", s.Threshold)
	}
	for c := range 3 {
		if !(math.Abs(s.Mean[c]) <= 1e6) || !(s.Std[c] >= 1e-6 && s.Std[c] <= 1e6) {
			return bad("mean %v and std %v of channel %d are out of range", s.Mean[c], s.Std[c], c)
		}
	}
	return nil
}
