// Package testbin builds programs of this module for tests. The go command keeps the program that it links in its build
// cache, so that the tests of several packages link each program once.
package testbin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "github.com/rlx-go/rlx/"

// Build writes the program of a package, such as "cmd/rlxrun", to path. It makes the folder of path. Programs are built
// without cgo, except plugins/wgpu, which needs it.
func Build(path, pkg string) error {
	path, err := filepath.Abs(path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o777)
	}
	if err != nil {
		return err
	}
	cgo := "0"
	if pkg == "plugins/wgpu" {
		cgo = "1"
	}
	// Only go run caches linked programs. With -exec it copies the program instead of running it.
	cmd := exec.Command("go", "run", "-exec", "cp", module+pkg, path)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, strings.TrimSpace(string(out)))
	}
	return nil
}
