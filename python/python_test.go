// Package python_test runs the tests of the Python module rlx. They need a python3 with numpy and pytest; RLX_PYTHON
// names another interpreter. With RLX_REQUIRE_PYTHON a missing interpreter fails the tests. `make test-wheel` runs them
// in an empty environment that has only the wheel.
package python_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rlx-go/rlx/internal/testbin"
)

func TestModule(t *testing.T) {
	// open the files, so that a change invalidates cached test results
	for _, pattern := range []string{"src/rlx/*.py", "tests/*.py"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			os.ReadFile(f)
		}
	}
	python, err := exec.LookPath(cmp.Or(os.Getenv("RLX_PYTHON"), "python3"))
	if err == nil {
		err = exec.Command(python, "-c", "import numpy, pytest").Run()
	}
	if err != nil && os.Getenv("RLX_REQUIRE_PYTHON") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, path := range map[string]string{"rlxrun": "cmd/rlxrun", "rlxc": "cmd/rlxc",
		"rlx-backend-cpu": "plugins/cpu"} {
		if err := testbin.Build(filepath.Join(dir, name), path); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=src", "RLX_BIN="+dir, "RLX_DEMO=../demo")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
