package openai

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/text"
)

const (
	maxImages    = 32      // of a request
	maxPixels    = 1 << 26 // of each
	maxAllPixels = 1 << 27 // of all: decoding keeps other requests waiting
)

// imageCount counts the images of a request.
type imageCount struct{ images, pixels int }

// content is a text, or a list of parts that are texts and images.
type content struct {
	text  string
	parts []contentPart // nil without images
}

// A contentPart is a text, or an image if url is not empty.
type contentPart struct{ text, url string }

func (c *content) UnmarshalJSON(b []byte) error {
	*c = content{}
	var one *string
	if json.Unmarshal(b, &one) == nil {
		if one != nil {
			c.text = *one
		}
		return nil
	}
	var parts []struct {
		Type, Text string
		Image      imageURL `json:"image_url"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return refuse("messages", "content is neither a text nor a list of parts")
	}
	var all strings.Builder
	images := false
	for _, p := range parts {
		switch p.Type {
		case "text":
			all.WriteString(p.Text)
			c.parts = append(c.parts, contentPart{text: p.Text})
		case "image_url":
			if p.Image.url == "" {
				return refuse("messages", "a part image_url has no url")
			}
			images = true
			c.parts = append(c.parts, contentPart{url: p.Image.url})
		case "video", "video_url":
			return refuse("messages", fmt.Sprintf("a part of the type %s; videos are not supported", p.Type))
		default:
			return refuse("messages", fmt.Sprintf("a part of the type %.40q; allowed are text and image_url", p.Type))
		}
	}
	if !images {
		c.text, c.parts = all.String(), nil
	}
	return nil
}

// imageURL is an object with a URL, or the URL, as some programs send it.
type imageURL struct{ url string }

func (i *imageURL) UnmarshalJSON(b []byte) error {
	if one, ok := decode[string](b); ok {
		i.url = one
		return nil
	}
	object, ok := decode[struct {
		URL string `json:"url"`
	}](b)
	i.url = object.URL
	if !ok && string(b) != "null" {
		return refuse("messages", "image_url is neither an object with a url nor a text")
	}
	return nil
}

// decoding has an element while an image is decoded: one at a time, which bounds the memory.
var decoding = make(chan struct{}, 1)

// message returns a message with its images, and counts them.
func (s *Server) message(ctx context.Context, m message, count *imageCount) (out text.Message, err error) {
	out = text.Message{Role: m.Role, Content: m.Content.text, Calls: string(m.Calls), CallID: m.CallID, Name: m.Name}
	if out.Role == "developer" { // the newer name
		out.Role = "system"
	}
	if out.Calls == "null" {
		out.Calls = ""
	}
	for _, p := range m.Content.parts {
		part := text.Part{Text: p.text}
		if p.url != "" {
			if part.Image, err = s.image(ctx, p.url, count); err != nil {
				return out, err
			}
		}
		out.Parts = append(out.Parts, part)
	}
	return out, nil
}

// image decodes an image in a data: URL (RFC 2397).
func (s *Server) image(ctx context.Context, url string, count *imageCount) (*text.Image, error) {
	if facts, err := text.FactsOf(s.model); err != nil || !facts.Images {
		return nil, refuse("messages", "has an image; this model takes only text")
	}
	if count.images++; count.images > maxImages {
		return nil, refuse("messages", fmt.Sprintf("has more than %d images", maxImages))
	}
	left := maxAllPixels - count.pixels
	if left <= 0 {
		return nil, refuse("messages", fmt.Sprintf("has images of more than %d pixels in all", maxAllPixels))
	}
	scheme, rest, _ := strings.Cut(url, ":")
	if !strings.EqualFold(scheme, "data") {
		return nil, refuse("messages", fmt.Sprintf("an image_url begins with %.16q; only data: URLs in base64 are taken, "+
			"because this server fetches nothing", scheme+":"))
	}
	kind, encoded, ok := strings.Cut(rest, ",")
	if !ok || !strings.HasSuffix(strings.ToLower(kind), ";base64") {
		return nil, refuse("messages", "an image_url is not data:image/TYPE;base64,DATA")
	}
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return nil, refuse("messages", "an image_url is not in base64: "+err.Error())
	}
	select {
	case decoding <- struct{}{}:
		defer func() { <-decoding }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	img, err := imaging.Decode("image_url", bytes.NewReader(raw),
		imaging.Limits{FileSize: int64(len(raw)), Pixels: int64(min(maxPixels, left))})
	if err != nil {
		return nil, refuse("messages", err.Error())
	}
	count.pixels += img.Bounds().Dx() * img.Bounds().Dy()
	x, err := text.NewImage(s.model, img)
	if err != nil {
		return nil, refuse("messages", err.Error())
	}
	return x, nil
}
