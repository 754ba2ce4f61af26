package task

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// KindSegment is the kind of a Segment in artifacts.
const KindSegment = "segment"

var _ = Register(KindSegment, func() Task { return &Segment{} })

// A Segment describes promptable segmentation, which turns an image and prompts into masks. Package segment runs it.
//
// One method turns the square image into an embedding, another turns the embedding and the prompts into masks:
//
//	image f32 [1,3,Size,Size]                                        -> Embedding
//	Embedding, Features, points f32 [1,N,2], labels i32 [1,N], 1<=N<=MaxPoints
//	  -> masks f32 [1,Tokens,h,w] (logits), iou f32 [1,Tokens]
//
// PromptMethod may also take a mask f32 [1,1,MaskSide,MaskSide] of logits. NaN throughout means no mask, and a run may
// leave the input out. A third method may take P prompts for one image, 1<=P<=MaxPrompts, each with the same number of
// points and without a mask.
type Segment struct {
	ImageMethod string `json:"image_method"` // "encode"
	ImageInput  string `json:"image_input"`  // "image"
	Embedding   string `json:"embedding"`    // output of ImageMethod, "embeddings"

	// Features lists further outputs of ImageMethod, f32, that PromptMethod and BatchMethod take as inputs of the same
	// names.
	Features []string `json:"features,omitempty"`

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
	Resize string     `json:"resize"` // ResizeLongestSide or ResizeStretch
	Pad    string     `json:"pad"`    // PadBottomRight
	Mean   [3]float64 `json:"mean"`   // of R, G, B, from 0 to 255
	Std    [3]float64 `json:"std"`

	Labels SegmentLabels `json:"labels"`
	// PadBoxes tells that a padding point follows the corners of a box, too. SAM 2 was trained so.
	PadBoxes  bool    `json:"pad_boxes,omitempty"`
	MaxPoints int     `json:"max_points"` // upper bound of N, padding and box corners included
	Tokens    int     `json:"tokens"`     // masks that PromptMethod returns
	BestFirst int     `json:"best_first"` // "best" is chosen among masks BestFirst to BestLast
	BestLast  int     `json:"best_last"`
	Threshold float64 `json:"threshold"` // a pixel is inside the mask if its logit is larger
}

// SegmentLabels holds the codes of the labels tensor.
type SegmentLabels struct {
	Background int32 `json:"background"`
	Foreground int32 `json:"foreground"`
	BoxStart   int32 `json:"box_start"` // upper left corner
	BoxEnd     int32 `json:"box_end"`   // lower right corner
	Pad        int32 `json:"pad"`       // label of a point (0,0) that goes last if there is no box, or with PadBoxes
}

// Values of Segment.Resize and Segment.Pad.
const (
	// ResizeLongestSide scales the longest side to Size, and the other in proportion to the nearest pixel. It is
	// bilinear with antialiasing, first in x and then in y, rounded to 8 bits after each. Pillow does this, and the
	// published models were trained and evaluated with it; with the rounding our input equals theirs.
	ResizeLongestSide = "longest_side"
	// ResizeStretch scales both sides to Size, in the same way. Nothing is left to fill.
	ResizeStretch = "stretch"
	// PadBottomRight fills the square with zeros to the right and below, after normalisation.
	PadBottomRight = "bottom_right"
)

// NewSegment returns the description of a model that follows the Segment Anything conventions. size is the side of its
// square input in pixels, maxPoints the maximum number of points.
func NewSegment(size, maxPoints int) *Segment {
	return &Segment{
		ImageMethod: "encode", ImageInput: "image", Embedding: "embeddings",
		PromptMethod: "decode", EmbeddingInput: "embeddings", PointsInput: "points", LabelsInput: "labels",
		MasksOutput: "low_res_masks", IoUOutput: "iou",
		Size: size, Resize: ResizeLongestSide, Pad: PadBottomRight,
		Mean: [3]float64{123.675, 116.28, 103.53}, Std: [3]float64{58.395, 57.12, 57.375},
		Labels:    SegmentLabels{Background: 0, Foreground: 1, BoxStart: 2, BoxEnd: 3, Pad: -1},
		MaxPoints: maxPoints, Tokens: 4, BestFirst: 1, BestLast: 3,
	}
}

// Kind returns KindSegment.
func (s *Segment) Kind() string { return KindSegment }

