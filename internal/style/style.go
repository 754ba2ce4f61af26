// Package style checks rules that no compiler checks: the lengths of lines, functions and commit subjects, that no name
// hides another, and that generated files are marked. It has only tests; `make check-source` runs them.
package style

import (
	"bytes"
	"os/exec"
	"path"
	"regexp"
	"strings"
)

// tracked returns the files that git has or would take, relative to the repository's root.
func tracked(root string) ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

var (
	sayGenerated = regexp.MustCompile(`(?m)^\W*(Code generated .*|.*@generated.*|.*; do not edit\b.*)$`)
	// written lists generated files whose formats have no room for such a line.
	written = []string{"core/target/*.target", "core/op/testdata/vectors/*.json"}
)

// generated reports whether a program wrote the file: its first lines say so, or written lists it.
func generated(name string, text []byte) bool {
	for _, pattern := range written {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	var head []byte
	for i, line := range bytes.SplitAfterN(text, []byte("\n"), 9) {
		if i < 8 {
			head = append(head, line...)
		}
	}
	return sayGenerated.Match(head)
}
