package main

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/spec"
)

// TestOpPages checks that every op and block has a page in spec/ops.md, that begins with its definition's text.
func TestOpPages(t *testing.T) {
	for _, def := range ir.Defs() {
		page, ok := spec.Op(def.Name)
		if !ok || !strings.HasPrefix(page, strings.TrimSpace(def.Doc)) || strings.Contains(page, "###") {
			t.Errorf("%s: page %q", def.Name, page)
		}
	}
	if page, ok := spec.Op("frobnicate"); ok {
		t.Errorf("a page of no op: %q", page)
	}
}
