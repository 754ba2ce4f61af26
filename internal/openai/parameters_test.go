package openai

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/text"
)

// TestChoices: several texts of a prompt differ by their seeds and are those of single requests; a stream has them all.
func TestChoices(t *testing.T) { bothWays(t, testChoices) }

func testChoices(t *testing.T, model string) {
	f := serve(t, model, Limits{Parallel: 3, PerClient: 2}, api.Options{})
	ask := request{"prompt": []string{"ROMEO:", "JULIET:"}, "max_tokens": 8, "temperature": 1, "seed": 5, "n": 2,
		"echo": true}
	status, got := f.post(t, "/v1/completions", ask)
	if status != 200 {
		t.Fatal(status, got)
	}
	var texts []string
	for i, prompt := range []string{"ROMEO:", "ROMEO:", "JULIET:", "JULIET:"} {
		whole, _ := at(got, "choices", i, "text").(string)
		if at(got, "choices", i, "index") != float64(i) || !strings.HasPrefix(whole, prompt) {
			t.Errorf("choice %d: %v", i, at(got, "choices", i))
		}
		_, one := f.post(t, "/v1/completions", ask.with(request{"prompt": prompt, "n": 1, "seed": 5 + i%2}))
		if at(one, "choices", 0, "text") != whole && model == chatModel() { // see docs/serving.md: the same text again
			t.Errorf("choice %d is %q; alone %q", i, whole, at(one, "choices", 0, "text"))
		}
		texts = append(texts, whole)
	}
	prompts := 0.0 // each counts once
	for _, prompt := range []string{"ROMEO:", "JULIET:"} {
		_, one := f.post(t, "/v1/completions", ask.with(request{"prompt": prompt, "n": 1, "best_of": 1}))
		prompts += at(one, "usage", "prompt_tokens").(float64)
	}
	if texts[0] == texts[1] || at(got, "usage", "completion_tokens") != 32.0 ||
		at(got, "usage", "prompt_tokens") != prompts || at(got, "usage", "total_tokens") != prompts+32 {
		t.Errorf("%q, %v; the prompts have %v tokens", texts, at(got, "usage"), prompts)
	}
	streamed := make([]string, 4)
	for _, e := range f.stream(t, "/v1/completions", ask.with(request{"temperature": 0, "stream": true})) {
		i, ok := at(e, "choices", 0, "index").(float64)
		part, _ := at(e, "choices", 0, "text").(string)
		if ok {
			streamed[int(i)] += part
		}
	}
	if streamed[0] != streamed[1] || !strings.HasPrefix(streamed[2], "JULIET:") || len(streamed[0]) < 8 {
		t.Errorf("streamed %q", streamed)
	}
}

// TestLogits: biases and penalties change what is chosen; the most probable tokens are listed in order.
func TestLogits(t *testing.T) { bothWays(t, testLogits) }

func testLogits(t *testing.T, model string) {
	f := serve(t, model, Limits{Parallel: 3}, api.Options{})
	ask := hello.with(request{"max_tokens": 6, "temperature": 0, "logprobs": true, "top_logprobs": 3})
	_, got := f.post(t, "/v1/chat/completions", ask)
	for i := range 6 {
		token := at(got, "choices", 0, "logprobs", "content", i)
		first, second := at(token, "top_logprobs", 0, "logprob"), at(token, "top_logprobs", 1, "logprob")
		if p, ok := at(token, "logprob").(float64); !ok || first == nil || second == nil ||
			math.Abs(p-first.(float64)) > 1e-4 || first.(float64) < second.(float64) ||
			at(token, "top_logprobs", 3) != nil {
			t.Errorf("token %d: %v", i, token)
		}
	}
	plain := at(got, "choices", 0, "message", "content")
	for name, more := range map[string]request{
		"bias":      {"logit_bias": request{"40": 100}},
		"frequency": {"frequency_penalty": 2, "logit_bias": request{"40": 20}},
	} {
		_, got := f.post(t, "/v1/chat/completions", ask.with(more))
		text, _ := at(got, "choices", 0, "message", "content").(string)
		if text == plain || text == "" {
			t.Errorf("%s: %q; without %q", name, text, plain)
		}
		if same := strings.Repeat(text[:1], len(text)) == text; name == "bias" && !same {
			t.Errorf("one token 40 after the other gives %q", text)
		}
	}
	drawn := hello.with(request{"max_tokens": 6, "temperature": 0.8, "top_p": 0.9, "seed": 3})
	_, a := f.post(t, "/v1/chat/completions", drawn)
	_, b := f.post(t, "/v1/chat/completions", drawn.with(request{"logit_bias": request{"3": 1e-30}}))
	if x, y := at(a, "choices", 0, "message", "content"), at(b, "choices", 0, "message", "content"); x != y || x == "" {
		t.Errorf("drawn by the backend %q, by the host %q", x, y)
	}
}

