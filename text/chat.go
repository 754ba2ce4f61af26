package text

import (
	"bytes"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/task/text/chat"
)

// A Message is one turn of a conversation.
type Message struct {
	Role    string // "system", "user", "assistant" or "tool"
	Content string
	Parts   []Part `json:"-"` // texts and images, in place of Content; nil in most turns
	// Calls has the tool calls in a turn of the model, as JSON in the form of OpenAI's API. CallID names the call that
	// a turn of a tool answers, and Name the speaker. They are empty in most turns.
	Calls, CallID, Name string
}

// A Part of a message is a text, or an image if Image is not nil.
type Part struct {
	Text  string
	Image *Image
}

// ChatPrompt applies the model's chat template to a conversation. The prompt ends where the assistant's turn begins. It
// contains the special tokens as text, so encode it without adding any.
//
// The error matches ErrPrompt if the artifact has no template, rlx.ErrArtifact if it is damaged, or has the code
// RLX3085 or RLX3086 if the template is not supported or rejects the conversation.
func ChatPrompt(m *rlx.Model, messages []Message) (string, error) {
	return ToolPrompt(m, messages, nil)
}

// ToolPrompt is ChatPrompt for a model that may call tools. tools lists them as JSON in the form of OpenAI's API. The
// error also matches ErrPrompt if there are tools and the template takes none.
func ToolPrompt(m *rlx.Model, messages []Message, tools []byte) (string, error) {
	t, err := specOf(m)
	if err != nil {
		return "", err
	}
	source, err := templateOf(m)
	if err != nil {
		return "", err
	}
	template, err := chat.Parse(string(source))
	if err != nil {
		return "", err
	}
	if len(tools) > 0 && !bytes.Contains(source, []byte("tools")) {
		return "", diag.New(code.TextPrompt, m.Path(), "has a chat template that takes no tools")
	}
	in := chat.Input{AddGenerationPrompt: true, BOS: t.BOS, EOS: t.EOS, Tools: tools}
	for _, x := range messages {
		in.Messages = append(in.Messages, x.forTemplate())
	}
	return template.Render(in)
}

// forTemplate returns the message as a template gets it. Many templates take only texts, so one without images is a
// text.
func (x Message) forTemplate() chat.Message {
	m := chat.Message{Role: x.Role, Content: x.Content, Calls: x.Calls, CallID: x.CallID, Name: x.Name}
	if len(x.Parts) == 0 {
		return m
	}
	var all strings.Builder
	images := false
	for _, p := range x.Parts {
		images = images || p.Image != nil
		all.WriteString(p.Text)
		m.Parts = append(m.Parts, chat.Part{Text: p.Text, Image: p.Image != nil})
	}
	if !images {
		m.Content, m.Parts = all.String(), nil
	}
	return m
}

// templateOf returns the source of the model's chat template.
func templateOf(m *rlx.Model) ([]byte, error) {
	t, err := specOf(m)
	if err != nil {
		return nil, err
	}
	if t.ChatTemplate == "" {
		return nil, diag.New(code.TextPrompt, m.Path(), "has no chat template").WithHint(
			"give a prompt that has the model's own marks in it")
	}
	return m.Attachment(t.ChatTemplate, chat.MaxSource)
}

// EncodeMessages turns a conversation, which may have images, into tokens. tools are those of ToolPrompt. Errors are
// those of ToolPrompt, Tokenizer.Encode and PlaceImages.
func EncodeMessages(m *rlx.Model, messages []Message, tools []byte) (Prompt, error) {
	return EncodeAnswer(m, messages, tools, "")
}

// EncodeAnswer is EncodeMessages for a conversation in which the assistant has begun its answer.
func EncodeAnswer(m *rlx.Model, messages []Message, tools []byte, begun string) (Prompt, error) {
	prompt, err := ToolPrompt(m, messages, tools)
	if err != nil {
		return Prompt{}, err
	}
	t, err := NewTokenizer(m)
	if err != nil {
		return Prompt{}, err
	}
	ids, err := t.Encode(prompt+begun, false)
	if err != nil {
		return Prompt{}, err
	}
	var images []*Image
	for _, x := range messages {
		for _, p := range x.Parts {
			if p.Image != nil {
				images = append(images, p.Image)
			}
		}
	}
	return PlaceImages(m, ids, images)
}

// EncodeChat turns a conversation without images into tokens. If the sequence is not empty, the conversation must begin
// with it, and EncodeChat returns the tokens that follow it. Errors are those of EncodeMessages, or match ErrPrompt if
// the conversation does not continue the sequence or has images.
func (g *Generator) EncodeChat(messages []Message) ([]int, error) {
	p, err := EncodeMessages(g.session.Model(), messages, nil)
	if err != nil {
		return nil, err
	}
	seen := g.IDs()
	switch {
	case len(p.Images) > 0:
		return nil, diag.New(code.TextPrompt, "conversation", "has %d images", len(p.Images)).WithHint(
			"use EncodeMessages and After, which return them too")
	case len(g.shown) > 0 || len(seen) > len(p.IDs) || !slices.Equal(seen, p.IDs[:len(seen)]):
		return nil, diag.New(code.TextPrompt, "conversation", "does not begin with the %d tokens of the sequence",
			len(seen)).WithHint("begin anew with Reset")
	}
	return p.IDs[len(seen):], nil
}
