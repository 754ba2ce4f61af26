package text

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"image"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/patching"
)

// Errors for errors.Is.
var (
	// ErrImage reports a file that is not an image, or is damaged or too large.
	ErrImage error = code.Image
	// ErrShape reports an image that cannot be divided into patches: it is too long for its width.
	ErrShape error = code.ImagePatches
)

// DecodeImage reads a PNG, JPEG, WebP, TIFF or BMP of at most 2^28 pixels and applies its EXIF orientation. It checks
// the sizes in the header before it allocates pixels. The error matches ErrImage.
func DecodeImage(r io.Reader) (image.Image, error) {
	return imaging.Decode("image", r, imaging.Limits{})
}

// An Image is an image for a prompt, resized for a model. It keeps what the model's encoder computes, so use it again
// if it stays in the prompt. It may be used concurrently.
type Image struct {
	model         *rlx.Model
	picture       *image.NRGBA // resized
	rows, columns int          // of tokens
	digest        [sha256.Size]byte

	mu       sync.Mutex
	features []float32 // a row for each token; nil until they are computed
}

// NewImage resizes an image for a model. The error matches ErrPrompt if the model takes no images, or ErrShape.
func NewImage(m *rlx.Model, img image.Image) (*Image, error) {
	t, err := imageSpec(m)
	if err != nil {
		return nil, err
	}
	r := t.rule()
	rows, columns, err := r.Grid(img.Bounds().Dx(), img.Bounds().Dy())
	if err != nil {
		return nil, err
	}
	x := &Image{model: m, rows: rows / r.Merge, columns: columns / r.Merge,
		picture: image.NewNRGBA(image.Rect(0, 0, columns*r.Patch, rows*r.Patch))}
	for i, v := range r.Resized(img, rows, columns) {
		x.picture.Pix[i/3*4+i%3] = uint8(v)
		x.picture.Pix[i/3*4+3] = 255
	}
	hash := sha256.New()
	binary.Write(hash, binary.LittleEndian, []int64{int64(rows), int64(columns)})
	hash.Write(x.picture.Pix)
	hash.Sum(x.digest[:0])
	return x, nil
}

// ImageMemory returns an upper bound, in bytes, for the memory of an Image and of a run of its encoder. Reserve it with
// rlx.Budget.Reserve. size is the size of the original image, whose own memory is not included. The error is that of
// NewImage.
func ImageMemory(m *rlx.Model, size image.Point) (int64, error) {
	t, err := imageSpec(m)
	if err != nil {
		return 0, err
	}
	r := t.rule()
	rows, columns, err := r.Grid(size.X, size.Y)
	if err != nil {
		return 0, err
	}
	width := int64(0)
	if see, err := m.Method(t.Images.Method); err == nil {
		for _, out := range see.Outputs {
			if out.Name == t.Images.Features {
				width = out.Shape[1].Max
			}
		}
	}
	return r.Bytes(rows, columns) + 4*int64(rows/r.Merge*(columns/r.Merge))*width, nil
}

// Tokens returns the number of tokens for which the image stands in a prompt.
func (x *Image) Tokens() int { return x.rows * x.columns }

// Picture returns the resized image, for example to save it. NewImage gives the same Image for it.
func (x *Image) Picture() image.Image { return x.picture }

// imageSpec returns the description of a model that takes images.
func imageSpec(m *rlx.Model) (*spec, error) {
	t, err := specOf(m)
	if err == nil && !t.takesImages() {
		err = diag.New(code.TextPrompt, m.Path(), "takes no images")
	}
	return t, err
}

// rule says how images are resized and cut. One frame of a patch is enough: a still image repeats in all.
func (t *spec) rule() *patching.Rule {
	x := &t.Images
	return &patching.Rule{Patch: x.Patch, Merge: x.Merge, Frames: 1, MinPixels: x.MinPixels, MaxPixels: x.MaxPixels,
		MaxPatches: x.MaxTokens * x.Merge * x.Merge, Mean: x.Mean, Std: x.Std}
}

// A Prompt is a conversation, or another text, as tokens.
type Prompt struct {
	IDs    []int
	Images []*Image // in the order of their places in IDs
}

