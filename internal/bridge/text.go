//go:build unix

package bridge

import (
	"context"
	"strings"
	"sync"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/text"
)

// A generator is used by one call at a time.
type generator struct {
	mu sync.Mutex
	*text.Generator
	model *rlx.Model
}

type generatorArgs struct {
	Session int64 `json:"session"`
}

// newGenerator makes a generator of text.
func (c *call) newGenerator(ctx context.Context, a generatorArgs) (any, error) {
	session, err := object[*rlx.Session](c, a.Session, "model")
	if err != nil {
		return nil, err
	}
	g, err := text.NewGenerator(ctx, session)
	if err != nil {
		return nil, err
	}
	f := g.Facts()
	return struct {
		created
		Vocabulary   int           `json:"vocabulary"`
		Context      int           `json:"context"`
		Sampling     text.Sampling `json:"sampling"`
		Tokenizer    bool          `json:"tokenizer"`
		ChatTemplate bool          `json:"chat_template"`
	}{created{c.server.objects.add(&generator{Generator: g, model: session.Model()}, a.Session, g.Close)},
		f.Vocabulary, f.Context, f.Sampling, f.Tokenizer, f.ChatTemplate}, nil
}

type tokensArgs struct {
	Generator int64     `json:"generator"`
	Text      string    `json:"text"`
	Messages  []message `json:"messages"` // in place of Text
}

// A message is one turn of a conversation.
type message struct {
	Role, Content string
	Parts         []part // in place of Content
}

// A part of a message is a text, or an image that picture has made.
type part struct {
	Text  string
	Image int64
}

type pictureArgs struct {
	imageArgs
	Generator int64 `json:"generator"`
}

// picture makes an image for prompts.
func (c *call) picture(ctx context.Context, a pictureArgs) (any, error) {
	g, err := object[*generator](c, a.Generator, "generator")
	if err != nil {
		return nil, err
	}
	img, err := c.imageOf(ctx, a.imageArgs)
	if err != nil {
		return nil, err
	}
	x, err := text.NewImage(g.model, img)
	if err != nil {
		return nil, err
	}
	return created{c.server.objects.add(x, a.Generator, nil)}, nil
}

// conversation returns the part of a conversation that follows the sequence of a generator.
func (c *call) conversation(g *generator, messages []message) (p text.Prompt, images []int64, err error) {
	var all []text.Message
	for _, m := range messages {
		one := text.Message{Role: m.Role, Content: m.Content}
		for _, x := range m.Parts {
			p := text.Part{Text: x.Text}
			if x.Image != 0 {
				if p.Image, err = object[*text.Image](c, x.Image, "image"); err != nil {
					return text.Prompt{}, nil, err
				}
				images = append(images, x.Image)
			}
			one.Parts = append(one.Parts, p)
		}
		all = append(all, one)
	}
	if p, err = text.EncodeMessages(g.model, all, nil); err != nil {
		return p, nil, err
	}
	rest, ok := g.After(p)
	if !ok {
		return p, nil, diag.New(code.TextPrompt, "conversation", "does not begin with the %d tokens of the sequence",
			len(g.IDs())).WithHint("begin anew with reset")
	}
	return rest, images[len(images)-len(rest.Images):], nil
}

// tokens turns a text or a conversation into tokens that follow those of the generator.
func (c *call) tokens(_ context.Context, a tokensArgs) (any, error) {
	g, err := object[*generator](c, a.Generator, "generator")
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	out := idsOf{Images: []int64{}}
	if a.Messages != nil {
		var p text.Prompt
		p, out.Images, err = c.conversation(g, a.Messages)
		out.IDs = p.IDs
	} else {
		out.IDs, err = g.Encode(a.Text)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

type idsOf struct {
	IDs    []int   `json:"ids"`
	Images []int64 `json:"images"` // in the order of their places
}

type textArgs struct {
	Generator int64 `json:"generator"`
	IDs       []int `json:"ids"`
}

// text returns the text of tokens.
func (c *call) text(_ context.Context, a textArgs) (any, error) {
	g, err := object[*generator](c, a.Generator, "generator")
	if err != nil {
		return nil, err
	}
	return struct {
		Text string `json:"text"`
	}{g.Decode(a.IDs)}, nil
}

type generateArgs struct {
	Generator int64          `json:"generator"`
	IDs       []int          `json:"ids"`
	Tokens    int            `json:"tokens"`
	Sampling  *text.Sampling `json:"sampling"` // nil means the model's defaults
	Seed      uint64         `json:"seed"`
	Stop      []string       `json:"stop"`
	IgnoreEnd bool           `json:"ignore_end"`
	Images    []int64        `json:"images"` // of the ids
}

type tokenEvent struct {
	Token int    `json:"token"`
	Text  string `json:"text"`
}

// generate continues a sequence. Each token is an event. "rest" is the text that no event had.
func (c *call) generate(ctx context.Context, a generateArgs) (any, error) {
	g, err := object[*generator](c, a.Generator, "generator")
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	images := make([]*text.Image, len(a.Images))
	for i, id := range a.Images {
		if images[i], err = object[*text.Image](c, id, "image"); err != nil {
			return nil, err
		}
	}
	sent := ""
	r, err := g.Generate(ctx, a.IDs, text.Options{Tokens: a.Tokens, Sampling: a.Sampling, Seed: a.Seed, Stop: a.Stop,
		IgnoreEnd: a.IgnoreEnd, Images: images, Each: func(t text.Token) error {
			sent += t.Text
			return c.event(tokenEvent{t.ID, t.Text})
		}})
	if err != nil {
		return nil, err
	}
	return struct {
		Rest   string `json:"rest"`
		Stop   string `json:"stop"`
		Prompt int    `json:"prompt"`
	}{strings.TrimPrefix(r.Text, sent), string(r.Stop), r.Prompt}, nil
}
