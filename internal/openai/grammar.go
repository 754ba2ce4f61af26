package openai

import (
	"encoding/json"
	"errors"
	"sync"

	"github.com/rlx-go/rlx/text"
)

type responseFormat struct {
	Type   string `json:"type"`
	Schema *struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
	Own json.RawMessage `json:"schema"` // of json_object, as llama-server has it
}

// anyObject is the schema of json_object.
const anyObject = `{"type": "object"}`

// maxGrammars bounds the grammars that are kept. Each may need some MB.
const maxGrammars = 8

// grammars caches the grammars of requests, because the next request of a client often has the same one.
type grammars struct {
	mu   sync.Mutex
	kept map[string]*text.Grammar
}

// get returns the grammar for a key, which parse makes.
func (g *grammars) get(key string, parse func() (*text.Grammar, error)) (*text.Grammar, error) {
	g.mu.Lock()
	x := g.kept[key]
	g.mu.Unlock()
	if x != nil {
		return x, nil
	}
	x, err := parse()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kept == nil || len(g.kept) >= maxGrammars {
		g.kept = map[string]*text.Grammar{}
	}
	g.kept[key] = x
	return x, nil
}

func (g *grammars) schema(param string, source []byte) (*text.Grammar, error) {
	x, err := g.get("schema "+string(source), func() (*text.Grammar, error) { return text.ParseSchema(source) })
	if errors.Is(err, text.ErrGrammar) {
		return nil, refuse(param, err.Error())
	}
	return x, err
}

// grammar returns what the answer to a request is restricted to, or nil.
func (s *Server) grammar(c *common) (*text.Grammar, error) {
	f, given := c.ResponseFormat, 0
	for _, is := range []bool{f != nil && f.Type != "text", c.Grammar != "", len(c.Schema) > 0} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, refuse("response_format", "only one of response_format, grammar and json_schema is allowed")
	case given == 0:
		return nil, nil
	case c.Grammar != "":
		x, err := s.grammars.get("grammar "+c.Grammar, func() (*text.Grammar, error) {
			return text.ParseGrammar(c.Grammar)
		})
		if errors.Is(err, text.ErrGrammar) {
			return nil, refuse("grammar", err.Error())
		}
		return x, err
	case len(c.Schema) > 0:
		return s.grammars.schema("json_schema", c.Schema)
	case f.Type == "json_object" && len(f.Own) > 0:
		return s.grammars.schema("response_format", f.Own)
	case f.Type == "json_object":
		return s.grammars.schema("response_format", []byte(anyObject))
	case f.Type != "json_schema":
		return nil, refuse("response_format", "type must be text, json_object or json_schema")
	case f.Schema == nil || len(f.Schema.Schema) == 0:
		return nil, refuse("response_format", "json_schema.schema is missing")
	}
	return s.grammars.schema("response_format", f.Schema.Schema)
}

// A choiceOfTool says whether the model must call a tool, and which one.
type choiceOfTool struct {
	none, required bool
	name           string // if it must be this one
}

// toolChoice returns what a request says about calls.
func (r *chatRequest) toolChoice() (c choiceOfTool, err error) {
	if len(r.ToolChoice) == 0 {
		return c, nil
	}
	if word, ok := decode[string](r.ToolChoice); ok {
		switch word {
		case "auto":
		case "none":
			c.none = true
		case "required":
			c.required = true
		default:
			return c, refuse("tool_choice", "must be auto, none, required or a function")
		}
		return c, nil
	}
	var one *struct {
		Type     string
		Function struct{ Name string }
	}
	if json.Unmarshal(r.ToolChoice, &one) != nil || one != nil && (one.Type != "function" || one.Function.Name == "") {
		return c, refuse("tool_choice", "must be auto, none, required or a function")
	}
	if one != nil {
		c.required, c.name = true, one.Function.Name
	}
	return c, nil
}

// calls returns the grammar of the calls that a request demands, or nil if it demands none.
func (s *Server) calls(r *chatRequest) (*text.Grammar, error) {
	choice, err := r.toolChoice()
	if err != nil || !choice.required {
		return nil, err
	}
	var tools []text.Tool
	key := "calls"
	for _, raw := range r.Tools {
		var t struct {
			Function struct {
				Name       string
				Parameters json.RawMessage
			}
		}
		if json.Unmarshal(raw, &t) != nil || t.Function.Name == "" {
			return nil, refuse("tools", "has one without function.name")
		}
		if choice.name == "" || choice.name == t.Function.Name {
			tools = append(tools, text.Tool{Name: t.Function.Name, Parameters: t.Function.Parameters})
			key += " " + string(raw)
		}
	}
	if len(tools) == 0 {
		return nil, refuse("tool_choice", "no such tool is given")
	}
	x, err := s.grammars.get(key, func() (*text.Grammar, error) { return text.CallGrammar(s.model, tools) })
	if errors.Is(err, text.ErrGrammar) {
		return nil, refuse("tools", err.Error())
	}
	return x, err
}

// chatGrammar returns what the answer to a conversation is restricted to, or nil.
func (s *Server) chatGrammar(r *chatRequest) (*text.Grammar, error) {
	format, err := s.grammar(&r.common)
	if err != nil {
		return nil, err
	}
	calls, err := s.calls(r)
	switch {
	case err != nil:
		return nil, err
	case format != nil && r.callsTools():
		return nil, refuse("tools",
			"cannot be combined with response_format, grammar and json_schema; give tool_choice none, or no tools")
	case format != nil:
		return format, nil
	}
	return calls, nil
}
