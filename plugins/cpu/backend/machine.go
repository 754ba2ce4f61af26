package backend

import (
	"os"
	"runtime"
	"slices"

	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

// features lists the instruction sets that kernels may use, the one in use last: those of the processor, up to the one that
// RLX_CPU_FEATURES names.
func features() []string {
	all := kernels.Features()
	if i := slices.Index(all, os.Getenv(kernels.FeaturesEnv)); i >= 0 {
		return all[:i+1]
	}
	return all
}

// levels are what a schedule may require of the processor, the highest first: an architecture, and the instruction set whose
// presence shows the level. An empty instruction set means that the architecture suffices.
var levels = []struct{ level, arch, features string }{
	{"x86-64-v4", "amd64", "avx512"},
	{"x86-64-v3", "amd64", "avx2"},
	{"arm64", "arm64", ""},
}

// levelsHere lists the levels of this processor, best first. They do not choose kernels: a level is only a
// requirement that an artifact states.
func levelsHere() []string {
	var out []string
	have := features()
	for _, l := range levels {
		if l.arch == runtime.GOARCH && (l.features == "" || slices.Contains(have, l.features)) {
			out = append(out, l.level)
		}
	}
	return out
}
