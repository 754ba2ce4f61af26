package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/text"
)

// common are the parameters that both kinds of completions have.
type common struct {
	Model       string             `json:"model"`
	Stream      bool               `json:"stream"`
	StreamOpts  *streamOptions     `json:"stream_options"`
	MaxTokens   *int               `json:"max_tokens"`
	Temperature *float64           `json:"temperature"`
	TopP        *float64           `json:"top_p"`
	TopK        *int               `json:"top_k"` // as other servers have it
	MinP        *float64           `json:"min_p"` // likewise
	Seed        *int64             `json:"seed"`
	Stop        texts              `json:"stop"`
	N           *int               `json:"n"`
	Presence    *float64           `json:"presence_penalty"`
	Frequency   *float64           `json:"frequency_penalty"`
	Bias        map[string]float64 `json:"logit_bias"`
	IgnoreEOS   bool               `json:"ignore_eos"` // as other servers have it
	// what the answer must be; Grammar (GBNF) and Schema are those of llama-server
	ResponseFormat *responseFormat `json:"response_format"`
	Grammar        string          `json:"grammar"`
	Schema         json.RawMessage `json:"json_schema"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// texts is a list of texts, or one text.
type texts []string

func (t *texts) UnmarshalJSON(b []byte) error {
	if one, ok := decode[string](b); ok {
		*t = texts{one}
	} else if all, ok := decode[[]string](b); ok {
		*t = all
	} else if string(b) != "null" {
		return refuse("stop", "is neither a text nor a list of texts")
	}
	return nil
}

type chatRequest struct {
	common
	Messages      []message         `json:"messages"`
	MaxCompletion *int              `json:"max_completion_tokens"`
	LogProbs      bool              `json:"logprobs"`
	TopLogProbs   int               `json:"top_logprobs"`
	Tools         []json.RawMessage `json:"tools"`
	ToolChoice    json.RawMessage   `json:"tool_choice"`
	Parallel      *bool             `json:"parallel_tool_calls"`
	// what is refused
	Functions  json.RawMessage `json:"functions"` // the older form of tools
	Function   json.RawMessage `json:"function_call"`
	Modalities []string        `json:"modalities"`
	Audio      json.RawMessage `json:"audio"`
	Search     json.RawMessage `json:"web_search_options"`
}

type message struct {
	Role    string          `json:"role"`
	Content content         `json:"content"`
	Calls   json.RawMessage `json:"tool_calls"`
	CallID  string          `json:"tool_call_id"`
	Name    string          `json:"name"`
}

type completionRequest struct {
	common
	Prompt   json.RawMessage `json:"prompt"`
	Echo     bool            `json:"echo"`
	Suffix   string          `json:"suffix"`
	BestOf   *int            `json:"best_of"`
	LogProbs *int            `json:"logprobs"`
}

// options returns the options for a text.
func (c *common) options(facts text.Facts) (o text.Options, err error) {
	sampling := facts.Sampling
	if c.Temperature != nil {
		sampling.Temperature = *c.Temperature
	}
	if c.TopP != nil {
		sampling.TopP = *c.TopP
	}
	if c.TopK != nil {
		sampling.TopK = max(*c.TopK, 0) // -1 means all in other servers
	}
	if c.MinP != nil {
		sampling.MinP = *c.MinP
	}
	switch {
	case c.N != nil && (*c.N < 1 || *c.N > maxPrompts):
		return o, refuse("n", fmt.Sprintf("must be from 1 to %d", maxPrompts))
	case c.Presence != nil && !(math.Abs(*c.Presence) <= 2):
		return o, refuse("presence_penalty", "must be from -2 to 2")
	case c.Frequency != nil && !(math.Abs(*c.Frequency) <= 2):
		return o, refuse("frequency_penalty", "must be from -2 to 2")
	case c.MaxTokens != nil && *c.MaxTokens < 1:
		return o, refuse("max_tokens", "must be at least 1")
	case c.Temperature != nil && (*c.Temperature < 0 || *c.Temperature > 2):
		return o, refuse("temperature", "must be from 0 to 2")
	case len(c.Stop) > 16:
		return o, refuse("stop", "has more than 16 texts")
	}
	if err := sampling.Check(facts); err != nil {
		if e, ok := errors.AsType[*diag.Error](err); ok { // such as top-p
			err = refuse(strings.ReplaceAll(e.Subject, "-", "_"), e.Msg)
		}
		return o, err
	}
	o = text.Options{Sampling: &sampling, Stop: c.Stop, IgnoreEnd: c.IgnoreEOS}
	if c.Seed != nil {
		o.Seed = uint64(*c.Seed)
	} else {
		o.Seed = randomSeed()
	}
	if c.MaxTokens != nil {
		o.Tokens = *c.MaxTokens
	}
	o.Adjust, err = c.adjust(facts)
	return o, err
}

// adjust returns the changes of logits that are asked for, or nil.
func (c *common) adjust(facts text.Facts) (*text.Adjust, error) {
	a := &text.Adjust{Bias: map[int]float64{}}
	if c.Presence != nil {
		a.Presence = *c.Presence
	}
	if c.Frequency != nil {
		a.Frequency = *c.Frequency
	}
	for key, b := range c.Bias {
		id, err := strconv.Atoi(key)
		if err != nil || id < 0 || id >= facts.Vocabulary || !(math.Abs(b) <= 100) {
			return nil, refuse("logit_bias", fmt.Sprintf(
				"has %.20q: %v; want an id from 0 to %d, and a number from -100 to 100", key, b, facts.Vocabulary-1))
		}
		a.Bias[id] = b
	}
	if a.Presence == 0 && a.Frequency == 0 && len(a.Bias) == 0 {
		return nil, nil
	}
	return a, nil
}

// choices returns how many texts continue each prompt.
func (c *common) choices() int {
	if c.N == nil {
		return 1
	}
	return *c.N
}

func (r *chatRequest) check() error {
	if r.MaxCompletion != nil {
		r.MaxTokens = r.MaxCompletion
	}
	switch {
	case len(r.Messages) == 0:
		return refuse("messages", "is empty")
	case r.TopLogProbs < 0 || r.TopLogProbs > 20:
		return refuse("top_logprobs", "must be from 0 to 20")
	case r.TopLogProbs > 0 && !r.LogProbs:
		return refuse("top_logprobs", "needs logprobs")
	case len(r.Tools) > maxTools:
		return refuse("tools", fmt.Sprintf("has more than %d", maxTools))
	case slices.ContainsFunc(r.Modalities, func(m string) bool { return m != "text" }):
		return refuse("modalities", "has another than text")
	}
	for _, x := range []struct {
		name, message string
		given         json.RawMessage
	}{{"functions", "is not supported: use tools", r.Functions},
		{"function_call", "is not supported: use tool_choice", r.Function},
		{"audio", "is not supported", r.Audio}, {"web_search_options", "is not supported", r.Search}} {
		if len(x.given) > 0 && string(x.given) != "null" {
			return refuse(x.name, x.message)
		}
	}
	choice, err := r.toolChoice()
	if err == nil && choice.required && len(r.Tools) == 0 {
		err = refuse("tool_choice", "needs tools")
	}
	return err
}

// callsTools reports whether the answer may have calls of tools.
func (r *chatRequest) callsTools() bool {
	choice, _ := r.toolChoice()
	return len(r.Tools) > 0 && !choice.none
}

func (r *completionRequest) check() error {
	switch {
	case r.Echo && r.LogProbs != nil:
		return refuse("echo", "is not supported with logprobs")
	case r.Suffix != "":
		return refuse("suffix", "is not supported")
	case r.BestOf != nil && *r.BestOf != r.choices():
		return refuse("best_of", "must be n, which is all that is supported")
	case r.LogProbs != nil && (*r.LogProbs < 0 || *r.LogProbs > 5):
		return refuse("logprobs", "must be from 0 to 5")
	}
	return nil
}

const (
	maxPrompts = 64   // of a request, and texts that continue each of them
	maxInputs  = 2048 // of a request for embeddings, as in the API
	maxTools   = 128
)

// prompts returns the tokens of each prompt of the parameter called name: a text, a list of texts, a list of ids, or a
// list of these. There may be so many as most.
func prompts(value json.RawMessage, t *text.Tokenizer, name string, most int) (out [][]int, err error) {
	var many []string
	var lists [][]float64
	if one, ok := decode[string](value); ok {
		many = []string{one}
	} else if all, ok := decode[[]string](value); ok {
		many = all
	} else if ids, ok := decode[[]float64](value); ok {
		lists = [][]float64{ids}
	} else if all, ok := decode[[][]float64](value); ok {
		lists = all
	}
	if len(many)+len(lists) == 0 || len(lists) > 0 && len(lists[0]) == 0 {
		return nil, refuse(name, "is neither a text nor a list of texts, of ids, or of lists of ids")
	}
	if len(many) > most || len(lists) > most {
		return nil, refuse(name, fmt.Sprintf("has more than %d", most))
	}
	for _, s := range many {
		p, err := t.Encode(s, true)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	for _, list := range lists {
		var p []int
		for _, id := range list {
			if id != math.Trunc(id) || math.Abs(id) > 1<<40 {
				return nil, refuse(name, fmt.Sprintf("%v is not an id", id))
			}
			p = append(p, int(id))
		}
		out = append(out, p)
	}
	return out, nil
}

// decode returns a JSON value that has the type T and is not null.
func decode[T any](b []byte) (v T, ok bool) {
	var p *T
	if json.Unmarshal(b, &p) != nil || p == nil {
		return v, false
	}
	return *p, true
}
