package openai

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/internal/rlxtest"
)

func schemaFormat(schema string) request {
	return request{"type": "json_schema", "json_schema": request{"name": "x", "strict": true,
		"schema": json.RawMessage(schema)}}
}

// TestGrammar: answers fit what a request asks for, alone and beside others, streamed or not, and say if they were cut
// off.
func TestGrammar(t *testing.T) { bothWays(t, testGrammar) }

func testGrammar(t *testing.T, model string) {
	f := serve(t, model, Limits{}, api.Options{})
	const person = `{"type": "object", "properties": {"name": {"enum": ["Romeo", "Juliet"]},
		"age": {"type": "integer", "minimum": 1, "maximum": 99}}, "required": ["name", "age"]}`
	whole := regexp.MustCompile(`^\{\s*"name": ?"(Romeo|Juliet)",\s*"age": ?[1-9][0-9]?\s*\}$`)
	ask := hello.with(request{"max_tokens": 120, "temperature": 1, "response_format": schemaFormat(person)})
	var all sync.WaitGroup
	texts := make([]string, 4)
	for i := range texts {
		all.Go(func() {
			path, field := "/v1/chat/completions", []any{"choices", 0, "message", "content"}
			r := ask.with(request{"seed": i})
			if i == 2 {
				path, field = "/v1/completions", []any{"choices", 0, "text"}
				r = request{"prompt": "ROMEO:", "max_tokens": 120, "json_schema": json.RawMessage(person)}
			}
			status, got := f.post(t, path, r)
			texts[i], _ = at(got, field...).(string)
			if status != 200 || at(got, "choices", 0, "finish_reason") != "stop" {
				t.Error(status, got)
			}
		})
	}
	all.Wait()
	for i, s := range texts {
		if !whole.MatchString(s) {
			t.Errorf("answer %d is %q", i, s)
		}
	}
	streamed := ""
	for _, e := range f.stream(t, "/v1/chat/completions", ask.with(request{"stream": true})) {
		part, _ := at(e, "choices", 0, "delta", "content").(string)
		streamed += part
	}
	if !whole.MatchString(streamed) {
		t.Errorf("streamed %q", streamed)
	}
	_, got := f.post(t, "/v1/chat/completions", ask.with(request{"max_tokens": 3}))
	if at(got, "choices", 0, "finish_reason") != "length" {
		t.Errorf("cut off: %v", got)
	}
	_, got = f.post(t, "/v1/chat/completions", hello.with(request{"grammar": `root ::= "yes" | "no"`, "n": 3}))
	for i := range 3 {
		if s, _ := at(got, "choices", i, "message", "content").(string); s != "yes" && s != "no" {
			t.Errorf("choice %d is %q", i, s)
		}
	}
	_, got = f.post(t, "/v1/chat/completions", hello.with(request{"max_tokens": 200, "seed": 1,
		"response_format": request{"type": "json_object"}}))
	s, _ := at(got, "choices", 0, "message", "content").(string)
	if at(got, "choices", 0, "finish_reason") == "stop" && !json.Valid([]byte(s)) || !strings.HasPrefix(s, "{") {
		t.Errorf("an object: %q", s)
	}
}

// TestToolRequired: an answer that must be a call is one, of the tool and with arguments that fit.
func TestToolRequired(t *testing.T) {
	path := toolModel()
	f := serve(t, path, Limits{}, api.Options{})
	tool := func(name, city string) request {
		return request{"type": "function", "function": request{"name": name, "parameters": request{"type": "object",
			"properties": request{city: request{"enum": []string{"Bern", "Oslo"}}}, "required": []string{city}}}}
	}
	ask := hello.with(request{"tools": []any{tool("weather", "city"), tool("time", "zone")}, "max_tokens": 170,
		"temperature": 1})
	for i := range 4 {
		r, names := ask.with(request{"tool_choice": "required", "seed": i}), []string{"weather", "time"}
		if i == 3 {
			r = ask.with(request{"tool_choice": request{"type": "function", "function": request{"name": "time"}}})
			names = names[1:]
		}
		status, got := f.post(t, "/v1/chat/completions", r)
		call := at(got, "choices", 0, "message", "tool_calls", 0, "function")
		name, _ := at(call, "name").(string)
		arguments, _ := at(call, "arguments").(string)
		var values map[string]string
		err := json.Unmarshal([]byte(arguments), &values)
		key := map[string]string{"weather": "city", "time": "zone"}[name]
		if status != 200 || !slices.Contains(names, name) || err != nil ||
			!slices.Contains([]string{"Bern", "Oslo"}, values[key]) ||
			at(got, "choices", 0, "finish_reason") != "tool_calls" {
			t.Errorf("request %d: %d %v", i, status, got)
		}
	}
	for _, r := range []request{
		{"tool_choice": request{"type": "function", "function": request{"name": "other"}}},
		{"response_format": request{"type": "json_object"}},
	} {
		if status, got := f.post(t, "/v1/chat/completions", ask.with(r)); status != 400 {
			t.Errorf("%v: %d %v", r, status, got)
		}
	}
}

// toolModel returns chatModel with a template that takes tools.
func toolModel() string {
	chatModel()
	dir := rlxtest.Scratch("tools")
	if err := os.CopyFS(dir, os.DirFS(rlxtest.Scratch("chat"))); err != nil {
		panic(err)
	}
	file := filepath.Join(dir, "tokenizer_config.json")
	b, err := os.ReadFile(file)
	var config map[string]any
	if err == nil {
		err = json.Unmarshal(b, &config)
	}
	if err == nil {
		config["chat_template"] = "{% for t in tools %}<tool_call>{{ t.function.name }}\n{% endfor %}" +
			fmt.Sprint(config["chat_template"])
		b, err = json.Marshal(config)
	}
	if err == nil {
		err = os.WriteFile(file, b, 0o644)
	}
	if err != nil {
		panic(err)
	}
	out := rlxtest.Scratch("tools.rlx")
	rlxtest.Compile(out, dir, "--target", "cpu", "--context", "256")
	return out
}
