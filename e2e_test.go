package rlx_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rlx-go/rlx/internal/testbin"
)

// TestGoldens builds the commands and runs them as a user would, from checkpoint to artifact to numbers, on the demo
// model and the golden models of every size. bench/figures does the comparisons.
func TestGoldens(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs a model of 375 MB")
	}
	bin := t.TempDir()
	for name, pkg := range map[string]string{"rlxc": "cmd/rlxc", "rlxrun": "cmd/rlxrun",
		"rlx-backend-cpu": "plugins/cpu", "figures": "bench/figures"} {
		if err := testbin.Build(filepath.Join(bin, name), pkg); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(bin+"/figures", "-bin", bin, "-dir", t.TempDir(), "-only",
		"demo,accuracy").CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}
