package shim

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// keep returns a function for Options.Compiled that writes kernels to the folder that RLX_PTX names, or nil if RLX_PTX
// is not set.
func keep(t *testing.T) func(wgsl, ptx string) {
	dir := os.Getenv("RLX_PTX")
	if dir == "" {
		return nil
	}
	return func(wgsl, ptx string) {
		name := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256([]byte(wgsl)))[:16])
		for suffix, text := range map[string]string{".wgsl": wgsl, ".ptx": ptx} {
			if err := os.WriteFile(name+suffix, []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
	}
}
