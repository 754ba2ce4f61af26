package rlx_test

import (
	"os/exec"
	"testing"
)

// TestGoldens builds the commands and runs them as a user would, from checkpoint to artifact to numbers, on the demo model and the
// golden models of every size. bench/figures does the comparisons.
func TestGoldens(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs a model of 375 MB")
	}
	bin := t.TempDir()
	for _, args := range [][]string{
		{"go", "build", "-o", bin + "/", "./cmd/rlxc", "./cmd/rlxrun", "./bench/figures"},
		{"go", "build", "-o", bin + "/rlx-backend-cpu", "./plugins/cpu"},
		{bin + "/figures", "-bin", bin, "-dir", t.TempDir(), "-only", "demo,accuracy"},
	} {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		t.Logf("%v\n%s", args, out)
		if err != nil {
			t.Fatal(err)
		}
	}
}
