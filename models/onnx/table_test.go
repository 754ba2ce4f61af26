package onnx

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/golden"
)

// TestTable writes the list of ops to docs/onnx-ops.md, or compares it.
func TestTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("# ONNX ops\n\nThe ops that `rlxc` converts, with the opset from which on, and what is limited. Generated from the registrations by `make generate`.\n" +
		"Versions that differ are handled inside of a conversion.\n\n| op | from opset | limited |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(conversions)) {
		list := conversions[name]
		fmt.Fprintf(&b, "| %s | %d | %s |\n", strings.TrimPrefix(name, "."), list[0].since, list[len(list)-1].note)
	}
	b.WriteString("\nKnown and not supported:\n\n| op | why |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, refused[name])
	}
	golden.Text(t, "../../docs/onnx-ops.md", b.String())
}
