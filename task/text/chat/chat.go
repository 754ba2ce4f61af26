// Package chat turns a conversation into a prompt with the chat template of a model. Templates are written in Jinja, as the library
// Transformers runs it: the blocks for, if, set, macro, filter and generation, with trim_blocks and lstrip_blocks, in a sandbox.
//
// A template is part of a checkpoint, which may come from anybody. Rendering counts steps and allocated bytes, and fails if a
// template takes too many of either.
package chat

import (
	"maps"
	"slices"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// Codes of this package's errors.
var (
	CodeTemplate = code.ChatTemplate
	CodeRender   = code.ChatRender
)

// Limits of templates.
const (
	MaxSource = 1 << 18  // bytes
	maxSteps  = 5e6      // evaluations of expressions and statements in one rendering
	maxBytes  = 64 << 20 // bytes of values and output in one rendering
	maxDepth  = 64       // nested blocks and expressions
	maxCalls  = 32       // nested calls of macros
)

// A Message is one turn of a conversation.
type Message struct {
	Role    string // "system", "user", "assistant"
	Content string
}

// Input holds the arguments of a template.
type Input struct {
	Messages []Message
	// AddGenerationPrompt appends the text that introduces the turn of the model.
	AddGenerationPrompt bool
	BOS, EOS            string // the special tokens that templates call bos_token and eos_token
	// Variables holds further arguments, such as enable_thinking. Values are nil, bool, int, float64, string, []any or
	// map[string]any.
	Variables map[string]any
	// Now is the time that strftime_now formats; the zero value means the present.
	Now time.Time
}

// Template is a chat template. It is safe for concurrent use.
type Template struct{ body []stmt }

// Parse parses a template. An error is a *diag.Error with CodeTemplate.
func Parse(source string) (*Template, error) {
	if len(source) > MaxSource {
		return nil, diag.New(CodeTemplate, "chat template", "has %d bytes; at most %d are allowed", len(source), MaxSource)
	}
	body, err := parse(source)
	if err != nil {
		return nil, diag.New(CodeTemplate, "chat template", "%w", err)
	}
	return &Template{body}, nil
}

// Render returns the prompt. An error is a *diag.Error with CodeRender.
func (t *Template) Render(in Input) (string, error) {
	r := &run{now: in.Now, steps: maxSteps, bytes: maxBytes}
	if r.now.IsZero() {
		r.now = time.Now()
	}
	var messages []value
	for _, m := range in.Messages {
		d := newDict()
		d.set("role", m.Role)
		d.set("content", m.Content)
		messages = append(messages, d)
	}
	top := newFrame(nil)
	for name, f := range globals {
		top.vars[name] = f
	}
	top.vars["tools"], top.vars["documents"] = nil, nil // Transformers defines them, too
	for _, name := range slices.Sorted(maps.Keys(in.Variables)) {
		v, err := fromGo(in.Variables[name], 0)
		if err != nil {
			return "", diag.New(CodeRender, "chat template", "variable %s: %w", name, err)
		}
		top.vars[name] = v
	}
	top.vars["messages"] = &list{items: messages}
	top.vars["add_generation_prompt"] = in.AddGenerationPrompt
	top.vars["bos_token"], top.vars["eos_token"] = in.BOS, in.EOS
	if _, err := r.block(t.body, newFrame(top)); err != nil {
		return "", diag.New(CodeRender, "chat template", "%w", err)
	}
	return string(r.out), nil
}
