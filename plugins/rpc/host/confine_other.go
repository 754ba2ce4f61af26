//go:build darwin || windows

package host

import (
	"os"

	"github.com/rlx-go/rlx/plugins/rpc/internal/sandbox"
)

// grants returns nothing, because this system has no sandbox layers.
func (Confinement) grants(*os.File, int, bool, string, string, []string) []sandbox.Grant { return nil }
func (Confinement) environment(string, string) []string                                  { return nil }
