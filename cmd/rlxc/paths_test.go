//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlx-go/rlx/internal/clitest"
)

// TestPaths gives files that never end to each path of the command line.
func TestPaths(t *testing.T) {
	dir, _ := testModel(t)
	graph := "graph f\nx = input : f32[2]\np = param : f32[2]\ny = add x, p : f32[2]\nreturn y=y\n"
	if err := os.WriteFile(filepath.Join(dir, "g.txt"), []byte(graph), 0o600); err != nil {
		t.Fatal(err)
	}
	// read beside a checkpoint or in a folder
	for _, kind := range []string{"model.safetensors", "model.safetensors.index.json", "config.json"} {
		sub := filepath.Join(dir, "in-"+kind)
		err := os.Mkdir(sub, 0o700)
		if kind == "config.json" {
			err = errors.Join(
				err, os.Link(filepath.Join(dir, "tiny.safetensors"), filepath.Join(sub, "model.safetensors")))
		}
		if err := errors.Join(err, os.Symlink("/dev/zero", filepath.Join(sub, kind))); err != nil {
			t.Fatal(err)
		}
	}
	clitest.CheckPaths(t, commandLine(), dir, []clitest.Path{
		{Flag: "compile CHECKPOINT", Args: "compile PATH -o x.rlx"},
		{Flag: "compile GRAPH", Args: "compile PATH.txt -o x.rlx"},
		{Flag: "compile FOLDER", Args: "compile in-model.safetensors -o x.rlx"},
		{Flag: "compile INDEX", Args: "compile in-model.safetensors.index.json -o x.rlx"},
		{Flag: "compile CONFIG", Args: "compile in-config.json -o x.rlx"},
		{Flag: "compile --output", Args: "compile g.txt -o PATH", Output: true},
		{Flag: "compile --model-config", Args: "compile tiny.safetensors -o x.rlx --model-config PATH"},
		{Flag: "compile --weights", Args: "compile g.txt -o x.rlx --weights PATH"},
		{Flag: "compile --target", Args: "compile g.txt -o x.rlx --target PATH.target"},
		{Flag: "compile --fallback", Args: "compile g.txt -o x.rlx --target cpu --fallback PATH.target"},
		{Flag: "compile --op", Args: "compile g.txt -o x.rlx --op PATH"},
		{Flag: "compile --dump", Args: "compile g.txt -o x.rlx --dump in=PATH", Output: true},
		{Flag: "compile --report", Args: "compile g.txt -o x.rlx --report PATH", Output: true},
		{Flag: "check FILE", Args: "check PATH"},
		{Flag: "inspect FILE", Args: "inspect PATH"},
		{Flag: "plan FILE", Args: "plan PATH"},
		{Flag: "push FILE", Args: "push PATH localhost:1/me/x:v1"},
		{Flag: "pull --output", Args: "pull localhost:1/me/x:v1 -o PATH", Output: true},
	})
}
