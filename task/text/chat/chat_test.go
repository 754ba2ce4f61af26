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
			got, err := tmpl.Render(Input{Messages: c.Messages, AddGenerationPrompt: c.AddGenerationPrompt, BOS: "<s>", EOS: "</s>", Variables: c.Variables, Now: now})
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
	deep := strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100)
	for _, c := range []struct {
		source string
		code   diag.Code
		want   string
	}{
		{"{{ 1", CodeTemplate, "line 1: {{ has no }}"},
		{"a\n{% if x %}", CodeTemplate, "line 2: found the end of the template; want elif or else or endif"},
		{"{% endif %}", CodeTemplate, "endif has no beginning"},
		{"{% include 'x' %}", CodeTemplate, `block "include" is not supported`},
		{"{{ x|novel }}", CodeTemplate, `filter "novel" is not supported`},
		{"{{ x is novel }}", CodeTemplate, `test "novel" is not supported`},
		{"{% for x in y recursive %}{% endfor %}", CodeTemplate, "recursive"},
		{"{% break %}", CodeTemplate, "belong into a for block"},
		{"{{ 1 + }}", CodeTemplate, `found "}}"; want an expression`},
		{"{{ 'x }}", CodeTemplate, "a string has no end"},
		{"{# x", CodeTemplate, "a comment has no end"},
		{"{{ " + deep + " }}", CodeTemplate, "nests deeper than 64 levels"},
		{strings.Repeat("{% if 1 %}", 100), CodeTemplate, "nests deeper than 64 levels"},
		{strings.Repeat("x", MaxSource+1), CodeTemplate, "has 262145 bytes"},
		{"{{ 1" + strings.Repeat("+1", 1000) + " }}", CodeTemplate, "too many operators"},

		{"{{ x.y.z }}", CodeRender, `line 1: "x" is undefined and has no attribute "y"`},
		{"\n{{ 'a' + 1 }}", CodeRender, "line 2: + cannot be applied to a string and an integer"},
		{"{{ 1 // 0 }}", CodeRender, "division by zero"},
		{"{{ 2 ** 64 }}", CodeRender, "more than 64 bits"},
		{"{{ novel() }}", CodeRender, `"novel" is undefined and cannot be called`},
		{"{{ 'x'.novel() }}", CodeRender, `"novel" is undefined and cannot be called`},
		{"{{ messages.append(1) }}", CodeRender, `"append" is undefined and cannot be called`},
		{"{{ raise_exception('no') }}", CodeRender, "the template refuses the conversation: no"},
		{"{{ strftime_now('%Q') }}", CodeRender, "%Q is not supported"},
		{"{% for i in range(1000000) %}{% endfor %}", CodeRender, "more than 100000 numbers"},

		// Hostile templates.
		{"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", CodeRender, "it takes too"},
		{"{% set ns = namespace(x='aaaa') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", CodeRender, "too much memory"},
		{"{{ 'aaaa' * 10000000000 }}", CodeRender, "too much memory"},
		{"{{ ('a' * 10000000).replace('', 'b' * 1000) }}", CodeRender, "too much memory"},
		{"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", CodeRender, "deeper than 32 levels"},
		{"{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') }}", CodeRender, "too"},
		{"{% set ns = namespace(x=[]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}", CodeRender, "nested too deep"},
		{"{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}", CodeRender, "too much memory"},
		{"{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == ns.x }}", CodeRender, "too many steps"},
		{"{% set ns = namespace(x=[1]) %}{% set ns.x = [ns, ns] %}{{ ns.x }}", CodeRender, "cannot be printed"},
		{"{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ x.count('b') }}{% endfor %}", CodeRender, "too much memory"},
	} {
		tmpl, err := Parse(c.source)
		if err == nil {
			_, err = tmpl.Render(Input{Messages: []Message{{"user", "Hello"}}, Now: now})
		}
		if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: %v; want %s with %s", c.source, err, c.code, c.want)
		}
	}
}

// FuzzTemplate looks for a template that makes Parse or Render panic, or take unbounded time or memory.
func FuzzTemplate(f *testing.F) {
	for _, name := range []string{"syntax", "expressions", "refuses"} {
		b, err := os.ReadFile("testdata/" + name + ".jinja")
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			f.Add(line)
		}
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse(source)
		if err == nil {
			_, err = tmpl.Render(Input{Messages: []Message{{"system", ""}, {"user", "Hello"}}, AddGenerationPrompt: true, BOS: "<s>", Now: now})
		}
		if err != nil && !errors.Is(err, CodeTemplate) && !errors.Is(err, CodeRender) {
			t.Fatal(err)
		}
	})
}
