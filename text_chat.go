package rlx

import (
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/task/text/chat"
)

// A Message is one turn of a conversation, by "system", "user" or "assistant".
type Message = chat.Message

// ChatPrompt applies the model's chat template to a conversation. The prompt ends where the assistant's turn begins. It
// contains the special tokens as text, so encode it without adding any.
//
// The error matches ErrUsage if the artifact has no template, ErrArtifact if it is damaged, or ErrInput's class
// (RLX3085, RLX3086) if the template is not supported or rejects the conversation.
func (m *Model) ChatPrompt(messages []Message) (string, error) {
	t, ok := m.TextTask()
	if !ok || t.ChatTemplate == "" {
		return "", diag.New(code.TextPrompt, m.path, "has no chat template").WithHint("give a prompt that has the model's own marks in it")
	}
	source, err := m.attachment(t.ChatTemplate, chat.MaxSource)
	if err != nil {
		return "", err
	}
	template, err := chat.Parse(string(source))
	if err != nil {
		return "", err
	}
	return template.Render(chat.Input{Messages: messages, AddGenerationPrompt: true, BOS: t.BOS, EOS: t.EOS})
}

// EncodeChat turns a conversation into tokens. If the sequence is not empty, the conversation must begin with it, and
// EncodeChat returns the tokens that follow it. Errors are those of Model.ChatPrompt and Encode, or match ErrUsage if
// the conversation does not continue the sequence.
func (g *Generator) EncodeChat(messages []Message) ([]int, error) {
	prompt, err := g.session.model.ChatPrompt(messages)
	if err != nil {
		return nil, err
	}
	t, err := g.session.model.Tokenizer()
	if err != nil {
		return nil, err
	}
	ids, err := t.Encode(prompt, false)
	if err != nil {
		return nil, err
	}
	seen := g.IDs()
	if len(seen) > len(ids) || !slices.Equal(seen, ids[:len(seen)]) {
		return nil, diag.New(code.TextPrompt, "conversation", "does not begin with the %d tokens of the sequence", len(seen)).WithHint("begin anew with Reset")
	}
	return ids[len(seen):], nil
}
