// Package jinja renders templates of the language Jinja, as the library Transformers configures it for chat templates:
// with trim_blocks and lstrip_blocks, the blocks break, continue and generation, and a tojson that escapes no
// characters for HTML. It has the blocks if, for, set, macro and filter, most expressions, and the filters, tests and
// methods that such templates use. It has no blocks that read other templates, and no way to change a value but set.
//
// A template may come from anybody. What it nests is limited, and Render fails if it takes more steps or memory than
// the caller allows.
//
// Errors are plain: they give the line of the template, what was found, and what is allowed. The package imports
// nothing of this module.
package jinja

import (
	"fmt"
	"maps"
	"slices"
)

// What templates may nest.
const (
	MaxDepth = 64 // blocks, expressions, and values that are printed, compared or passed as variables
	MaxCalls = 32 // calls of macros
)

// Limits bounds the steps and the memory of one rendering.
type Limits struct {
	Steps int // evaluations of statements and expressions, and turns of loops
	Bytes int // of values and output; values that are no longer used count, too
}

// A Dict is a mapping with its keys in order. Of a key that occurs twice, the last value counts.
type Dict []Item

// An Item is a key of a Dict and its value, one of the types of variables.
type Item struct {
	Key   string
	Value any
}

// A Function is a variable that templates can call.
type Function struct {
	Params []string // the names of its parameters, for arguments by name

	// Call gets a value for each parameter: nil, a bool, an int, a float64 or a string; for any other value, the text
	// that {{ v }} prints. An argument that is undefined or not given is nil. An error of Call is one of Render.
	Call func(args []any) (string, error)
}

// Template is a parsed template. It is safe for concurrent use.
type Template struct{ body []stmt }

// Parse parses a template. An error begins with the line, such as "line 2: found ...".
func Parse(source string) (*Template, error) {
	body, err := parse(source)
	if err != nil {
		return nil, err
	}
	return &Template{body}, nil
}

// Render returns the output of the template. A variable is nil, a bool, int, float64, string, []any, map[string]any,
// Dict or Function; keys of a map are sorted. An error begins with the line of the template or names a variable of
// another type.
func (t *Template) Render(variables map[string]any, limits Limits) (string, error) {
	r := &run{steps: limits.Steps, bytes: limits.Bytes}
	top := newFrame(nil)
	for name, f := range globals {
		top.vars[name] = f
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		v, err := fromGo(variables[name], 0)
		if err != nil {
			return "", fmt.Errorf("variable %s: %w", name, err)
		}
		top.vars[name] = v
	}
	if _, err := r.block(t.body, newFrame(top)); err != nil {
		return "", err
	}
	return string(r.out), nil
}