// PlaceImages makes room for images in a prompt: each id that stands for an image is repeated as often as the image has
// tokens. The error matches ErrPrompt if there are more or fewer places than images, or a place for a video.
func PlaceImages(m *rlx.Model, ids []int, images []*Image) (Prompt, error) {
	t, err := specOf(m)
	if err != nil {
		return Prompt{}, err
	}
	if len(images) > 0 && !t.takesImages() {
		return Prompt{}, diag.New(code.TextPrompt, m.Path(), "takes no images")
	}
	if !t.takesImages() {
		return Prompt{IDs: ids}, nil
	}
	if slices.ContainsFunc(images, func(x *Image) bool { return x == nil || x.model == nil }) {
		return Prompt{}, diag.New(code.TextPrompt, "prompt", "has an image that NewImage has not made")
	}
	out, places := Prompt{Images: images}, 0
	for _, id := range ids {
		n := 1
		if id == t.Images.Token {
			if places < len(images) {
				n = images[places].Tokens()
			}
			places++
		}
		out.IDs = append(out.IDs, slices.Repeat([]int{id}, n)...)
	}
	if places != len(images) {
		return Prompt{}, diag.New(code.TextPrompt, "prompt", "has places for %d images, and %d are given; want as many",
			places, len(images))
	}
	_, err = t.places(out.IDs, images)
	return out, err
}

// A place is where an image begins in ids.
type place struct {
	at    int
	image *Image
}

// places finds the images in ids. The error matches ErrPrompt if they are not those of the ids.
func (t *spec) places(ids []int, images []*Image) (out []place, err error) {
	bad := func(format string, args ...any) ([]place, error) {
		return nil, diag.New(code.TextPrompt, "prompt", format, args...)
	}
	if slices.ContainsFunc(images, func(x *Image) bool { return x == nil || x.model == nil }) {
		return bad("has an image that NewImage has not made")
	}
	if !t.takesImages() {
		if len(images) > 0 {
			return bad("has %d images; the model takes none", len(images))
		}
		return nil, nil
	}
	for i := 0; i < len(ids); i++ {
		switch ids[i] {
		case t.Images.Video:
			return bad("has a place for a video (id %d); videos are not supported, images are", ids[i])
		case t.Images.Token:
			if len(out) == len(images) {
				return bad("has a place for an image at id %d, after the places of %d images", i, len(images))
			}
			x := images[len(out)]
			end := i + x.Tokens()
			if end > len(ids) || slices.ContainsFunc(ids[i:end], func(id int) bool { return id != t.Images.Token }) {
				return bad("image %d has %d tokens, and the prompt fewer places from id %d on", len(out)+1, x.Tokens(),
					i)
			}
			out = append(out, place{i, x})
			i = end - 1
		}
	}
	switch {
	case len(out) < len(images):
		return bad("has %d images, and places for %d", len(images), len(out))
	case len(ids) > 0 && ids[len(ids)-1] == t.Images.Token:
		return bad("ends with an image; text must follow")
	}
	return out, nil
}

// A shown is an image in a sequence.
type shown struct {
	at, rows, columns int
	digest            [sha256.Size]byte
}

// shift returns by how much fewer an image advances the positions of tokens than it has tokens.
func (x shown) shift() int { return x.rows*x.columns - max(x.rows, x.columns) }

// After returns the part of a prompt that follows the sequence, and whether the prompt begins with it.
func (g *Generator) After(p Prompt) (rest Prompt, ok bool) {
	seen := g.IDs()
	places, err := g.spec.places(p.IDs, p.Images)
	if err != nil || len(seen) >= len(p.IDs) || !slices.Equal(seen, p.IDs[:len(seen)]) {
		return Prompt{}, false
	}
	for i, x := range places {
		inside := x.at < len(seen)
		if inside != (i < len(g.shown)) || inside && g.shown[i] != x.image.shownAt(x.at) {
			return Prompt{}, false
		}
	}
	if len(g.shown) > len(places) {
		return Prompt{}, false
	}
	return Prompt{p.IDs[len(seen):], p.Images[len(g.shown):]}, true
}

func (x *Image) shownAt(at int) shown { return shown{at, x.rows, x.columns, x.digest} }

// next returns the position of the token that follows n others, among which are images.
func next(n int, images []shown) int {
	for _, x := range images {
		n -= x.shift()
	}
	return n
}

// look appends an image to the state.
func (g *Generator) look(ctx context.Context, x *Image) error {
	err := appendImage(ctx, g.session, g.spec, g.run.do, g.state, x, len(g.seen), g.shown, 0)
	if err == nil {
		g.shown = append(g.shown, x.shownAt(len(g.seen)))
		g.seen, g.last = append(g.seen, slices.Repeat([]int{g.spec.Images.Token}, x.Tokens())...), nil
	}
	return err
}

