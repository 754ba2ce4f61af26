package compile

import (
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/target"
)

// Target is a target to compile for.
type Target struct {
	Name  string              // such as "cpu", or with a level, "cpu:x86-64-v4"
	Takes *target.Description // the nodes that it runs; a level does not change them
}

// Defaults returns the default targets: cpu and wgpu. The backends metal and cuda run the programs of wgpu, so they
// need no programs of their own. Portable is for backends without a description of their own, which are few. It has no
// attention op, so programs for it store the scores of each layer.
func Defaults() []Target {
	var out []Target
	for _, d := range target.Builtin() {
		if !target.AsWGPU(d) && d.Name != target.Portable {
			out = append(out, Target{d.Name, d})
		}
	}
	return out
}

// TargetNames returns the names of the built-in targets, including those with levels.
func TargetNames() []string { return target.BuiltinNames() }

// FindTarget returns the built-in target of that name.
func FindTarget(name string) (Target, error) {
	known := TargetNames()
	if !slices.Contains(known, name) {
		return Target{}, diag.New(code.Target, "target", "%q is unknown; known are %s, and files that end in .target",
			name, strings.Join(known, ", "))
	}
	base, _, _ := strings.Cut(name, ":")
	d, _ := target.Find(base)
	return Target{name, d}, nil
}
