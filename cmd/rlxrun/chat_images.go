package main

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"path/filepath"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/text"
)

// attach reads an image for the next message.
func (c *chat) attach(ctx context.Context, path string) error {
	switch {
	case !c.facts.Images:
		return cli.Usagef("/image", "this model takes no images")
	case path == "":
		return cli.Usagef("/image", "the file's name is missing")
	case path == "-":
		return cli.Usagef("/image", "cannot be stdin, which has the messages")
	}
	// not reserved: a long conversation may leave out images that it had
	x, err := c.s.readImage(ctx, path, c.fits)
	if err != nil {
		return err
	}
	c.images, c.names[x] = append(c.images, x), filepath.Base(path)
	c.s.env.Notef("%s is part of the next message; it has %d tokens", c.names[x], x.Tokens())
	return nil
}

func (c *chat) fits(what string, bytes int64) error {
	return c.s.aboutModel(c.s.memory.Fits(what, bytes))
}

// imageMessage returns a user's message that begins with images.
func imageMessage(images []*text.Image, message string) text.Message {
	m := text.Message{Role: "user", Content: message}
	if len(images) > 0 {
		for _, x := range images {
			m.Parts = append(m.Parts, text.Part{Image: x})
		}
		m.Parts, m.Content = append(m.Parts, text.Part{Text: message}), ""
	}
	return m
}

// messageImages returns the images of a message.
func messageImages(m text.Message) (out []*text.Image) {
	for _, p := range m.Parts {
		if p.Image != nil {
			out = append(out, p.Image)
		}
	}
	return out
}

// contentOf returns the text of a message.
func contentOf(m text.Message) string {
	if n := len(m.Parts); n > 0 {
		return m.Parts[n-1].Text
	}
	return m.Content
}

// listed returns the names of images as the history shows them.
func (c *chat) listed(images []*text.Image) (out string) {
	for _, x := range images {
		out += fmt.Sprintf("[%s] ", c.names[x])
	}
	return out
}

// A savedImage is an image of a saved message, as it was resized for the model.
type savedImage struct {
	Name string `json:"name"`
	PNG  []byte `json:"png"`
}

// saveImages returns the images of a message for a file.
func (c *chat) saveImages(m text.Message) (out []savedImage, err error) {
	for _, x := range messageImages(m) {
		var b bytes.Buffer
		if err := png.Encode(&b, x.Picture()); err != nil {
			return nil, err
		}
		out = append(out, savedImage{c.names[x], b.Bytes()})
	}
	return out, nil
}

// loadImages reads the images of message number n in the file at path.
func (c *chat) loadImages(path string, n int, saved []savedImage) (out []*text.Image, err error) {
	for _, v := range saved {
		name := fmt.Sprintf("%s: image %.80q of message %d", path, v.Name, n)
		img, err := imaging.Decode(name, bytes.NewReader(v.PNG), imaging.Limits{FileSize: int64(len(v.PNG)),
			Fits: func(bytes int64) error { return c.fits("image", bytes) }})
		if err != nil {
			return nil, err
		}
		x, err := text.NewImage(c.s.model, img)
		if err != nil {
			return nil, about(name, err)
		}
		c.names[x] = v.Name
		out = append(out, x)
	}
	return out, nil
}

// tooLarge returns the error for a conversation that could not be read again.
func tooLarge(path string, bytes int) error {
	return diag.New(code.Conversation, path, "would have %d bytes; %d are allowed", bytes, maxChat).WithHint(
		"begin anew with /clear, or replace messages that have images with /edit")
}
