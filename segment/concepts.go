package segment

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"math"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/tokenizer"
	"github.com/rlx-go/rlx/task"
)

// A Finder finds all objects in images that a text describes, or that look like examples, with models that declare the
// task "segment_concepts", such as SAM 3:
//
//	finder, err := segment.NewFinder(session)
//	scene, err := finder.Encode(ctx, photo)
//	found, err := scene.Find(ctx, segment.Concept{Text: "a cat"}, finder.Facts().Threshold)
//
// If the model also takes points and boxes for single objects, scene.Image.Masks finds these in the same image.
//
// It may be used concurrently.
type Finder struct {
	run    rlx.Runner
	spec   *task.Concepts
	text   *tokenizer.Tokenizer // nil if the artifact has none
	clicks *Segmenter           // nil if the model takes no clicks
}

// NewFinder returns a Finder that runs the methods of a model by r, which is usually a *rlx.Session. The error matches
// rlx.ErrUsage if the model does not declare the task "segment_concepts", and rlx.ErrArtifact if its tokenizer is
// damaged.
func NewFinder(r rlx.Runner) (*Finder, error) {
	m := r.Model()
	t, ok := m.Task().(*task.Concepts)
	if !ok {
		return nil, diag.New(diag.Usage, m.Path(), "declares no task %q", task.KindConcepts)
	}
	f := &Finder{run: r, spec: t}
	if k := task.Clicks(t); k != nil {
		f.clicks = &Segmenter{r, (*spec)(k)}
	}
	if t.Tokenizer == "" {
		return f, nil
	}
	v, err := m.Once(finderKey{}, func() (any, error) {
		b, err := m.Attachment(t.Tokenizer, tokenizer.MaxFile)
		if err != nil {
			return nil, err
		}
		x, err := tokenizer.Parse(b)
		if e, ok := err.(*diag.Error); ok && e.Subject == "" {
			e.Subject = m.Path()
		}
		return x, err
	})
	if err != nil {
		return nil, err
	}
	f.text = v.(*tokenizer.Tokenizer)
	return f, nil
}

// finderKey is the key of the tokenizer of a model.
type finderKey struct{}

// FinderFacts describes the inputs and outputs of a model.
type FinderFacts struct {
	Size        int     // side of the square, in pixels, to which images are scaled
	MaxTokens   int     // of a text, with those of its begin and end
	MaxExamples int     // of a Concept; 0 if the model takes none
	MaxObjects  int     // that a run can find
	Threshold   float64 // the score above which the authors of the model take a query for an object
}

// Facts returns facts about the model.
func (f *Finder) Facts() FinderFacts {
	t := f.spec
	return FinderFacts{t.Size, t.MaxTokens, t.MaxExamples, t.Queries, t.Threshold}
}

// Clicks returns a Segmenter for points and boxes, which select one object, or nil if the model takes none.
func (f *Finder) Clicks() *Segmenter { return f.clicks }

// A Concept describes objects by a text, such as "a red coin", by examples in the image, or both.
type Concept struct {
	Text     string
	Examples []Example
}

// An Example is a box around an object that belongs to a concept, or with Negative one that does not.
type Example struct {
	Box
	Negative bool
}

// A Scene is an image that a model has encoded, in which a Finder finds objects. Its methods may be called repeatedly
// and concurrently.
type Scene struct {
	// Image is the same image for points and boxes, which select one object, or nil if the model takes none.
	Image *Image

	f        *Finder
	features map[string]rlx.Tensor
	size     image.Point
}

// Encode encodes an image of any size: scaled to the model's square and normalised as in training. Errors are those of
// rlx.Session.Run.
func (f *Finder) Encode(ctx context.Context, img image.Image) (*Scene, error) {
	t, b := f.spec, img.Bounds()
	pixels := imaging.StretchedTo(b.Dx(), b.Dy(), t.Size).Pixels(img, t.Mean, t.Std)
	in := rlx.Tensor{DType: rlx.F32, Shape: []int{1, 3, t.Size, t.Size}, Data: tensor.Bytes(pixels)}
	outputs := slices.Clone(t.Features)
	if f.clicks != nil {
		outputs = append(outputs, f.clicks.spec.outputs()...)
	}
	r, err := f.run.Run(ctx, rlx.Request{Method: t.ImageMethod, Inputs: map[string]rlx.Tensor{t.ImageInput: in},
		Outputs: outputs})
	if err != nil {
		return nil, err
	}
	s := &Scene{f: f, features: map[string]rlx.Tensor{}, size: b.Size()}
	for _, name := range t.Features {
		s.features[name] = r.Outputs[name]
	}
	if f.clicks != nil {
		s.Image = f.clicks.image(r.Outputs, s.size)
	}
	return s, nil
}

// An Object is one of the objects that belong to a concept.
type Object struct {
	Label   int        `json:"label"`   // value in the label image: its place in Found.Objects, from 1
	Score   float32    `json:"score"`   // how sure the model is, 0 to 1
	Box     [4]float32 `json:"box"`     // x0, y0, x1, y1 in pixels as the model predicts them, perhaps beyond the image
	Area    int        `json:"area"`    // pixels of the mask
	Visible int        `json:"visible"` // those with Label in the label image; the others belong to smaller objects
	Query   int        `json:"-"`       // number of the model's query that found it
	Mask    RLE        `json:"segmentation"`
}

