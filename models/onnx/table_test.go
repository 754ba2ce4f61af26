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
	b.WriteString("# ONNX ops\n\nThis table lists the ops that `rlxc` converts, the first opset in which it knows them, and their limits. `make generate` makes it from\n" +
		"the registrations. A conversion handles all versions of its op.\n\n| op | from opset | limits |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(conversions)) {
		list := conversions[name]
		fmt.Fprintf(&b, "| %s | %d | %s |\n", strings.TrimPrefix(name, "."), list[0].since, list[len(list)-1].note)
	}
	b.WriteString("\nThese ops are known, but not supported:\n\n| op | why |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, refused[name])
	}
	golden.Text(t, "../../docs/onnx-ops.md", b.String())
}