// TestOffsets: text_offset counts characters, not bytes.
func TestOffsets(t *testing.T) {
	j := &job{logProbs: true}
	got := j.logProbsOf([]text.Token{{Text: "né"}, {Text: ""}, {Text: "日本"}, {Text: "a"}}, 3).Offsets
	if want := []int{3, 5, 5, 7}; !slices.Equal(got, want) {
		t.Errorf("offsets %v; want %v", got, want)
	}
}

// TestEmbeddings: vectors have length 1, in both formats, for one input or several.
func TestEmbeddings(t *testing.T) { bothWays(t, testEmbeddings) }

func testEmbeddings(t *testing.T, model string) {
	f := serve(t, model, Limits{}, api.Options{})
	of := func(r request) (out [][]float64) {
		status, got := f.post(t, "/v1/embeddings", r)
		if status != 200 {
			t.Fatal(status, got)
		}
		for i := 0; at(got, "data", i) != nil; i++ {
			var v []float64
			switch x := at(got, "data", i, "embedding").(type) {
			case string:
				b, err := base64.StdEncoding.DecodeString(x)
				if err != nil {
					t.Fatal(err)
				}
				for k := 0; k < len(b); k += 4 {
					v = append(v, float64(math.Float32frombits(binary.LittleEndian.Uint32(b[k:]))))
				}
			case []any:
				for _, y := range x {
					v = append(v, float64(float32(y.(float64))))
				}
			}
			square := 0.0
			for _, y := range v {
				square += y * y
			}
			if len(v) != 256 || math.Abs(square-1) > 1e-5 {
				t.Errorf("%v: %d numbers of length %v", r, len(v), math.Sqrt(square))
			}
			out = append(out, v)
		}
		return out
	}
	several := of(request{"input": []string{"ROMEO:", "The king", "ROMEO:"}, "model": "any"})
	coded := of(request{"input": "ROMEO:", "encoding_format": "base64", "dimensions": 256})
	last := of(request{"input": "ROMEO:", "pooling": "last"})
	if len(several) != 3 || !slices.Equal(several[0], several[2]) || slices.Equal(several[0], several[1]) ||
		!slices.Equal(coded[0], several[0]) || slices.Equal(last[0], several[0]) {
		t.Error("vectors of equal texts differ, or those of others are equal")
	}
	if many := of(request{"input": slices.Repeat([]string{"a"}, 65)}); len(many) != 65 { // more than prompts
		t.Errorf("%d vectors for 65 texts", len(many))
	}
}

// TestTools: tools and their answers reach the template, and calls are found in a text.
func TestTools(t *testing.T) {
	f := serve(t, chatModel(), Limits{}, api.Options{})
	tool := request{"type": "function", "function": request{"name": "weather"}}
	status, got := f.post(t, "/v1/chat/completions", hello.with(request{"tools": []any{tool}}))
	if status != 400 || at(got, "error", "param") != "tools" {
		t.Errorf("a template without tools: %d %v", status, got)
	}
	unused := hello.with(request{"tools": []any{tool}, "tool_choice": "none"})
	if status, got = f.post(t, "/v1/chat/completions", unused); status != 200 {
		t.Errorf("tool_choice none: %d %v", status, got)
	}
	for _, c := range []struct{ text, calls, rest string }{
		{"Hello", "", "Hello"}, {"{\"a\":1}", "", "{\"a\":1}"}, {"", "", ""},
		{`Let me see. <tool_call>
{"name": "weather", "arguments": {"city": "Bern"}}
</tool_call><tool_call>{"name":"time","arguments":"{}"}</tool_call>`, `weather{"city": "Bern"} time{}`, "Let me see."},
		{`<tool_call>{"name": "weather", "arg`, "", `<tool_call>{"name": "weather", "arg`},
		{`[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Bern"}}]`, `weather{"city": "Bern"}`, ""},
		{`{"name": "weather", "parameters": {"city": "Bern"}}`, `weather{"city": "Bern"}`, ""},
		{`{"name": "weather"}`, "", `{"name": "weather"}`},
	} {
		calls, rest := toolCalls(c.text, false)
		var names []string
		for _, x := range calls {
			names = append(names, fmt.Sprint(x.Function.Name, x.Function.Arguments))
		}
		first, _ := toolCalls(c.text, true) // with parallel_tool_calls false
		if len(first) != min(len(calls), 1) || len(first) > 0 && first[0].Function != calls[0].Function {
			t.Errorf("%q: the only call is %v of %v", c.text, first, calls)
		}
		if strings.Join(names, " ") != c.calls || rest != c.rest {
			t.Errorf("%q: calls %q and %q; want %q and %q", c.text, names, rest, c.calls, c.rest)
		}
	}
}

func FuzzToolCalls(f *testing.F) {
	f.Add(`<tool_call>{"name":"a","arguments":{}}</tool_call>`)
	f.Add(`[TOOL_CALLS][{"name":"a","arguments":{}}]`)
	f.Fuzz(func(t *testing.T, text string) {
		if calls, rest := toolCalls(text, false); calls == nil && rest != text {
			t.Errorf("%q without calls becomes %q", text, rest)
		}
	})
}
