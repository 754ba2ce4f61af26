package device

import (
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
)

// ErrLevel is what a backend and rlxrun report where an artifact demands more of the processor than it has.
var ErrLevel = diag.Define("RLX6003", "processor below the artifact's target", `
The artifact was compiled for a target such as "cpu:x86-64-v4", which demands a processor of at least that level: x86-64-v3 is
AVX2, FMA and F16C; x86-64-v4 is these and AVX-512 F, BW, DQ and VL; arm64 is any 64-bit ARM processor. RLX_CPU_FEATURES, where it
is set, hides what is above the set that it names. Nothing was executed. Run the artifact on a processor that has the level, or
compile it again with a lower one (rlxc --target cpu:x86-64-v3) or none (--target cpu).`)

// splitTarget splits a target such as "cpu:x86-64-v4" into the backend that it is for and the level that it demands of the
// processor, which is empty for most.
func splitTarget(target string) (backend, level string) {
	backend, level, _ = strings.Cut(target, ":")
	return backend, level
}

// Takes reports whether listed, one of i.Targets, stands for a program's target. The level of a target demands something of
// the backend that it is for, which lists the levels that its processor has; for other backends the schedule counts.
func (i Info) Takes(listed, target string) bool {
	backend, _ := splitTarget(target)
	return listed == target || backend != i.Name && listed == backend
}

// CheckLevel reports as ErrLevel where the programs of a method demand more of the backend's processor than it has. A portable
// schedule beside them changes nothing: it is there for other backends.
func (i Info) CheckLevel(programs []*program.Program) error {
	var need []string
	for _, p := range programs {
		backend, level := splitTarget(p.Target)
		switch {
		case backend != i.Name:
		case slices.Contains(i.Targets, p.Target):
			return nil
		case level != "":
			need = append(need, p.Target)
		}
	}
	if need == nil {
		return nil
	}
	var have, features []string
	recompile := i.Name
	for _, t := range slices.Backward(i.Targets) {
		if backend, level := splitTarget(t); backend == i.Name && level != "" {
			have, recompile = append(have, t), t
		}
	}
	for _, d := range i.Devices {
		features = append(features, d.Features...)
	}
	has := "no such level"
	if have != nil {
		has = strings.Join(have, ", ")
	}
	hint := "compile it with rlxc --target " + recompile
	if recompile != i.Name {
		hint += " or --target " + i.Name
	}
	return diag.New(ErrLevel, "backend "+i.Name, "the artifact needs %s; the processor has %s (%s)", strings.Join(need, " or "), has,
		strings.Join(features, ", ")).WithHint("%s, or run it on a processor that has what it needs", hint)
}
