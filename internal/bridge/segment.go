//go:build unix

package bridge

import (
	"context"
	"encoding/binary"
	"image"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/segment"
)

type segmenterArgs struct {
	Session int64 `json:"session"`
}

// newSegmenter makes what encodes images for a model.
func (c *call) newSegmenter(_ context.Context, a segmenterArgs) (any, error) {
	session, err := object[*rlx.Session](c, a.Session, "model")
	if err != nil {
		return nil, err
	}
	s := &encoder{}
	if session.Model().Facts().Task == "segment_concepts" {
		if s.finder, err = segment.NewFinder(session); err == nil {
			s.segmenter = s.finder.Clicks()
		}
	} else {
		s.segmenter, err = segment.New(session)
	}
	if err != nil {
		return nil, err
	}
	return created{c.server.objects.add(s, a.Session, nil)}, nil
}

// An encoder encodes images for a model that takes clicks, texts or both.
type encoder struct {
	segmenter *segment.Segmenter // nil if it takes no clicks
	finder    *segment.Finder    // nil if it takes no texts
}

type encodeArgs struct {
	imageArgs
	Segmenter int64 `json:"segmenter"`
}

// imageArgs are the arguments of calls that take an image.
type imageArgs struct {
	place
	Path string `json:"path"` // of an image file; otherwise Inputs has "pixels"
	// Inputs has "pixels": u8[height, width, 3 or 4], RGB or RGBA that is not premultiplied.
	Inputs map[string]tensor `json:"inputs"`
}

// imageOf returns the image of a call.
func (c *call) imageOf(ctx context.Context, a imageArgs) (image.Image, error) {
	if a.Path != "" {
		return readImage(ctx, a.Path)
	}
	return c.pixels(a)
}

// An encoded is an image that was encoded.
type encoded struct {
	*encoder
	*segment.Image // nil if the model takes no clicks
	scene          *segment.Scene
	size           image.Point
}

// clicked returns an image in which clicks select objects.
func (c *call) clicked(id int64) (*encoded, error) {
	img, err := object[*encoded](c, id, "image")
	if err == nil && img.Image == nil {
		err = diag.New(diag.Usage, "image", "the model takes texts and example boxes, not clicks").WithHint("use find")
	}
	return img, err
}

// encode encodes an image.
func (c *call) encode(ctx context.Context, a encodeArgs) (any, error) {
	s, err := object[*encoder](c, a.Segmenter, "segmenter")
	if err != nil {
		return nil, err
	}
	img, err := c.imageOf(ctx, a.imageArgs)
	if err != nil {
		return nil, err
	}
	out := &encoded{encoder: s, size: img.Bounds().Size()}
	if s.finder != nil {
		if out.scene, err = s.finder.Encode(ctx, img); err == nil {
			out.Image = out.scene.Image
		}
	} else {
		out.Image, err = s.segmenter.Encode(ctx, img)
	}
	if err != nil {
		return nil, err
	}
	return struct {
		created
		Width  int `json:"width"`
		Height int `json:"height"`
	}{created{c.server.objects.add(out, a.Segmenter, nil)}, out.size.X, out.size.Y}, nil
}

func readImage(ctx context.Context, path string) (image.Image, error) {
	f, err := ctxio.Open(ctx, path)
	if err != nil {
		return nil, diag.New(diag.Usage, path, "cannot be opened: %w", err)
	}
	defer f.Close()
	return segment.DecodeImage(ctxio.NewReader(ctx, f))
}

// pixels copies an image out of the memory of the call.
func (c *call) pixels(a imageArgs) (image.Image, error) {
	pixels, ok := a.Inputs["pixels"]
	if !ok {
		return nil, diag.New(diag.Usage, "image", "has neither a path nor pixels")
	}
	memory, leave, err := c.enter(a.place)
	if err != nil {
		return nil, err
	}
	defer leave()
	t, err := pixels.in(memory, "image")
	if err != nil {
		return nil, err
	}
	if t.DType != rlx.U8 || len(t.Shape) != 3 || t.Shape[2] != 3 && t.Shape[2] != 4 || len(t.Data) == 0 {
		return nil, diag.New(diag.Usage, "image", "is %v; allowed is u8[height, width, 3 or 4]", t)
	}
	img := image.NewNRGBA(image.Rect(0, 0, t.Shape[1], t.Shape[0]))
	if t.Shape[2] == 4 {
		copy(img.Pix, t.Data)
		return img, nil
	}
	for from, to := t.Data, img.Pix; len(from) > 0; from, to = from[3:], to[4:] {
		to[0], to[1], to[2], to[3] = from[0], from[1], from[2], 0xff
	}
	return img, nil
}

type masksArgs struct {
	place
	Image  int64        `json:"image"`
	Points [][3]float64 `json:"points"` // x, y in pixels, and 1 for the foreground or 0
	Box    *[4]float64  `json:"box"`    // x0, y0, x1, y1
	Choice string       `json:"choice"`
}

