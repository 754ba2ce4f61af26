//go:build linux || darwin

package protocoltest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/plugins/rpc/host"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
)

// TestDefectTable checks that the table in section 7 of spec/protocol.md lists each check with its code, and no other
// checks.
func TestDefectTable(t *testing.T) {
	page, err := os.ReadFile("../../../spec/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "| Call | Defect of the request | Code | Check |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if !ok {
		t.Fatal("spec/protocol.md has no table of defects")
	}
	listed := map[string]string{} // codes, by check
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), " |")
		if len(cells) != 4 || strings.HasPrefix(cells[0], "---") {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(cells[3], -1) {
			listed[m[1]] = strings.TrimSpace(cells[2])
		}
	}
	b := behaviour{opts: host.Options{Encode: rpctest.Encode}, chunks: true, x: &Sample{Program: sample(t).Program}}
	for _, c := range append(b.wrong(), b.defects()...) {
		if code, ok := listed[c.name]; !ok || code != string(c.want) {
			t.Errorf("check %s wants %q; the table in spec/protocol.md says %q", c.name, c.want, code)
		}
		delete(listed, c.name)
	}
	if len(listed) > 0 {
		t.Errorf("the table in spec/protocol.md lists checks that do not exist: %v", listed)
	}
}
