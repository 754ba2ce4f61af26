package backend

import (
	"os"
	"runtime"
	"slices"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// features lists the instruction sets of the processor, up to the set that kernels use. RLX_CPU_FEATURES can choose a
// lower one.
func features() []string {
	all := isa.Features()
	if i := slices.Index(all, os.Getenv(isa.FeaturesEnv)); i >= 0 {
		return all[:i+1]
	}
	return all
}

// levels lists the processor levels that an artifact can require, highest first. A processor has a level if it has this
// architecture and this instruction set. An empty set means that the architecture suffices.
var levels = []struct{ level, arch, features string }{
	{"x86-64-v4", "amd64", "avx512"},
	{"x86-64-v3", "amd64", "avx2"},
	{"arm64", "arm64", ""},
}

// levelsHere lists the levels of this processor, highest first. They do not influence the choice of kernels.
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
