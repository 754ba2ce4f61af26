// Package spec has the parts of the specification that programs print.
package spec

import (
	_ "embed"
	"strings"
)

//go:embed ops.md
var ops string

// Op returns the page of an op or block in ops.md, as Markdown without its heading. ok is false if there is none.
func Op(name string) (page string, ok bool) {
	_, rest, ok := strings.Cut(ops, "\n### "+name+"\n")
	for _, next := range []string{"\n### ", "\n## "} {
		rest, _, _ = strings.Cut(rest, next)
	}
	return strings.TrimSpace(rest), ok
}
