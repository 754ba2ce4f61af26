package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// An entry is a routine that a package looks up by the name of its function. The tables are generated, so no list
// of functions has to be kept by hand.
type entry struct {
	kind     string // kind of table, a key of elements
	set      string // instruction set
	function string // the op's name
	value    string // value of the entry, in Go
}

// elements holds the types of entries by the kind of table.
var elements = map[string]string{
	"unary":      "unaryRoutine",
	"binary":     "func(dst, a, b *float32, blocks int)",
	"compare":    "func(dst *uint8, a, b *float32, blocks int)",
	"test":       "func(dst *uint8, src *float32, blocks int)",
	"bits":       "func(dst, a, b *uint8, blocks int)",
	"foldRow":    "func(x *float32, n int) float64",
	"foldEach":   "func(dst, x *float32, n, ld, rows int)",
	"foldPixels": "func(dst, x *float32, n, wide, high, down, step, pixels int)",
	"foldRows":   "func(acc, x *float32, n, ld, rows int)",
	"cast":       "func(dst, src *uint8, blocks int)",
	"half":       "func(dst, a, b *uint16, blocks int)",
	"integer":    "func(dst, a, b *uint8, blocks int) (zeros int)",

	"binaryRest":   "func(dst, a, b *float32, n int)",
	"halfMixed":    "func(dst, a *uint16, b *float32, blocks int)",
	"schemeDot":    "func(dst *float32, w *byte, ld, rows int, x, scale, zero *float32, vectors int)",
	"schemeDecode": "func(dst *float32, ldd int, w *byte, ld, rows int, scale, zero *float32, vectors int)",
}

// tables returns the Go declarations of entries, a map for each kind and instruction set.
func tables(entries []entry) string {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.set, b.set),
			strings.Compare(a.function, b.function))
	})
	var w strings.Builder
	for i, e := range entries {
		if i == 0 || e.kind != entries[i-1].kind || e.set != entries[i-1].set {
			fmt.Fprintf(&w, "\nvar %s%s = map[string]%s{\n", e.kind, e.set, elements[e.kind])
		}
		fmt.Fprintf(&w, "\t%q: %s,\n", e.function, e.value)
		if i == len(entries)-1 || e.kind != entries[i+1].kind || e.set != entries[i+1].set {
			w.WriteString("}\n")
		}
	}
	return w.String()
}

// symbol returns the name of a function's routine without the suffix of its instruction set: geluTanh for gelu_tanh.
func symbol(function string) string {
	parts := strings.Split(function, "_")
	for i, p := range parts[1:] {
		parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "")
}
