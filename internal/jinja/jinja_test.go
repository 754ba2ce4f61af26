package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// limits are the limits for chat templates, the package's use.
var limits = Limits{Steps: 5e6, Bytes: 64 << 20}

// TestTemplates compares output with the output of the Python library, in a file that bench/chat/compare.py wrote.
func TestTemplates(t *testing.T) {
	b, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var files []struct {
		File, Template string
		Cases          []struct {
			Messages []any
			Want     *string
			Error    string
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
			got, err := tmpl.Render(map[string]any{"messages": c.Messages}, limits)
			switch {
			case c.Want == nil && err == nil:
				t.Errorf("%s: case %d gives %q; want an error like %s", f.File, i, got, c.Error)
			case c.Want == nil: // as it should
			case err != nil:
				t.Errorf("%s: case %d: %v; want %q", f.File, i, err, *c.Want)
			case got != *c.Want:
				t.Errorf("%s: case %d: %s", f.File, i, cmp.Diff(strings.Split(*c.Want, "\n"), strings.Split(got, "\n")))
			}
		}
	}
}

func TestErrors(t *testing.T) {
	deep := strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100)
	for _, c := range []struct{ source, want string }{
		{"{{ 1", "line 1: {{ has no }}"},
		{"a\n{% if x %}", "line 2: found the end of the template; want elif or else or endif"},
		{"{% endif %}", "endif has no beginning"},
		{"{% include 'x' %}", `block "include" is not supported`},
		{"{{ x|novel }}", `filter "novel" is not supported`},
		{"{{ x is novel }}", `test "novel" is not supported`},
		{"{% for x in y recursive %}{% endfor %}", "recursive"},
		{"{% break %}", "belong into a for block"},
		{"{{ 1 + }}", `found "}}"; want an expression`},
		{"{{ 'x }}", "a string has no end"},
		{"{# x", "a comment has no end"},
		{"{{ " + deep + " }}", "nests deeper than 64 levels"},
		{strings.Repeat("{% if 1 %}", 100), "nests deeper than 64 levels"},
		{"{{ 1" + strings.Repeat("+1", 1000) + " }}", "too many operators"},
		{"{{ x.y.z }}", `line 1: "x" is undefined and has no attribute "y"`},
		{"\n{{ 'a' + 1 }}", "line 2: + cannot be applied to a string and an integer"},
		{"{{ 1 // 0 }}", "division by zero"},
		{"{{ 2 ** 64 }}", "more than 64 bits"},
		{"{{ novel() }}", `"novel" is undefined and cannot be called`},
		{"{{ 'x'.novel() }}", `"novel" is undefined and cannot be called`},
		{"{{ messages.append(1) }}", `"append" is undefined and cannot be called`},
		{"{% for i in range(1000000) %}{% endfor %}", "more than 100000 numbers"},

		// Hostile templates.
		{"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "it takes too"},
		{"{% set ns = namespace(x='aaaa') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
			"too much memory"},
		{"{{ 'aaaa' * 10000000000 }}", "too much memory"},
		{"{{ ('a' * 10000000).replace('', 'b' * 1000) }}", "too much memory"},
		{"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deeper than 32 levels"},
		{"{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') }}", "too"},
		{"{% set ns = namespace(x=[]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
			"nested too deep"},
		{"{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}",
			"too much memory"},
		{"{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == ns.x }}",
			"too many steps"},
		{"{% set ns = namespace(x=[1]) %}{% set ns.x = [ns, ns] %}{{ ns.x }}", "cannot be printed"},
		{"{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ x.count('b') }}{% endfor %}", "too much memory"},
	} {
		tmpl, err := Parse(c.source)
		if err == nil {
			messages := []any{Dict{{"role", "user"}, {"content", "Hello"}}}
			_, err = tmpl.Render(map[string]any{"messages": messages}, limits)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: %v; want %s", c.source, err, c.want)
		}
	}
}

func TestVariables(t *testing.T) {
	var got []any
	vars := map[string]any{
		"ordered": Dict{{"b", 1}, {"a", 2}, {"b", []any{nil, true}}},
		"sorted":  map[string]any{"b": 0.5, "a": "x"},
		"tell": Function{Params: []string{"first", "second"}, Call: func(args []any) (string, error) {
			got = append(got, args...)
			if args[0] == "fail" {
				return "", errors.New("as asked")
			}
			return "told", nil
		}},
	}
	for source, want := range map[string]string{
		"{{ ordered }} {{ sorted }}": "{'b': [None, True], 'a': 2} {'a': 'x', 'b': 0.5}",
		"{{ tell(1, second='x') }} {{ tell(second=[1.0, none]) }} {{ tell(nope, 'y') | upper }}": "told told TOLD",
		"{{ tell is callable }}":                          "True",
		"{{ -1 - (-9223372036854775807 - 1) }}":           "9223372036854775807",
		"{{ (-1) ** 65 }} {{ (-2) ** 63 }} {{ 0 ** 70 }}": "-1 -9223372036854775808 0",
		"\n{{ tell('fail') }}":                            "line 2: as asked",
		"{{ tell(1, 2, 3) }}":                             "line 1: takes 2 arguments; found 3",
		"{{ tell(third=1) }}":                             `line 1: has no argument "third"`,
		"{{ tell(tell) }}":                                "line 1: a function cannot be printed",
		"{{ tell('a' * 7) ~ '' }}":                        "told",
	} {
		tmpl, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		out, err := tmpl.Render(vars, limits)
		if err != nil {
			out = err.Error()
		}
		if out != want {
			t.Errorf("%s: %q; want %q", source, out, want)
		}
	}
	tmpl, err := Parse("{{ tell(1, second='x') }}{{ tell(second=[1.0, none]) }}{{ tell(nope, true) }}")
	if err != nil {
		t.Fatal(err)
	}
	got = nil
	if _, err := tmpl.Render(vars, limits); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{1, "x", nil, "[1.0, None]", nil, true}, got); diff != "" {
		t.Error(diff)
	}
	_, err = tmpl.Render(map[string]any{"bad": map[string]any{"x": []int{1}}}, limits)
	if want := "variable bad: is a []int, which templates cannot take"; err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
	for want, limits := range map[string]Limits{
		"too many steps":  {Steps: 5, Bytes: 1 << 20},
		"too much memory": {Steps: 100, Bytes: 20},
	} {
		if _, err := tmpl.Render(vars, limits); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %s", limits, err, want)
		}
	}
}

// FuzzTemplate looks for a template that makes Parse or Render panic, or take unbounded time or memory.
func FuzzTemplate(f *testing.F) {
	for _, name := range []string{"syntax", "expressions", "undefined"} {
		b, err := os.ReadFile("testdata/" + name + ".jinja")
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			f.Add(line)
		}
		f.Add(string(b))
	}
	f.Add("{{ tell(1, second=[2]) }}")
	vars := map[string]any{
		"messages": []any{Dict{{"role", "system"}, {"content", ""}}, Dict{{"role", "user"}, {"content", "Hello"}}},
		"tell": Function{Params: []string{"first", "second"}, Call: func(args []any) (string, error) {
			s, _ := args[0].(string)
			return s, nil
		}},
	}
	f.Fuzz(func(_ *testing.T, source string) {
		if tmpl, err := Parse(source); err == nil {
			_, _ = tmpl.Render(vars, limits)
		}
	})
}
