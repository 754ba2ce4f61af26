package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/text"
)

// A savedChat is the file of a conversation. The state of the model is beside it.
type savedChat struct {
	Version  int            `json:"rlx_chat"` // 1
	Model    string         `json:"model"`    // digest of the artifact
	System   string         `json:"system"`
	Messages []savedMessage `json:"messages"`
	Skipped  int            `json:"not_seen"` // of the first messages
}

type savedMessage struct {
	Role    string `json:"role"` // user or assistant, in turns
	Content string `json:"content"`
	// images before the text of a user's message
	Images []savedImage `json:"images,omitempty"`
}

// maxChat bounds the file of a conversation in bytes.
const maxChat = 64 << 20

// statePath returns the file of the state that belongs to a conversation.
func statePath(path string) string { return path + ".state" }

// save writes the conversation and the state.
func (c *chat) save(ctx context.Context, path string) error {
	v := savedChat{Version: 1, Model: c.s.model.Facts().Identity, System: c.system, Messages: []savedMessage{},
		Skipped: c.skipped}
	for _, m := range c.messages {
		images, err := c.saveImages(m)
		if err != nil {
			return err
		}
		v.Messages = append(v.Messages, savedMessage{m.Role, contentOf(m), images})
	}
	var encoded bytes.Buffer
	e := json.NewEncoder(&encoded)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	if encoded.Len() > maxChat {
		return tooLarge(path, encoded.Len())
	}
	var w files
	defer w.abort()
	err := w.add(ctx, path, func(to io.Writer) error {
		_, err := to.Write(encoded.Bytes())
		return err
	})
	if err == nil && len(c.g.IDs()) > 0 {
		err = w.add(ctx, statePath(path), func(to io.Writer) error { return c.g.Save(ctx, to) })
	}
	if err != nil {
		return err
	}
	if err := w.commit(); err != nil {
		return err
	}
	c.s.env.Notef("saved %d messages to %s", len(c.messages), path)
	return nil
}

// load replaces the conversation by a saved one.
func (c *chat) load(ctx context.Context, path string) error {
	v, err := readChat(ctx, path)
	if err != nil {
		return err
	}
	var messages []text.Message
	for i, m := range v.Messages {
		images, err := c.loadImages(path, i+1, m.Images)
		if err != nil {
			return err
		}
		one := imageMessage(images, m.Content)
		one.Role = m.Role
		messages = append(messages, one)
	}
	c.system, c.messages, c.images, c.skipped = v.System, messages, nil, v.Skipped
	state := "with its state"
	if v.Model != c.s.model.Facts().Identity {
		state = "of another model; it is computed again"
		err = c.g.Reset(ctx)
	} else if err = c.g.Load(ctx, statePath(path)); err != nil && ctx.Err() == nil {
		if _, missing := os.Stat(statePath(path)); !errors.Is(missing, fs.ErrNotExist) {
			return err
		}
		state = "without its state; it is computed again"
		err = c.g.Reset(ctx)
	}
	if err == nil {
		c.s.env.Notef("%d messages from %s, %s", len(c.messages), path, state)
	}
	return err
}

// readChat reads the file of a conversation.
func readChat(ctx context.Context, path string) (v savedChat, err error) {
	bad := func(format string, args ...any) (savedChat, error) {
		return v, diag.New(code.Conversation, path, format, args...)
	}
	f, err := ctxio.Open(ctx, path)
	if err != nil {
		return bad("cannot be opened: %w", unpath(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(ctxio.NewReader(ctx, f), maxChat+1))
	switch {
	case ctx.Err() != nil:
		return v, context.Cause(ctx)
	case err != nil:
		return bad("cannot be read: %w", unpath(err))
	case len(b) > maxChat:
		return bad("has more than %d bytes", maxChat)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return bad("is not a conversation in JSON: %w", err)
	}
	if d.More() {
		return bad("has more than one JSON value")
	}
	if v.Version != 1 {
		return bad("has the version %d of rlx_chat; this program reads 1", v.Version)
	}
	for i, m := range v.Messages {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want {
			return bad("message %d has the role %.20q; want %q", i+1, m.Role, want)
		}
		if m.Role != "user" && len(m.Images) > 0 {
			return bad("message %d is the model's and has images", i+1)
		}
	}
	if len(v.Messages)%2 != 0 || v.Skipped < 0 || v.Skipped%2 != 0 || v.Skipped > len(v.Messages) {
		return bad("has %d messages, of which %d are not seen; want pairs of a message and its answer", len(v.Messages),
			v.Skipped)
	}
	return v, nil
}
