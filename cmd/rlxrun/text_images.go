package main

import (
	"context"
	"slices"

	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/text"
)

// encodeImages converts a prompt with images to tokens: in the model's chat template, before the text, unless the
// prompt has the marks of the model where images go.
func (f *textFlags) encodeImages(s *session, t *text.Tokenizer, prompt string, images []*text.Image) (
	text.Prompt, error) {
	if !f.chat {
		ids, err := t.Encode(prompt, s.files.from == "")
		if err != nil {
			return text.Prompt{}, subject(err, "prompt")
		}
		if slices.Contains(ids, s.model.Task().(*task.Text).Images.Token) {
			return text.PlaceImages(s.model, ids, images)
		}
	}
	all := []text.Message{imageMessage(images, prompt)}
	if f.fs.Changed("system") {
		all = append([]text.Message{{Role: "system", Content: f.system}}, all...)
	}
	p, err := text.EncodeMessages(s.model, all, nil)
	return p, subject(err, "prompt")
}

// readImages reads the images of --image.
func (f *textFlags) readImages(ctx context.Context, s *session) (out []*text.Image, err error) {
	for _, path := range f.images.values.Values {
		x, err := s.readImage(ctx, path, s.need)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// readImage reads an image for a prompt. It asks fits for the memory that it needs.
func (s *session) readImage(ctx context.Context, path string, fits func(what string, bytes int64) error) (
	*text.Image, error) {
	img, err := readImage(ctx, path, s.env.Stdin,
		imaging.Limits{Fits: func(bytes int64) error { return fits("image", bytes) }})
	if err != nil {
		return nil, err
	}
	bytes, err := text.ImageMemory(s.model, img.Bounds().Size())
	if err == nil {
		err = fits("patches", bytes)
	}
	if err != nil {
		return nil, about(path, err)
	}
	return ctxio.Do(ctx, "image", func() (*text.Image, error) {
		x, err := text.NewImage(s.model, img)
		return x, about(path, err)
	}, nil)
}
