package text

import (
	"bytes"
	"slices"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/task/text/chat"
)

// A Message is one turn of a conversation.
type Message struct {
	Role    string // "system", "user", "assistant" or "tool"
	Content string
	// Calls has the tool calls in a turn of the model, as JSON in the form of OpenAI's API. CallID names the call that
	// a turn of a tool answers, and Name the speaker. They are empty in most turns.
	Calls, CallID, Name string
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
		in.Messages = append(in.Messages, chat.Message(x))
	}
	return template.Render(in)
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

// EncodeChat turns a conversation into tokens. If the sequence is not empty, the conversation must begin with it, and
// EncodeChat returns the tokens that follow it. Errors are those of ChatPrompt and Encode, or match
// ErrPrompt if the conversation does not continue the sequence.
func (g *Generator) EncodeChat(messages []Message) ([]int, error) {
	prompt, err := ChatPrompt(g.session.Model(), messages)
	if err != nil {
		return nil, err
	}
	t, err := NewTokenizer(g.session.Model())
	if err != nil {
		return nil, err
	}
	ids, err := t.Encode(prompt, false)
	if err != nil {
		return nil, err
	}
	seen := g.IDs()
	if len(seen) > len(ids) || !slices.Equal(seen, ids[:len(seen)]) {
		return nil, diag.New(code.TextPrompt, "conversation", "does not begin with the %d tokens of the sequence",
			len(seen)).WithHint("begin anew with Reset")
	}
	return ids[len(seen):], nil
}
