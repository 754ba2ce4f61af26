package pass

import (
	"slices"
	"strings"
	"testing"
)

// TestOrder checks that checkOrder detects a pass that was moved before one that it relies on.
func TestOrder(t *testing.T) {
	broken := slices.Clone(passes)
	i := slices.IndexFunc(broken, func(p Pass) bool { return p.Name == "fuse-matmul" })
	broken[0], broken[i] = broken[i], broken[0]
	if err := checkOrder(broken); err == nil || !strings.Contains(err.Error(), "must run before") {
		t.Errorf("got %v", err)
	}
}