// Found holds the objects of an image that belong to a concept.
type Found struct {
	Objects []Object      // the highest score first
	Labels  *image.Gray16 // as large as the image: 0, or the Label of the smallest object at a pixel
	// Closest is the highest score of the queries that are not objects, or 0 if there are none.
	Closest float32
}

// Find finds the objects of a concept: those whose score is above threshold, as Transformers' image processor for SAM 3
// does. Errors match ErrPrompt or ErrNoBest, or are those of rlx.Session.Run.
func (s *Scene) Find(ctx context.Context, c Concept, threshold float64) (*Found, error) {
	t := s.f.spec
	ids, boxes, labels, err := s.f.prompt(c, threshold, s.size)
	if err != nil {
		return nil, err
	}
	words, err := s.f.run.Run(ctx, rlx.Request{Method: t.TextMethod, Inputs: map[string]rlx.Tensor{
		t.IDsInput: {DType: rlx.I32, Shape: []int{1, len(ids)}, Data: tensor.Bytes(ids)}}, Outputs: []string{t.Text}})
	if err != nil {
		return nil, err
	}
	req := rlx.Request{Method: t.DetectMethod, Inputs: map[string]rlx.Tensor{t.Text: words.Outputs[t.Text]},
		Outputs: []string{t.LogitsOutput, t.PresenceOutput, t.BoxesOutput, t.MasksOutput}}
	for name, x := range s.features {
		req.Inputs[name] = x
	}
	if n := len(labels); n > 0 {
		req.Method = t.ExamplesMethod
		req.Inputs[t.ExamplesInput] = rlx.Tensor{DType: rlx.F32, Shape: []int{1, n, 4}, Data: tensor.Bytes(boxes)}
		req.Inputs[t.LabelsInput] = rlx.Tensor{DType: rlx.I32, Shape: []int{1, n}, Data: tensor.Bytes(labels)}
	}
	r, err := s.f.run.Run(ctx, req)
	if err != nil {
		return nil, err
	}
	return s.found(ctx, r.Outputs, threshold)
}

// Check checks a concept and a threshold for an image of the given size, without a run. Find does the same; call Check
// to find a mistake before the image is encoded. The error matches ErrPrompt.
func (f *Finder) Check(c Concept, threshold float64, size image.Point) error {
	_, _, _, err := f.prompt(c, threshold, size)
	return err
}

// prompt returns the ids of a concept's text, and its examples [1,M,4] as center, width and height in parts of the
// image with labels [1,M].
func (f *Finder) prompt(c Concept, threshold float64, size image.Point) (ids []int32, boxes []float32, labels []int32,
	err error) {
	if !(threshold >= 0 && threshold <= 1) {
		return nil, nil, nil, diag.New(code.MaskPrompt, "threshold", "is %v; allowed are 0 to 1", threshold)
	}
	if boxes, labels, err = f.examples(c.Examples, size); err != nil {
		return nil, nil, nil, err
	}
	text := c.Text
	switch {
	case text == "" && len(labels) == 0:
		return nil, nil, nil, diag.New(code.MaskPrompt, "text", "is missing").WithHint(
			"give a text such as \"a cat\", or an example")
	case text == "":
		text = f.spec.AnyText
	case strings.TrimSpace(text) == "":
		return nil, nil, nil, diag.New(code.MaskPrompt, "text", "is empty: %q has no words", text)
	}
	if f.text == nil {
		return nil, nil, nil, diag.New(code.MaskPrompt, f.run.Model().Path(),
			"has no tokenizer, so it takes no text, which examples need, too").WithHint(
			"compile the checkpoint again with its tokenizer.json beside it")
	}
	all, err := f.text.Encode(text, true)
	if err != nil {
		return nil, nil, nil, diag.New(code.MaskPrompt, "text", "%w", err)
	}
	if n := len(all); n > f.spec.MaxTokens {
		return nil, nil, nil, diag.New(code.MaskPrompt, "text",
			"has %d tokens, with those of its begin and end; the model takes up to %d", n, f.spec.MaxTokens).WithHint(
			"describe the objects in few words")
	}
	for _, id := range all {
		ids = append(ids, int32(id))
	}
	return ids, boxes, labels, nil
}

// examples returns the tensors of examples. Like the published processor, it computes in single precision.
func (f *Finder) examples(list []Example, size image.Point) (boxes []float32, labels []int32, err error) {
	switch n, most := len(list), f.spec.MaxExamples; {
	case n > 0 && most == 0:
		return nil, nil, diag.New(code.MaskPrompt, "example", "the model takes a text only")
	case n > most:
		return nil, nil, diag.New(code.MaskPrompt, "", "%d examples; the model takes up to %d", n, most)
	}
	for _, e := range list {
		if err := e.check(size.X, size.Y); err != nil {
			return nil, nil, err
		}
		w, h := float32(size.X), float32(size.Y)
		x0, y0, x1, y1 := float32(e.X0)/w, float32(e.Y0)/h, float32(e.X1)/w, float32(e.Y1)/h
		label := int32(1)
		if e.Negative {
			label = 0
		}
		boxes, labels = append(boxes, (x0+x1)/2, (y0+y1)/2, x1-x0, y1-y0), append(labels, label)
	}
	return boxes, labels, nil
}

