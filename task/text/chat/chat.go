// Package chat turns a conversation into a prompt with the chat template of a model, as the library Transformers does:
// the same variables, and the functions raise_exception and strftime_now. Package internal/jinja runs the template.
//
// A template is part of a checkpoint, which may come from anybody. Rendering fails if it takes too many steps or too
// much memory.
package chat

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/jinja"
)

// Codes of this package's errors.
var (
	CodeTemplate = code.ChatTemplate
	CodeRender   = code.ChatRender
)

// MaxSource is how many bytes a template may have.
const MaxSource = 1 << 18

// limits bounds one rendering.
var limits = jinja.Limits{Steps: 5e6, Bytes: 64 << 20}

// A Message is one turn of a conversation.
type Message struct {
	Role    string // "system", "user", "assistant", "tool"
	Content string
	Parts   []Part // in place of Content, if not empty
	// Calls has the tool calls of a turn of the model, as JSON in the form of OpenAI's API; CallID the call that a turn
	// of a tool answers; Name the name of who speaks. They are empty in most turns.
	Calls, CallID, Name string
}

// A Part of a message is a text or an image.
type Part struct {
	Text  string
	Image bool
}

// value returns the content of a message as templates see it: a text, or a list of parts.
func (m Message) value() any {
	if len(m.Parts) == 0 {
		return m.Content
	}
	list := make([]any, len(m.Parts))
	for i, p := range m.Parts {
		list[i] = jinja.Dict{{Key: "type", Value: "text"}, {Key: "text", Value: p.Text}}
		if p.Image {
			list[i] = jinja.Dict{{Key: "type", Value: "image"}}
		}
	}
	return list
}

// Input holds the arguments of a template.
type Input struct {
	Messages []Message
	// AddGenerationPrompt appends the text that introduces the turn of the model.
	AddGenerationPrompt bool
	BOS, EOS            string // the special tokens that templates call bos_token and eos_token
	// Tools lists the tools that the model may call, as JSON in the form of OpenAI's API. It may be empty.
	Tools []byte
	// Variables holds further arguments, such as enable_thinking. Values are nil, bool, int, float64, string, []any or
	// map[string]any.
	Variables map[string]any
	// Now is the time that strftime_now formats; the zero value means the present.
	Now time.Time
}

// Template is a chat template. It is safe for concurrent use.
type Template struct{ jinja *jinja.Template }

// Parse parses a template. An error is a *diag.Error with CodeTemplate.
func Parse(source string) (*Template, error) {
	if len(source) > MaxSource {
		return nil, diag.New(CodeTemplate, "chat template", "has %d bytes; at most %d are allowed", len(source),
			MaxSource)
	}
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, diag.New(CodeTemplate, "chat template", "%w", err)
	}
	return &Template{t}, nil
}

// Render returns the prompt. An error is a *diag.Error with CodeRender.
func (t *Template) Render(in Input) (string, error) {
	vars, err := in.variables()
	if err != nil {
		return "", diag.New(CodeRender, "chat template", "%w", err)
	}
	prompt, err := t.jinja.Render(vars, limits)
	if err != nil {
		return "", diag.New(CodeRender, "chat template", "%w", err)
	}
	return prompt, nil
}

// variables returns what Transformers passes to a template.
func (in Input) variables() (map[string]any, error) {
	now := in.Now
	if now.IsZero() {
		now = time.Now()
	}
	vars := map[string]any{
		"tools": nil, "documents": nil,
		"raise_exception": jinja.Function{Params: []string{"message"}, Call: raiseException},
		"strftime_now": jinja.Function{Params: []string{"format"}, Call: func(args []any) (string, error) {
			format, ok := args[0].(string)
			if !ok {
				return "", errors.New("strftime_now takes a format")
			}
			return strftime(format, now)
		}},
	}
	maps.Copy(vars, in.Variables)
	messages := make([]any, len(in.Messages))
	for i, m := range in.Messages {
		one := jinja.Dict{{Key: "role", Value: m.Role}, {Key: "content", Value: m.value()}}
		if len(m.Calls) > 0 {
			calls, err := fromJSON([]byte(m.Calls))
			if err != nil {
				return nil, fmt.Errorf("tool calls of message %d: %w", i, err)
			}
			one = append(one, jinja.Item{Key: "tool_calls", Value: calls})
		}
		if m.CallID != "" {
			one = append(one, jinja.Item{Key: "tool_call_id", Value: m.CallID})
		}
		if m.Name != "" {
			one = append(one, jinja.Item{Key: "name", Value: m.Name})
		}
		messages[i] = one
	}
	if len(in.Tools) > 0 {
		tools, err := fromJSON(in.Tools)
		if err != nil {
			return nil, fmt.Errorf("tools: %w", err)
		}
		vars["tools"] = tools
	}
	vars["messages"] = messages
	vars["add_generation_prompt"] = in.AddGenerationPrompt
	vars["bos_token"], vars["eos_token"] = in.BOS, in.EOS
	return vars, nil
}

// raiseException fails with a template's own message, such as that the roles must alternate.
func raiseException(args []any) (string, error) {
	message := args[0]
	if message == nil {
		message = ""
	}
	return "", fmt.Errorf("the template refuses the conversation: %.500v", message)
}
