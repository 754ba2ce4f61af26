package task

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// KindConcepts is the kind of a Concepts in artifacts.
const KindConcepts = "segment_concepts"

var _ = Register(KindConcepts, func() Task { return &Concepts{} })

// Concepts describes the segmentation of all objects in an image that a text, examples or both describe. Package
// segment runs it.
//
//	ImageMethod: image f32 [1,3,Size,Size] -> Features
//	TextMethod: ids i32 [1,N], 1<=N<=MaxTokens -> text f32 [1,N,c]
//	DetectMethod: Features, text -> logits f32 [1,Queries], presence f32 [1,1], boxes f32 [1,Queries,4],
//	  masks f32 [1,Queries,h,w]
//	ExamplesMethod: Features, text, examples f32 [1,M,4], labels i32 [1,M], 1<=M<=MaxExamples -> as DetectMethod
//
// Each of the queries may be an object. Its score is sigmoid(logit) * sigmoid(presence). A box of an output has the
// corners x0, y0, x1, y1, and one of examples the center, width and height, all in parts of the image. The label of an
// example is 1, that of a counterexample 0. Masks are logits.
type Concepts struct {
	ImageMethod string   `json:"image_method"` // "encode"
	ImageInput  string   `json:"image_input"`  // "image"
	Features    []string `json:"features"`     // outputs of ImageMethod, and inputs of the detecting methods

	TextMethod string `json:"text_method"` // "encode_text"
	IDsInput   string `json:"ids_input"`   // "ids"
	Text       string `json:"text"`        // output of TextMethod, and input of the detecting methods

	DetectMethod   string `json:"detect_method"`             // "detect"
	ExamplesMethod string `json:"examples_method,omitempty"` // "detect_boxes"; empty if the model takes no examples
	ExamplesInput  string `json:"examples_input,omitempty"`  // "boxes"
	LabelsInput    string `json:"labels_input,omitempty"`    // "labels"
	MaxExamples    int    `json:"max_examples,omitempty"`    // in one run of ExamplesMethod; 0 without it

	LogitsOutput   string `json:"logits_output"`
	PresenceOutput string `json:"presence_output"`
	BoxesOutput    string `json:"boxes_output"`
	MasksOutput    string `json:"masks_output"`

	Size   int        `json:"size"`   // side of the square input in pixels
	Resize string     `json:"resize"` // ResizeStretch
	Mean   [3]float64 `json:"mean"`   // of R, G, B, from 0 to 255
	Std    [3]float64 `json:"std"`

	Queries    int `json:"queries"`
	MaxTokens  int `json:"max_tokens"` // of a text, with those of its begin and end
	Vocabulary int `json:"vocabulary"` // ids are less than this

	// Tokenizer names an attachment, a tokenizer.json. It is empty if the artifact has none, and then takes no text.
	Tokenizer string `json:"tokenizer"`
	// AnyText is the text for examples without a text.
	AnyText string `json:"any_text"`

	Threshold     float64 `json:"threshold"`      // an object has a higher score
	MaskThreshold float64 `json:"mask_threshold"` // a pixel is inside a mask if sigmoid(logit) is larger

	// Clicks describes how points and boxes select one object in the image that ImageMethod encodes. It is empty if the
	// model takes none.
	Clicks Segment `json:"clicks,omitzero"`
}

// Clicks returns how a model selects objects by points and boxes, with either task, or nil if it does not.
func Clicks(t Task) *Segment {
	switch t := t.(type) {
	case *Segment:
		return t
	case *Concepts:
		if t.hasClicks() {
			return &t.Clicks
		}
	}
	return nil
}

func (c *Concepts) hasClicks() bool { return c.Clicks.ImageMethod != "" }

// NewConcepts returns the description of a model that follows the conventions of SAM 3.
func NewConcepts(size, queries, maxTokens, vocabulary, maxExamples int) *Concepts {
	return &Concepts{
		ImageMethod: "encode", ImageInput: "image",
		Features:   []string{"level0.features", "level1.features", "level2.features"},
		TextMethod: "encode_text", IDsInput: "ids", Text: "text",
		DetectMethod: "detect", ExamplesMethod: "detect_boxes", ExamplesInput: "boxes", LabelsInput: "labels",
		MaxExamples: maxExamples, LogitsOutput: "logits", PresenceOutput: "presence", BoxesOutput: "boxes",
		MasksOutput: "masks", Size: size, Resize: ResizeStretch,
		Mean: [3]float64{127.5, 127.5, 127.5}, Std: [3]float64{127.5, 127.5, 127.5},
		Queries: queries, MaxTokens: maxTokens, Vocabulary: vocabulary, AnyText: "visual",
		Threshold: 0.3, MaskThreshold: 0.5,
	}
}

// Kind returns KindConcepts.
func (c *Concepts) Kind() string { return KindConcepts }

