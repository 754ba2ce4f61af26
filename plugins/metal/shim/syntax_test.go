//go:build linux

package shim

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/devicetest"
	description "github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
	"github.com/rlx-go/rlx/plugins/metal/msl"
)

// TestSyntax has the C++ compiler check kernels of every op, without compiling them. TestConformance compiles and runs
// kernels of some ops only.
func TestSyntax(t *testing.T) {
	const mostOfOp = 1 // each commit draws others
	cxx, err := compiler()
	if err != nil && os.Getenv("RLX_REQUIRE_CXX") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var kernels []*msl.Kernel
	seed, limit := sampleSeed(t), 0
	opts := Options{Level: "-O0", Cache: t.TempDir(), Missing: func(k *msl.Kernel) error {
		if len(kernels) < limit && !slices.ContainsFunc(kernels, func(o *msl.Kernel) bool { return *o == *k }) {
			kernels = append(kernels, k)
		}
		return errors.New("the kernel is not compiled")
	}}
	collecting := New(opts)
	for _, op := range description.Description().Ops() {
		if devicetest.CheckOps([]string{op}) != nil {
			continue // no op of the conformance suite
		}
		limit = len(kernels) + mostOfOp
		collect(t, collecting, devicetest.Config{Brief: true, Seed: seed, Ops: []string{op}})
	}
	c, folder := cache{level: opts.Level}, t.TempDir()
	for name, data := range map[string][]byte{"metal_stdlib": stdlib, "host.h": header} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kernels", len(kernels))
	for unit := range slices.Chunk(kernels, perUnit) {
		var b strings.Builder
		b.WriteString("#include \"host.h\"\n")
		for _, k := range unit {
			c.write(&b, k)
		}
		cmd := exec.CommandContext(
			t.Context(), cxx, append([]string{"-fsyntax-only", "-I", folder, "-x", "c++", "-"}, flags...)...)
		cmd.Stdin = strings.NewReader(b.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, bytes.TrimSpace(out[:min(len(out), 4000)]))
		}
	}
}
