package main

import (
	"context"
	"image"
	"io"
	"net"
	"path/filepath"
	"sync"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/segmentpage"
	"github.com/rlx-go/rlx/segment"
	"github.com/rlx-go/rlx/task"
)

// pageOf says what the page offers for the model's task, and which methods it runs.
func (s *session) pageOf() (o segmentpage.Options, methods []string, err error) {
	o.Model = filepath.Base(s.model.Path())
	clicks := func(t *task.Segment) {
		o.Clicks, o.Best = true, [2]int{t.BestFirst, t.BestLast}
		methods = append(methods, t.PromptMethod)
	}
	switch t := s.model.Task().(type) {
	case *task.Segment:
		methods = []string{t.ImageMethod}
		clicks(t)
	case *task.Concepts:
		methods = []string{t.ImageMethod}
		if k := task.Clicks(t); k != nil {
			clicks(k)
		} else if t.Tokenizer == "" {
			return o, nil, cli.Usagef(s.model.Path(), "has no tokenizer, so a page could find nothing").WithHint(
				"compile the checkpoint again with its tokenizer.json beside it; --api serves the methods to programs")
		}
		if t.Tokenizer == "" {
			break
		}
		methods = append(methods, t.TextMethod, t.DetectMethod)
		o.Concepts = &segmentpage.Concepts{Examples: t.MaxExamples, Threshold: t.Threshold}
		if t.ExamplesMethod != "" {
			methods = append(methods, t.ExamplesMethod)
		}
	}
	return o, methods, nil
}

// serveImages serves the page with images until ctx ends.
func (s *session) serveImages(ctx context.Context, f *serveFlags, listener net.Listener) error {
	o, names, err := s.pageOf()
	if err != nil {
		return err
	}
	methods, err := methodsOf(s.model, names...)
	if err != nil {
		return err
	}
	l := &lasting{s: s, ctx: ctx}
	o.Open = func(ctx context.Context, file io.Reader) (segmentpage.Image, error) {
		return l.servedImage(
			func(lim imaging.Limits) (image.Image, error) { return imaging.Decode("the file", file, lim) })
	}
	if f.image != "" {
		o.FirstName = filepath.Base(f.image)
		if f.image == "-" {
			o.FirstName = "stdin"
		}
		if o.First, err = l.servedImage(
			func(lim imaging.Limits) (image.Image, error) {
				return readImage(ctx, f.image, s.env.Stdin, lim)
			}); err != nil {
			return err
		}
	}
	if err := s.readyToServe(ctx, methods); err != nil {
		return err
	}
	o.Failed = func(err error) { s.env.Notef("%v", inFlags(err)) }
	return s.serveUntil(ctx, f, listener, segmentpage.New(o), l)
}

// servedImage is an image that the page shows.
type servedImage struct {
	*lasting
	finder    *segment.Finder    // nil if the model takes no texts
	segmenter *segment.Segmenter // nil if it takes no clicks
	img       image.Image        // as the model takes it; nil once it is encoded
	picture   *image.NRGBA
	scene     *segment.Scene
	encoded   *segment.Image
	reserved  int64 // bytes of memory

	mu   sync.Mutex // held during a run
	last *rlx.Result
}

// Run runs a method and keeps its result, because the page shows the quality of all masks.
func (v *servedImage) Run(ctx context.Context, r rlx.Request) (res *rlx.Result, err error) {
	v.last, err = v.lasting.Run(ctx, r)
	return v.last, err
}

// servedImage decodes an image and reserves the memory that it needs while the page shows it.
func (l *lasting) servedImage(decode func(imaging.Limits) (image.Image, error)) (segmentpage.Image, error) {
	v := &servedImage{lasting: l}
	var err error
	if l.Model().Task().Kind() == task.KindConcepts {
		if v.finder, err = segment.NewFinder(v); err == nil {
			v.segmenter = v.finder.Clicks()
		}
	} else {
		v.segmenter, err = segment.New(v)
	}
	if err != nil {
		return nil, err
	}
	if v.img, err = decode(imaging.Limits{Pixels: segmentpage.MaxPixels, Fits: v.need}); err == nil {
		err = v.need(v.bytes(v.img.Bounds().Size()))
	}
	if err != nil {
		v.Close()
		return nil, err
	}
	v.picture = imaging.NRGBA(v.img)
	return v, nil
}

// bytes bounds the memory for the pixels of an image that is shown, and for a click or a search.
func (v *servedImage) bytes(size image.Point) int64 {
	var run int64
	if v.finder != nil {
		run = v.finder.Memory(size)
	}
	if v.segmenter != nil {
		run = max(run, v.segmenter.Memory(size, segment.Best))
	}
	return 4*int64(size.X)*int64(size.Y) + run
}

func (v *servedImage) need(bytes int64) error {
	err := v.s.need("images", bytes)
	if err == nil {
		v.reserved += bytes
	}
	return err
}

// Close releases the memory.
func (v *servedImage) Close() { v.s.memory.Release("images", v.reserved) }

// Picture returns the image with 8 bits per channel.
func (v *servedImage) Picture() *image.NRGBA { return v.picture }

// Encode runs the image encoder.
func (v *servedImage) Encode(ctx context.Context) (err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.finder != nil {
		if v.scene, err = v.finder.Encode(ctx, v.img); err == nil {
			v.encoded = v.scene.Image
		}
	} else {
		v.encoded, err = v.segmenter.Encode(ctx, v.img)
	}
	if err == nil {
		v.img = nil
	}
	return inFlags(err)
}

// Find finds the objects of a concept.
func (v *servedImage) Find(ctx context.Context, c segment.Concept, threshold float64) (*segment.Found, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	found, err := v.scene.Find(ctx, c, threshold)
	return found, inFlags(err)
}

// Everything finds all objects.
func (v *servedImage) Everything(ctx context.Context, side int, each func(*image.Gray) error) (*segment.Segmentation,
	error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	o := segment.EverythingOptions{Side: side}
	bytes := v.segmenter.EverythingMemory(v.picture.Rect.Size(), o)
	if err := v.s.need("masks", bytes); err != nil {
		return nil, err
	}
	defer v.s.memory.Release("masks", bytes)
	found, err := v.encoded.EverythingMasks(ctx, o, each, nil)
	return found, inFlags(err)
}

// Masks runs the decoder.
func (v *servedImage) Masks(ctx context.Context, p segment.Prompts, which segment.Choice) (
	mask segment.Mask, quality []float32, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	masks, err := v.encoded.Masks(ctx, p, which)
	if err != nil {
		return mask, nil, inFlags(err)
	}
	quality, err = rlx.Values[float32](v.last.Outputs[task.Clicks(v.s.model.Task()).IoUOutput])
	return masks[0], quality, err
}
