package openai

import (
	"encoding/json"
	"strings"
)

// A toolCall is a call of a tool in an answer.
type toolCall struct {
	Index    *int   `json:"index,omitempty"` // in parts of a stream
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"` // JSON
	} `json:"function"`
}

// toolCalls finds the calls in a text, in the forms that models are taught: blocks of <tool_call> (Hermes, Qwen),
// [TOOL_CALLS] and a list (Mistral), and an object that is the whole text (Llama 3). rest is the text without them.
// With one, calls after the first are dropped.
func toolCalls(text string, one bool) (calls []toolCall, rest string) {
	calls, rest = allCalls(text)
	if one && len(calls) > 1 {
		calls = calls[:1]
	}
	return calls, rest
}

func allCalls(text string) (calls []toolCall, rest string) {
	const begin, end, list = "<tool_call>", "</tool_call>", "[TOOL_CALLS]"
	trimmed := strings.TrimSpace(text)
	switch {
	case strings.Contains(text, begin):
		rest = text
		for {
			before, after, ok := strings.Cut(rest, begin)
			if !ok {
				break
			}
			one, more, _ := strings.Cut(after, end)
			call, ok := parseCall([]byte(one))
			if !ok { // not a call after all
				return nil, text
			}
			calls, rest = append(calls, call), before+more
		}
		return calls, strings.TrimSpace(rest)
	case strings.Contains(text, list):
		before, after, _ := strings.Cut(text, list)
		var all []json.RawMessage
		if json.Unmarshal([]byte(after), &all) != nil {
			return nil, text
		}
		for _, one := range all {
			call, ok := parseCall(one)
			if !ok {
				return nil, text
			}
			calls = append(calls, call)
		}
		return calls, strings.TrimSpace(before)
	case strings.HasPrefix(trimmed, "{"):
		if call, ok := parseCall([]byte(trimmed)); ok {
			return []toolCall{call}, ""
		}
	}
	return nil, text
}

// parseCall parses {"name": ..., "arguments": {...}}; Llama calls them parameters.
func parseCall(b []byte) (c toolCall, ok bool) {
	var in struct {
		Name                  string
		Arguments, Parameters json.RawMessage
	}
	if json.Unmarshal(b, &in) != nil || in.Name == "" {
		return c, false
	}
	arguments := in.Arguments
	if arguments == nil {
		arguments = in.Parameters
	}
	if arguments == nil {
		return c, false
	}
	c.ID, c.Type, c.Function.Name, c.Function.Arguments = randomID("call_"), "function", in.Name, string(arguments)
	var text string
	if json.Unmarshal(arguments, &text) == nil { // some models write the object as a string
		c.Function.Arguments = text
	}
	return c, true
}