// appendImage appends an image to a sequence of a state, after seen tokens, among which are images. An error leaves
// rows that are not read.
func appendImage(ctx context.Context, s *rlx.Session, t *spec, do rlx.Runner, state *rlx.State, x *Image,
	seen int, images []shown, sequence int32) error {
	about := &t.Images
	if err := s.Load(ctx, about.Method, about.Append); err != nil {
		return err
	}
	features, err := x.encode(ctx, do, t, s.Model())
	if err != nil {
		return err
	}
	first, n := next(seen, images), x.Tokens()
	width := len(features) / n
	for at := 0; at < n; at += t.Chunk {
		end := min(n, at+t.Chunk)
		rotary := make([]int32, 0, 3*(end-at))
		for axis := range 3 {
			for i := at; i < end; i++ {
				rotary = append(rotary, int32(first+[]int{0, i / x.columns, i % x.columns}[axis]))
			}
		}
		q := rlx.Request{Method: about.Append, State: state, Outputs: []string{}, Inputs: map[string]rlx.Tensor{
			about.Features: {DType: rlx.F32, Shape: []int{end - at, width},
				Data: tensor.Bytes(features[at*width : end*width])},
			t.Inputs.Position: {DType: rlx.I32, Shape: []int{}, Data: tensor.Bytes([]int32{int32(seen + at)})},
			about.Rotary:      {DType: rlx.I32, Shape: []int{3, end - at}, Data: tensor.Bytes(rotary)},
		}}
		if about.Sequence != "" {
			q.Inputs[about.Sequence] = rlx.Tensor{DType: rlx.I32, Shape: []int{1},
				Data: tensor.Bytes([]int32{sequence})}
		}
		if _, err := do.Run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// encode returns the features of the image.
func (x *Image) encode(ctx context.Context, do rlx.Runner, t *spec, m *rlx.Model) ([]float32, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.model != m {
		return nil, diag.New(code.TextPrompt, "image", "was made for %s, and is given to %s", x.model.Path(), m.Path())
	}
	if x.features != nil {
		return x.features, nil
	}
	r := t.rule()
	values := make([]float32, 0, len(x.picture.Pix)/4*3)
	for i, v := range x.picture.Pix {
		if i%4 < 3 {
			values = append(values, float32(v))
		}
	}
	rows, columns := x.rows*r.Merge, x.columns*r.Merge
	patches := r.Cut(values, rows, columns)
	res, err := do.Run(ctx, rlx.Request{Method: t.Images.Method, Outputs: []string{t.Images.Features},
		Inputs: map[string]rlx.Tensor{
			t.Images.Patches: {DType: rlx.F32, Shape: []int{rows * columns, r.Row()}, Data: tensor.Bytes(patches)},
			t.Images.Grid: {DType: rlx.I32, Shape: []int{2},
				Data: tensor.Bytes([]int32{int32(rows), int32(columns)})},
		}})
	if err != nil {
		return nil, err
	}
	features := tensor.View[float32](res.Outputs[t.Images.Features].Data)
	if i := slices.IndexFunc(features, func(v float32) bool { return v-v != 0 }); i >= 0 {
		return nil, diag.New(device.ErrNaN, t.Images.Method, "feature %d of an image is %v", i, features[i])
	}
	x.features = slices.Clone(features)
	return x.features, nil
}

// formatShown returns the text for images in the metadata of a state.
func formatShown(all []shown) string {
	var out []string
	for _, x := range all {
		out = append(out, fmt.Sprintf("%d %d %d %x", x.at, x.rows, x.columns, x.digest))
	}
	return strings.Join(out, ";")
}

// parseShown parses what formatShown has returned. ids are the tokens of the file.
func (g *Generator) parseShown(path, s string, ids []int) (out []shown, err error) {
	if s == "" {
		return nil, nil
	}
	end := 0
	for part := range strings.SplitSeq(s, ";") {
		var x shown
		var digest []byte
		n, err := fmt.Sscanf(part, "%d %d %d %x", &x.at, &x.rows, &x.columns, &digest)
		most := g.spec.Images.MaxTokens
		if err != nil || n != 4 || len(digest) != len(x.digest) || x.rows < 1 || x.columns < 1 || x.rows > most ||
			x.columns > most || x.at < end || x.at+x.rows*x.columns >= len(ids) || slices.ContainsFunc(
			ids[x.at:x.at+x.rows*x.columns], func(id int) bool { return id != g.spec.Images.Token }) {
			return nil, diag.New(device.ErrInput, path,
				"says that it has the image %.80q, which its %d tokens have not", part, len(ids))
		}
		copy(x.digest[:], digest)
		out, end = append(out, x), x.at+x.rows*x.columns
	}
	return out, nil
}