// sigmoid rounds to single precision.
func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// found turns the results of a run into objects.
func (s *Scene) found(ctx context.Context, out map[string]rlx.Tensor, threshold float64) (*Found, error) {
	t := s.f.spec
	logits, errLogits := rlx.Values[float32](out[t.LogitsOutput])
	presence, errPresence := rlx.Values[float32](out[t.PresenceOutput])
	boxes, errBoxes := rlx.Values[float32](out[t.BoxesOutput])
	masks, errMasks := rlx.Values[float32](out[t.MasksOutput])
	if err := cmp.Or(errLogits, errPresence, errBoxes, errMasks); err != nil {
		return nil, err
	}
	h, w := out[t.MasksOutput].Shape[2], out[t.MasksOutput].Shape[3]
	g := imaging.Square{Width: s.size.X, Height: s.size.Y, ScaledW: w, ScaledH: h}
	there, scale := sigmoid(presence[0]), [4]float32{float32(s.size.X), float32(s.size.Y), float32(s.size.X),
		float32(s.size.Y)}
	f, nan := &Found{}, 0
	for q, logit := range logits {
		score := sigmoid(logit) * there
		switch {
		case score != score:
			nan++
		case !(score > float32(threshold)):
			f.Closest = max(f.Closest, score)
		default:
			o := Object{Query: q, Score: score}
			for i := range o.Box {
				o.Box[i] = boxes[4*q+i] * scale[i]
				if o.Box[i]-o.Box[i] != 0 { // infinite or NaN
					return nil, diag.New(code.NoBestMask, "objects", "the box of query %d has a corner at %v", q,
						o.Box[i])
				}
			}
			f.Objects = append(f.Objects, o)
		}
	}
	if nan == len(logits) {
		return nil, diag.New(code.NoBestMask, "objects", "every score of the %d queries is NaN", nan)
	}
	slices.SortStableFunc(f.Objects, func(a, b Object) int { return cmp.Compare(b.Score, a.Score) })
	for i := range f.Objects {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		o := &f.Objects[i]
		own := slices.Clone(masks[o.Query*h*w:][:h*w])
		for j, v := range own {
			own[j] = sigmoid(v)
		}
		o.Label, o.Mask = i+1, EncodeRLE(drawn(own, g, float32(t.MaskThreshold)))
	}
	return f, f.draw(ctx, s.size)
}

// draw makes the label image and measures the objects. The smallest is drawn first, and later ones do not hide it.
func (f *Found) draw(ctx context.Context, size image.Point) error {
	f.Labels = image.NewGray16(image.Rect(0, 0, size.X, size.Y))
	order := make([]*Object, len(f.Objects))
	for i := range order {
		o := &f.Objects[i]
		area, _, err := o.Mask.Measure()
		if err != nil {
			panic("BUG: " + err.Error()) // EncodeRLE made it
		}
		o.Area, order[i] = area, o
	}
	slices.SortStableFunc(order, func(a, b *Object) int { return cmp.Compare(a.Area, b.Area) })
	for _, o := range order {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		mask, err := o.Mask.Mask()
		if err != nil {
			return fmt.Errorf("object %d: %w", o.Label, err)
		}
		for y := range size.Y {
			labels := f.Labels.Pix[y*f.Labels.Stride:][:2*size.X]
			for x, v := range mask.Pix[y*mask.Stride:][:size.X] {
				if v != 0 && labels[2*x]|labels[2*x+1] == 0 {
					labels[2*x], labels[2*x+1] = uint8(o.Label>>8), uint8(o.Label)
					o.Visible++
				}
			}
		}
	}
	return nil
}

// Picture returns the label image for people and programs to read, as Segmentation.Picture does.
func (f *Found) Picture() image.Image { return picture(f.Labels, len(f.Objects)) }

// Overlay draws the objects over the image, as Segmentation.Overlay does.
func (f *Found) Overlay(img image.Image) *image.NRGBA { return overlay(img, f.Labels) }

// Memory bounds the memory in bytes that Find takes for an image of the given size, in addition to tensors: the label
// image, a mask, and what scaling the mask takes. Run lengths of masks come on top; they are small unless masks are
// noise.
func (f *Finder) Memory(size image.Point) int64 {
	pixels := int64(size.X) * int64(size.Y)
	return 4*pixels + 4*f.rows()*int64(size.X)
}

// rows returns the largest height of the masks that the model makes.
func (f *Finder) rows() int64 {
	method, err := f.run.Model().Method(f.spec.DetectMethod)
	if err != nil {
		panic("BUG: " + err.Error()) // the verifier has checked that it exists
	}
	for _, v := range method.Outputs {
		if v.Name == f.spec.MasksOutput {
			return v.Shape[2].Max
		}
	}
	return 0
}
