//go:build !linux && !darwin && !windows

package serve

import (
	"fmt"
	"os"
	"runtime"
)

// Backend reports that this system cannot run backends and exits.
func Backend(cfg Config) {
	fmt.Fprintf(os.Stderr, "%s: backends cannot run on %s\n", cfg.Name, runtime.GOOS)
	os.Exit(1)
}