// Fields lists the fields, sorted by key.
func (s *Segment) Fields() []Field {
	l := &s.Labels
	return []Field{
		{Key: "batch_method", Value: &s.BatchMethod, Added: true},
		{Key: "best_first", Value: &s.BestFirst}, {Key: "best_last", Value: &s.BestLast},
		{Key: "embedding", Value: &s.Embedding},
		{Key: "embedding_input", Value: &s.EmbeddingInput},
		{Key: "features", Value: &s.Features, Max: maxFeatures, Added: true},
		{Key: "image_input", Value: &s.ImageInput},
		{Key: "image_method", Value: &s.ImageMethod},
		{Key: "iou_output", Value: &s.IoUOutput}, {Key: "labels", Value: []Field{
			{Key: "background", Value: &l.Background}, {Key: "box_end", Value: &l.BoxEnd},
			{Key: "box_start", Value: &l.BoxStart},
			{Key: "foreground", Value: &l.Foreground}, {Key: "pad", Value: &l.Pad},
		}},
		{Key: "labels_input", Value: &s.LabelsInput}, {Key: "mask_input", Value: &s.MaskInput, Added: true},
		{Key: "mask_side", Value: &s.MaskSide, Added: true},
		{Key: "masks_output", Value: &s.MasksOutput}, {Key: "max_points", Value: &s.MaxPoints},
		{Key: "max_prompts", Value: &s.MaxPrompts, Added: true},
		{Key: "mean", Value: s.Mean[:]}, {Key: "pad", Value: &s.Pad},
		{Key: "pad_boxes", Value: &s.PadBoxes, Added: true}, {Key: "points_input", Value: &s.PointsInput},
		{Key: "prompt_method", Value: &s.PromptMethod}, {Key: "resize", Value: &s.Resize},
		{Key: "size", Value: &s.Size},
		{Key: "std", Value: s.Std[:]}, {Key: "threshold", Value: &s.Threshold}, {Key: "tokens", Value: &s.Tokens},
	}
}

// String describes the inputs of the
func (s *Segment) String() string {
	prompts := "points and a box"
	if s.MaskInput != "" {
		prompts = "points, a box and a mask"
	}
	return fmt.Sprintf("an image of any size (%d px inside), %s, up to %d prompt tokens", s.Size, prompts, s.MaxPoints)
}

// maxSide bounds Segment.Size and the height and width of mask logits, in pixels.
const maxSide = 1 << 14

// Limits that Validate enforces.
const (
	maxPoints   = 1 << 16
	maxPrompts  = 1 << 12
	maxTokens   = 64
	maxFeatures = 16
)

// Validate checks a description that was read from a file. It excludes division by zero, indexes out of range and
// unbounded allocation. The error is a *diag.Error with code.TaskSpec.
func (s *Segment) Validate() error {
	bad := func(format string, args ...any) error {
		return diag.New(code.TaskSpec, "task "+KindSegment, format, args...)
	}
	for field, name := range map[string]string{
		"image_method": s.ImageMethod, "image_input": s.ImageInput, "embedding": s.Embedding,
		"prompt_method":   s.PromptMethod,
		"embedding_input": s.EmbeddingInput, "points_input": s.PointsInput, "labels_input": s.LabelsInput,
		"masks_output": s.MasksOutput, "iou_output": s.IoUOutput,
	} {
		if name == "" {
			return bad("%s is empty", field)
		}
	}
	if slices.Contains(s.Features, "") || len(s.Features) > maxFeatures {
		return bad("features are %q; allowed are %d names that are not empty", s.Features, maxFeatures)
	}
	if err := s.checkSizes(); err != nil {
		return bad("%w", err)
	}
	for c := range 3 {
		if !(math.Abs(s.Mean[c]) <= 1e6) || !(s.Std[c] >= 1e-6 && s.Std[c] <= 1e6) {
			return bad("mean %v and std %v of channel %d are out of range", s.Mean[c], s.Std[c], c)
		}
	}
	return nil
}

func (s *Segment) checkSizes() error {
	within := func(n, least, most int) bool { return n >= least && n <= most }
	// optional reports whether n is 0 if what it counts is absent, and otherwise 1 to most.
	optional := func(name string, n, most int) bool { return name == "" && n == 0 || name != "" && within(n, 1, most) }
	switch {
	case !within(s.Size, 1, maxSide):
		return fmt.Errorf("size is %d; allowed are 1 to %d", s.Size, maxSide)
	case s.Resize != ResizeLongestSide && s.Resize != ResizeStretch:
		return fmt.Errorf("resize is %q; known are %q and %q", s.Resize, ResizeLongestSide, ResizeStretch)
	case s.Pad != PadBottomRight:
		return fmt.Errorf("pad is %q; known is %q", s.Pad, PadBottomRight)
	case !within(s.MaxPoints, 2, maxPoints) || s.PadBoxes && s.MaxPoints < 3:
		return fmt.Errorf("max_points is %d; allowed are 2 (one point and padding, or one box; 3 with pad_boxes) to %d",
			s.MaxPoints, maxPoints)
	case !optional(s.MaskInput, s.MaskSide, maxSide):
		return fmt.Errorf("mask_side is %d with mask_input %q; allowed are 1 to %d, and 0 without a mask",
			s.MaskSide, s.MaskInput, maxSide)
	case !optional(s.BatchMethod, s.MaxPrompts, maxPrompts):
		return fmt.Errorf("max_prompts is %d with batch_method %q; allowed are 1 to %d, and 0 without a method",
			s.MaxPrompts, s.BatchMethod, maxPrompts)
	case !within(s.Tokens, 1, maxTokens):
		return fmt.Errorf("tokens is %d; allowed are 1 to %d", s.Tokens, maxTokens)
	case s.BestFirst < 0 || s.BestLast < s.BestFirst || s.BestLast >= s.Tokens:
		return fmt.Errorf("best is chosen among masks %d to %d of %d", s.BestFirst, s.BestLast, s.Tokens)
	case math.IsNaN(s.Threshold) || math.IsInf(s.Threshold, 0):
		return fmt.Errorf("threshold is %v", s.Threshold)
	}
	return nil
}
