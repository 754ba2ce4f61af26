package style

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Limits of a line. A tab counts 4 columns.
const (
	codeColumns = 120
	textColumns = 160 // of Markdown
	besides     = 40  // columns beside the strings of a line that is too long
)

// TestLines checks that lines of code and comments end by column 120, and that a line of Markdown has 160 columns or is
// one sentence.
//
// A line may be longer if it cannot be broken. Such a line has at most 40 columns apart from its strings and the
// actions of templates, or is a directive, or lies in a string of several lines. Rows of Markdown's tables, its
// headings, HTML and blocks of code, and commands of shells and make may also be longer. Test data and generated files
// are not checked.
func TestLines(t *testing.T) {
	eachFile(t, func(name string, text []byte) {
		if strings.Contains("/"+name, "/testdata/") || strings.HasPrefix(name, "demo/") || generated(name, text) {
			return
		}
		switch ext := path.Ext(name); {
		case ext == ".md":
			for _, l := range longText(string(text)) {
				t.Errorf("%s:%d: more than %d columns and more than one sentence", name, l, textColumns)
			}
		case strings.Contains(" .go .wgsl .metal .cc .h .py .rs .js .sh .toml .yml ", " "+ext+" ") ||
			path.Base(name) == "Makefile" || strings.HasPrefix(name, ".ci/") && ext == "":
			inner := map[int]bool{}
			switch ext {
			case ".go":
				inner = inStrings(text)
			case ".sh", ".toml", ".yml", "": // only comments
				for i, line := range strings.Split(string(text), "\n") {
					inner[i+1] = !strings.HasPrefix(strings.TrimSpace(line), "#")
				}
			}
			for _, l := range longCode(string(text), ext == ".py", inner) {
				t.Errorf("%s:%d: more than %d columns", name, l, codeColumns)
			}
		}
	})
}

func TestLongLines(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for _, c := range []struct {
		name string
		got  []int
		want string
	}{
		{"a comment", longCode("x\n\t// "+long, false, nil), "[2]"},
		{"tabs", longCode("\t\t\t"+strings.Repeat("x ", 54)+"x", false, nil), "[1]"},
		{"code", longCode("f(a, "+strings.Repeat("bbbb, ", 20)+")", false, nil), "[1]"},
		{"a string", longCode(`	return fail("`+long+`", a, b)`, false, nil), "[]"},
		{"a string and much else", longCode(`	return fail("`+long+`", `+strings.Repeat("argument, ", 5)+`)`, false,
			nil), "[1]"},
		{"a word", longCode("// https://example.com/"+strings.Repeat("x", 200), false, nil), "[]"},
		{"a directive", longCode("//go:generate "+long, false, nil), "[]"},
		{"a string of several lines",
			longCode("x := `\n"+long+"\n`", false, inStrings([]byte("package x\nvar x = `\n"+long+"\n`"))), "[]"},
		{"a docstring", longCode("\"\"\"One.\n\n"+long+"\n\"\"\"", true, nil), "[3]"},
		{"a paragraph", longText(long + "end. And " + long), "[1]"},
		{"a sentence", longText(strings.TrimSpace(long) + long + "end."), "[]"},
		{"a table", longText("| " + long + ". " + long), "[]"},
		{"a block of code", longText("```\n" + long + "A. B. " + long + "\n```\n" + long + "End. A" + long), "[4]"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s: lines %s; want %s", c.name, got, c.want)
		}
	}
}

// columns returns the width of a line.
func columns(line string) int {
	n := 0
	for _, r := range line {
		n++
		if r == '\t' {
			n += 3
		}
	}
	return n
}

var (
	literal   = regexp.MustCompile("\"(?:\\\\.|[^\"\\\\])*\"|`[^`]*`|\\{\\{.*?\\}\\}") // and actions of templates
	directive = regexp.MustCompile(`^\s*(//[a-z]+:[a-z]|//export |// \+build|#!|# noqa|# type:)`)
	oneWord   = regexp.MustCompile(`^\s*(//|#|\*)?\s*[-*]?\s*\S+$`)
)

// longCode returns the numbers of the lines that are too long. inner has those (from 1) that may be, because they lie
// in a string of several lines, for example.
func longCode(text string, docstrings bool, inner map[int]bool) (out []int) {
	for i, line := range strings.Split(text, "\n") {
		if columns(line) <= codeColumns || inner[i+1] || directive.MatchString(line) || oneWord.MatchString(line) {
			continue
		}
		rest := strings.Join(strings.Fields(literal.ReplaceAllString(line, `""`)), " ")
		if strings.HasPrefix(rest, "//") || columns(rest) > besides || docstrings && strings.HasPrefix(rest, `""""`) {
			out = append(out, i+1)
		}
	}
	return out
}

// inStrings returns the lines of Go code that a string or a comment of several lines covers.
func inStrings(text []byte) map[int]bool {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	inner := map[int]bool{}
	for {
		pos, kind, lit := s.Scan()
		if kind == token.EOF {
			return inner
		}
		if n := strings.Count(lit, "\n"); n > 0 && kind != token.SEMICOLON {
			for k := range n + 1 {
				inner[file.Line(pos)+k] = true
			}
		}
	}
}

var (
	notProse  = regexp.MustCompile(`^(\s*([|#<>]|!\[|\[[^\]]*\]: )|    |\t)`)
	nextStart = regexp.MustCompile("[.!?][)*_`\"]* +[A-Z\\[`*(]")
)

// longText returns the numbers of the lines of Markdown that are too long.
func longText(text string) (out []int) {
	fence := false
	for i, line := range strings.Split(text, "\n") {
		if t := strings.TrimSpace(line); strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~") {
			fence = !fence
		}
		if !fence && columns(line) > textColumns && !notProse.MatchString(line) && nextStart.MatchString(line) {
			out = append(out, i+1)
		}
	}
	return out
}

// TestNoCarriageReturns checks that lines end as .editorconfig says.
func TestNoCarriageReturns(t *testing.T) {
	eachFile(t, func(name string, text []byte) {
		if !strings.Contains(name, "testdata/") && bytes.IndexByte(text[:min(8000, len(text))], 0) < 0 &&
			bytes.Contains(text, []byte("\r\n")) {
			t.Errorf("%s: lines end with CR LF", name)
		}
	})
}
