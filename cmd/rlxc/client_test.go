package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/compile"
)

// TestClient checks that the command writes the bytes that package compile writes.
func TestClient(t *testing.T) {
	const demo = "../../demo/sam-nano.safetensors"
	dir := t.TempDir()
	for flags, o := range map[string]compile.Options{
		"": {},
		"--target wgpu,cpu:x86-64-v3 --dtype f16 --batch 2 --precision bf16": {
			Targets: []string{"wgpu", "cpu:x86-64-v3"}, DType: "f16", Batch: 2, Precisions: []string{"bf16"},
		},
	} {
		byCommand, byPackage := dir+"/a.rlx", dir+"/b.rlx"
		var out, errs bytes.Buffer
		p := commandLine()
		args := append([]string{"compile", demo, "-o", byCommand}, strings.Fields(flags)...)
		if status := p.Exec(t.Context(), args, strings.NewReader(""), &out, &errs); status != 0 {
			t.Fatalf("%s: %s", flags, errs.String())
		}
		o.Output = byPackage
		if _, err := compile.Checkpoint(t.Context(), demo, o); err != nil {
			t.Fatal(err)
		}
		a, errA := os.ReadFile(byCommand)
		b, errB := os.ReadFile(byPackage)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%q: %d and %d bytes differ (%v, %v)", flags, len(a), len(b), errA, errB)
		}
	}
}
