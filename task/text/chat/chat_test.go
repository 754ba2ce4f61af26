package chat

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlx-go/rlx/core/diag"
)

// now is the time at which the reference rendered the cases.
var now = time.Date(2024, 7, 3, 9, 5, 0, 0, time.UTC)

// peerCases runs the cases in a file that bench/chat/compare.py wrote.
func peerCases(t *testing.T, path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var files []struct {
		File, Template string
		Cases          []struct {
			Messages            []Message
			AddGenerationPrompt bool `json:"add_generation_prompt"`
			Variables           map[string]any
			Want                *string
			Error               string
		}
	}
	if err := json.Unmarshal(b, &files); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		tmpl, err := Parse(f.Template)
		if err != nil {
			t.Errorf("%s: %v", f.File, err)
			continue
		}
		for i, c := range f.Cases {
			got, err := tmpl.Render(
				Input{Messages: c.Messages, AddGenerationPrompt: c.AddGenerationPrompt, BOS: "<s>", EOS: "</s>",
					Variables: c.Variables, Now: now})
			switch {
			case c.Want == nil && err == nil:
				t.Errorf("%s: case %d gives %q; want an error like %s", f.File, i, got, c.Error)
			case c.Want == nil:
				if !errors.Is(err, CodeRender) {
					t.Errorf("%s: case %d: %v", f.File, i, err)
				}
			case err != nil:
				t.Errorf("%s: case %d: %v; want %q", f.File, i, err, *c.Want)
			case got != *c.Want:
				t.Errorf("%s: case %d: %s", f.File, i, cmp.Diff(strings.Split(*c.Want, "\n"), strings.Split(got, "\n")))
			}
		}
	}
}

// TestTemplates compares prompts with those of Transformers.
func TestTemplates(t *testing.T) { peerCases(t, "testdata/cases.json") }

// TestPeer is like TestTemplates for the templates in the file RLX_CHAT_CASES.
func TestPeer(t *testing.T) {
	path := os.Getenv("RLX_CHAT_CASES")
	if path == "" {
		t.Skip("RLX_CHAT_CASES names no file")
	}
	peerCases(t, path)
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		source string
		code   diag.Code
		want   string
	}{
		{strings.Repeat("x", MaxSource+1), CodeTemplate, "has 262145 bytes"},
		{"\n{{ 1 + }}", CodeTemplate, `chat template: line 2: found "}}"; want an expression`},
		{"\n{{ messages.x.y }}", CodeRender, `chat template: line 2: "x" is undefined and has no attribute "y"`},
		{"{{ raise_exception('no') }}", CodeRender, "the template refuses the conversation: no"},
		{"{{ strftime_now('%Q') }}", CodeRender, "%Q is not supported"},
		{"{{ strftime_now('%') }}", CodeRender, "the format ends with %"},
		{"{{ strftime_now() }}", CodeRender, "strftime_now takes a format"},
		{"{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}", CodeRender, "it takes too"},
		{"{{ 'aaaa' * 10000000000 }}", CodeRender, "too much memory"},
	} {
		tmpl, err := Parse(c.source)
		if err == nil {
			_, err = tmpl.Render(Input{Messages: []Message{{Role: "user", Content: "Hello"}}, Now: now})
		}
		if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: %v; want %s with %s", c.source, err, c.code, c.want)
		}
	}
	tmpl, err := Parse("")
	if err != nil {
		t.Fatal(err)
	}
	_, err = tmpl.Render(Input{Variables: map[string]any{"x": now}})
	if want := "variable x: is a time.Time"; !errors.Is(err, CodeRender) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %s with %s", err, CodeRender, want)
	}
}

// FuzzStrftime looks for a format that makes strftime panic.
func FuzzStrftime(f *testing.F) {
	for _, format := range []string{"%d %b %Y", "%-d%%%-%", "%-", "%", "%é"} {
		f.Add(format)
	}
	f.Fuzz(func(_ *testing.T, format string) { _, _ = strftime(format, now) })
}

// TestTools checks that tools, their calls and their answers reach the template, with the keys of objects in order.
func TestTools(t *testing.T) {
	tmpl, err := Parse("{% for t in tools %}{{ t | tojson }}{% endfor %}{% for m in messages %}|{{ m.role }}:{{ m.content }}" +
		"{% for c in m.tool_calls or [] %}{{ c.function.name }}={{ c.function.arguments | tojson }}{% endfor %}" +
		"{{ m.tool_call_id or '' }}{{ m.name or '' }}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Tools: []byte(`[{"z": 1, "a": [true, null, 1.5]}]`), Messages: []Message{
		{Role: "assistant", Calls: `[{"function": {"name": "f", "arguments": {"y": 1, "b": "x"}}}]`},
		{Role: "tool", Content: "7", CallID: "id", Name: "f"}}}
	got, err := tmpl.Render(in)
	if want := `{"z": 1, "a": [true, null, 1.5]}|assistant:f={"y": 1, "b": "x"}|tool:7idf`; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, bad := range []string{"[", "[] []", `{"a"}`, strings.Repeat("[", 100) + strings.Repeat("]", 100)} {
		in.Tools = []byte(bad)
		if _, err := tmpl.Render(in); err == nil {
			t.Errorf("tools %.20s are taken", bad)
		}
	}
}