// Fields lists the fields, sorted by key.
func (c *Concepts) Fields() []Field {
	return []Field{
		{Key: "any_text", Value: &c.AnyText}, {Key: "boxes_output", Value: &c.BoxesOutput},
		{Key: "clicks", Value: c.Clicks.Fields(), Added: true},
		{Key: "detect_method", Value: &c.DetectMethod}, {Key: "examples_input", Value: &c.ExamplesInput},
		{Key: "examples_method", Value: &c.ExamplesMethod}, {Key: "features", Value: &c.Features, Max: maxFeatures},
		{Key: "ids_input", Value: &c.IDsInput}, {Key: "image_input", Value: &c.ImageInput},
		{Key: "image_method", Value: &c.ImageMethod}, {Key: "labels_input", Value: &c.LabelsInput},
		{Key: "logits_output", Value: &c.LogitsOutput}, {Key: "mask_threshold", Value: &c.MaskThreshold},
		{Key: "masks_output", Value: &c.MasksOutput}, {Key: "max_examples", Value: &c.MaxExamples},
		{Key: "max_tokens", Value: &c.MaxTokens}, {Key: "mean", Value: c.Mean[:]},
		{Key: "presence_output", Value: &c.PresenceOutput}, {Key: "queries", Value: &c.Queries},
		{Key: "resize", Value: &c.Resize}, {Key: "size", Value: &c.Size}, {Key: "std", Value: c.Std[:]},
		{Key: "text", Value: &c.Text}, {Key: "text_method", Value: &c.TextMethod},
		{Key: "threshold", Value: &c.Threshold}, {Key: "tokenizer", Value: &c.Tokenizer},
		{Key: "vocabulary", Value: &c.Vocabulary},
	}
}

// Attachments returns the name of the tokenizer, if there is one.
func (c *Concepts) Attachments() []string {
	if c.Tokenizer == "" {
		return nil
	}
	return []string{c.Tokenizer}
}

// String describes the inputs of the task.
func (c *Concepts) String() string {
	examples := ""
	if c.ExamplesMethod != "" {
		examples = fmt.Sprintf(" or up to %d example boxes", c.MaxExamples)
	}
	clicks := ""
	if c.hasClicks() {
		clicks = "; points and a box for one object"
	}
	return fmt.Sprintf("an image of any size (%d px inside), a text of up to %d tokens%s%s", c.Size, c.MaxTokens,
		examples, clicks)
}

// Limits that Validate enforces.
const (
	maxQueries  = 1 << 12
	maxExamples = 1 << 10
)

// Validate checks a description that was read from a file. The error is a *diag.Error with code.TaskSpec.
func (c *Concepts) Validate() error {
	for _, check := range []func() error{c.checkNames, c.checkSizes, c.checkNumbers, c.validateClicks} {
		if err := check(); err != nil {
			return diag.New(code.TaskSpec, "task "+KindConcepts, "%w", err)
		}
	}
	return nil
}

// checkNames checks that methods, inputs and outputs are named.
func (c *Concepts) checkNames() error {
	optional := []string{"examples_input", "examples_method", "labels_input", "tokenizer"}
	for _, f := range c.Fields() {
		if s, ok := f.Value.(*string); ok && *s == "" && !slices.Contains(optional, f.Key) {
			return fmt.Errorf("%s is empty", f.Key)
		}
	}
	if n := len(c.Features); n == 0 || n > maxFeatures || slices.Contains(c.Features, "") {
		return fmt.Errorf("features are %q; allowed are 1 to %d names that are not empty", c.Features, maxFeatures)
	}
	if some := c.ExamplesMethod != ""; some != (c.ExamplesInput != "") || some != (c.LabelsInput != "") ||
		some != (c.MaxExamples != 0) {
		return errors.New(
			"examples_method, examples_input, labels_input and max_examples are given in part; want all or none")
	}
	return nil
}

// validateClicks checks that clicks are for the image that the text is for.
func (c *Concepts) validateClicks() error {
	k := &c.Clicks
	if !c.hasClicks() {
		if !reflect.DeepEqual(*k, Segment{}) {
			return errors.New("clicks: image_method is empty")
		}
		return nil
	}
	if err := k.Validate(); err != nil {
		return fmt.Errorf("clicks: %w", err)
	}
	if k.ImageMethod != c.ImageMethod || k.ImageInput != c.ImageInput || k.Size != c.Size || k.Resize != c.Resize ||
		k.Mean != c.Mean || k.Std != c.Std {
		return errors.New("clicks: the image is another than that of the text; want one method, input, size and scale")
	}
	return nil
}

func (c *Concepts) checkSizes() error {
	for _, x := range []struct {
		name        string
		value, most int
	}{
		{"size", c.Size, maxSide}, {"queries", c.Queries, maxQueries}, {"max_tokens", c.MaxTokens, maxChunk},
		{"vocabulary", c.Vocabulary, maxVocabulary}, {"max_examples", max(c.MaxExamples, 1), maxExamples},
	} {
		if x.value < 1 || x.value > x.most {
			return fmt.Errorf("%s is %d; allowed are 1 to %d", x.name, x.value, x.most)
		}
	}
	if c.MaxExamples < 0 {
		return fmt.Errorf("max_examples is %d; allowed are 0 to %d", c.MaxExamples, maxExamples)
	}
	if c.Resize != ResizeStretch {
		return fmt.Errorf("resize is %q; known is %q", c.Resize, ResizeStretch)
	}
	return nil
}

func (c *Concepts) checkNumbers() error {
	for i := range 3 {
		if !(math.Abs(c.Mean[i]) <= 1e6) || !(c.Std[i] >= 1e-6 && c.Std[i] <= 1e6) {
			return fmt.Errorf("mean %v and std %v of channel %d are out of range", c.Mean[i], c.Std[i], i)
		}
	}
	for name, v := range map[string]float64{"threshold": c.Threshold, "mask_threshold": c.MaskThreshold} {
		if !(v >= 0 && v <= 1) {
			return fmt.Errorf("%s is %v; allowed are 0 to 1", name, v)
		}
	}
	return nil
}
