//go:build unix

package bridge

import (
	"context"
	"strings"
	"sync"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/text"
)

// A generator is used by one call at a time.
type generator struct {
	mu sync.Mutex
	*text.Generator
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
	}{created{c.server.objects.add(&generator{Generator: g}, a.Session, g.Close)}, f.Vocabulary, f.Context, f.Sampling,
		f.Tokenizer, f.ChatTemplate}, nil
}

type tokensArgs struct {
	Generator int64          `json:"generator"`
	Text      string         `json:"text"`
	Messages  []text.Message `json:"messages"` // in place of Text
}

// tokens turns a text or a conversation into tokens that follow those of the generator.
func (c *call) tokens(_ context.Context, a tokensArgs) (any, error) {
	g, err := object[*generator](c, a.Generator, "generator")
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var ids []int
	if a.Messages != nil {
		ids, err = g.EncodeChat(a.Messages)
	} else {
		ids, err = g.Encode(a.Text)
	}
	if err != nil {
		return nil, err
	}
	return idsOf{ids}, nil
}

type idsOf struct {
	IDs []int `json:"ids"`
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
	sent := ""
	r, err := g.Generate(ctx, a.IDs, text.Options{Tokens: a.Tokens, Sampling: a.Sampling, Seed: a.Seed, Stop: a.Stop,
		IgnoreEnd: a.IgnoreEnd, Each: func(t text.Token) error {
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