type maskOf struct {
	Token int     `json:"token"`
	IoU   float32 `json:"iou"`
}

// masks finds an object. The result "masks" is u8[masks, height, width], 0 or 255.
func (c *call) masks(ctx context.Context, a masksArgs) (any, error) {
	img, err := c.clicked(a.Image)
	if err != nil {
		return nil, err
	}
	p := segment.Prompts{}
	for _, q := range a.Points {
		p.Points = append(p.Points, segment.Point{X: q[0], Y: q[1], Foreground: q[2] != 0})
	}
	if b := a.Box; b != nil {
		p.Box = &segment.Box{X0: b[0], Y0: b[1], X1: b[2], Y1: b[3]}
	}
	if err := img.segmenter.Check(p, segment.Choice(a.Choice), img.size); err != nil {
		return nil, err
	}
	found, err := img.Masks(ctx, p, segment.Choice(a.Choice))
	if err != nil {
		return nil, err
	}
	about := []maskOf{}
	all := &tensor{DType: "u8", Shape: []int{len(found), img.size.Y, img.size.X}}
	for _, m := range found {
		about = append(about, maskOf{m.Token, m.IoU})
		for y := range img.size.Y {
			all.data = append(all.data, m.Image.Pix[y*m.Image.Stride:][:img.size.X]...)
		}
	}
	d, err := c.hand(a.place, map[string]*tensor{"masks": all})
	if err != nil {
		return nil, err
	}
	return struct {
		delivered
		Masks []maskOf `json:"masks"`
	}{d, about}, nil
}

type everythingArgs struct {
	place
	Image        int64   `json:"image"`
	Side         int     `json:"side"`
	MinIoU       float64 `json:"min_iou"`
	MinStability float64 `json:"min_stability"`
	MaxOverlap   float64 `json:"max_overlap"`
}

// everything finds all objects. The result "labels" is i32[height, width].
func (c *call) everything(ctx context.Context, a everythingArgs) (any, error) {
	img, err := c.clicked(a.Image)
	if err != nil {
		return nil, err
	}
	found, err := img.Everything(ctx, segment.EverythingOptions{Side: a.Side, MinIoU: a.MinIoU,
		MinStability: a.MinStability, MaxOverlap: a.MaxOverlap})
	if err != nil {
		return nil, err
	}
	labels := &tensor{DType: "i32", Shape: []int{img.size.Y, img.size.X}}
	for y := range img.size.Y {
		for x := range img.size.X {
			labels.data = binary.LittleEndian.AppendUint32(labels.data, uint32(found.Labels.Gray16At(x, y).Y))
		}
	}
	d, err := c.hand(a.place, map[string]*tensor{"labels": labels})
	if err != nil {
		return nil, err
	}
	return struct {
		delivered
		Regions []segment.Region `json:"regions"`
		Dropped segment.Dropped  `json:"dropped"`
	}{d, found.Regions, found.Dropped}, nil
}

type findArgs struct {
	place
	Image     int64        `json:"image"`
	Text      string       `json:"text"`
	Boxes     [][5]float64 `json:"boxes"`     // x0, y0, x1, y1 in pixels, and 1, or 0 for a counterexample
	Threshold *float64     `json:"threshold"` // null for that of the model
}

type objectOf struct {
	Score float32    `json:"score"`
	Box   [4]float32 `json:"box"`
}

// find finds the objects of a concept. The result "masks" is u8[objects, height, width], 0 or 255.
func (c *call) find(ctx context.Context, a findArgs) (any, error) {
	img, err := object[*encoded](c, a.Image, "image")
	if err != nil {
		return nil, err
	}
	if img.scene == nil {
		return nil, diag.New(diag.Usage, "image", "the model takes clicks, not texts").WithHint("use masks")
	}
	concept, threshold := segment.Concept{Text: a.Text}, img.finder.Facts().Threshold
	for _, b := range a.Boxes {
		concept.Examples = append(concept.Examples, segment.Example{
			Box: segment.Box{X0: b[0], Y0: b[1], X1: b[2], Y1: b[3]}, Negative: b[4] == 0})
	}
	if a.Threshold != nil {
		threshold = *a.Threshold
	}
	found, err := img.scene.Find(ctx, concept, threshold)
	if err != nil {
		return nil, err
	}
	about := []objectOf{}
	all := &tensor{DType: "u8", Shape: []int{len(found.Objects), img.size.Y, img.size.X}}
	for _, o := range found.Objects {
		about = append(about, objectOf{o.Score, o.Box})
		mask, err := o.Mask.Mask()
		if err != nil {
			return nil, err
		}
		for y := range img.size.Y {
			all.data = append(all.data, mask.Pix[y*mask.Stride:][:img.size.X]...)
		}
	}
	d, err := c.hand(a.place, map[string]*tensor{"masks": all})
	if err != nil {
		return nil, err
	}
	return struct {
		delivered
		Objects []objectOf `json:"objects"`
	}{d, about}, nil
}
