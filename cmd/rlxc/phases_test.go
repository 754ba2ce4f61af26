//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rlx-go/rlx/internal/clitest"
)

// TestPhases checks that rlxc ends in every phase when it gets a signal.
func TestPhases(t *testing.T) {
	dir, artifact := testModel(t)
	graph := "graph f\nx = input : f32[2]\np = param : f32[2]\ny = add x, p : f32[2]\nreturn y=y\n"
	for name, b := range map[string][]byte{"g.txt": []byte(graph), "sam.rlx": artifact} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	clitest.CheckPhases(t, commandLine(), dir, map[string]string{
		"compile g.txt -o x.rlx":            "parse compile encode verify",
		"compile tiny.safetensors -o y.rlx": "open build compile encode verify",
		"check sam.rlx":                     "open",
		"inspect sam.rlx":                   "open",
		"plan sam.rlx":                      "open",
	})
	if _, err := os.Stat(filepath.Join(dir, "sam.rlx")); err != nil {
		t.Error(err)
	}
}
