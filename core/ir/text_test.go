package ir_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op"
)

const errorMark = " # ERROR "

// archives returns the files of testdata. Each section of a file is one graph in text form.
func archives(t testing.TB) map[string]string {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	graphs := map[string]string{}
	for _, f := range files {
		a, err := txtar.ParseFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range a.Files {
			graphs[filepath.Base(f)+"/"+s.Name] = string(s.Data)
		}
	}
	return graphs
}

// TestText checks that a graph prints as it was written, or that parsing fails with the line and message that the file
// gives.
func TestText(t *testing.T) {
	for name, text := range archives(t) {
		t.Run(name, func(t *testing.T) {
			want := ""
			lines := strings.Split(text, "\n")
			for i, line := range lines {
				if code, message, ok := strings.Cut(line, errorMark); ok {
					lines[i], want = code, fmt.Sprintf("line %d: %s", i+1, message)
				}
			}
			g, err := ir.Parse(strings.Join(lines, "\n"))
			if want != "" {
				if err == nil || !strings.HasPrefix(err.Error(), want) {
					t.Fatalf("error is\n\t%v\nwant\n\t%s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Verify(); err != nil {
				t.Fatal(err)
			}
			if got := g.String(); got != text {
				t.Errorf("prints as\n%s\nwant\n%s", got, text)
			}
		})
	}
}

// TestParseAll checks parsing several graphs of a file. Errors have the line numbers of the file.
func TestParseAll(t *testing.T) {
	one, two := "# first\n\ngraph one\nx = input : f32[2]\ny = neg x : f32[2]\nreturn y=y\n",
		"graph two\nsym N = 1..4\nx = input : f32[N]\nreturn y=x\n"
	gs, err := ir.ParseAll(one+"\n# second\n"+two, ir.Limits{})
	if err != nil || len(gs) != 2 || gs[0].Name != "one" || gs[1].Name != "two" || len(gs[1].Syms) != 1 {
		t.Fatal(gs, err)
	}
	for text, want := range map[string]string{
		"":                                      "no line \"graph NAME\"",
		"x = input : f32[2]":                    `line 1: "x = input : f32[2]"; want graph NAME`,
		one + one:                               "line 9: there is a graph one already",
		one + "graph two\nx = input : f33[2]\n": "line 8: ",
		one + "graph two\nx = input : f32[2]\n": "line 7: graph two returns nothing",
		one + "x = input : f32[2]":              "line 7: text after return",
	} {
		if _, err := ir.ParseAll(text, ir.Limits{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

// FuzzParse checks that no text makes the parser panic, and that printing a parsed graph and parsing it again gives the
// same graph.
func FuzzParse(f *testing.F) {
	for _, text := range archives(f) {
		f.Add(strings.ReplaceAll(text, errorMark, "\n"))
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if all, err := ir.ParseAll(text, ir.Limits{}); err == nil {
			for _, g := range all {
				if len(g.Outputs) == 0 || g.Name == "" {
					t.Fatalf("graph %q returns %d values", g.Name, len(g.Outputs))
				}
			}
		}
		g, err := ir.Parse(text)
		if err != nil {
			return
		}
		printed := g.String()
		back, err := ir.Parse(printed)
		if err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		if again := back.String(); again != printed {
			t.Fatalf("prints as\n%s\nthen as\n%s", printed, again)
		}
		g.Verify() // must not panic; a graph may lack outputs
	})
}

// TestLimits checks that a text is refused at the line that exceeds a limit.
func TestLimits(t *testing.T) {
	const text = "graph f\na = input : f32[1]\nb = input : f32[1]\nc = add a, b : f32[1]\nreturn x=c, y=a\ngraph g\na = input : f32[1]\nreturn y=a\n"
	for _, c := range []struct {
		limits ir.Limits
		want   string
	}{
		{ir.Limits{Graphs: 1}, "line 6: has more than 1 graphs, the limit"},
		{ir.Limits{Nodes: 2}, "line 4: c: has more than 2 nodes"},
		{ir.Limits{Signature: 1}, "line 3: b: has more than 1 inputs"},
		{ir.Limits{Operands: 1}, "line 4: c: has more than 1 operands"},
		{ir.Limits{AllOperands: 1}, "line 4: c: has more than 1 operands of all nodes"},
		{ir.Limits{Graphs: 2, Nodes: 3, Signature: 2, Operands: 2, AllOperands: 2}, ""},
	} {
		_, err := ir.ParseAll(text, c.limits)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%+v: %v; want %q", c.limits, err, c.want)
		}
	}
	outputs := strings.Replace(text, "b = input", "b = const {value=1}", 1)
	if _, err := ir.ParseAll(outputs, ir.Limits{Signature: 1}); err == nil ||
		!strings.HasPrefix(err.Error(), "line 5: has more than 1 outputs") {
		t.Error(err)
	}
}
