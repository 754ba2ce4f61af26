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

// levels are the targets that demand something of the processor, the highest first, and the instruction set of the kernels
// that shows that it is there.
var levels = []struct{ target, features string }{
	{"cpu:x86-64-v4", "avx512"},
	{"cpu:x86-64-v3", "avx2"},
}

// targets lists the schedules that this processor runs, best first. The kernels are the same for all of them; a level is
// nothing but a demand that an artifact makes.
func targets() []string {
	var out []string
	have := features()
	for _, l := range levels {
		if slices.Contains(have, l.features) {
			out = append(out, l.target)
		}
	}
	if runtime.GOARCH == "arm64" {
		out = append(out, "cpu:arm64")
	}
	return append(out, "cpu", "portable")
}
