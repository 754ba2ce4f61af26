package device

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
)

// splitTarget splits a target such as "cpu:x86-64-v4" into the backend and the processor level. The level is empty for
// most targets.
func splitTarget(target string) (backend, level string) {
	backend, level, _ = strings.Cut(target, ":")
	return backend, level
}

// Choose returns the best program of one method for the backend. It prefers programs that were compiled for this
// backend, first those with the best level that this machine has. Otherwise it returns the first program of which the
// backend runs every node. Without such a program, the error is ErrLevel or ErrUnsupported.
func (i Info) Choose(programs []*program.Program) (*program.Program, error) {
	if err := i.CheckLevel(programs); err != nil {
		return nil, err
	}
	rank := func(p *program.Program) int {
		backend, level := splitTarget(p.Target)
		switch at := slices.Index(i.Levels, level); {
		case backend != i.Name:
			return len(i.Levels) + 1
		case level == "":
			return len(i.Levels)
		default:
			return at // -1 if the machine lacks the level; skipped below
		}
	}
	var reasons []string
	for _, p := range slices.SortedStableFunc(slices.Values(programs), func(a, b *program.Program) int {
		return cmp.Compare(rank(a), rank(b))
	}) {
		if rank(p) < 0 {
			continue
		}
		lacks := i.Lacks(p)
		if lacks == "" {
			return p, nil
		}
		reasons = append(reasons, p.Target+": "+lacks)
	}
	method := ""
	if len(programs) > 0 {
		method = programs[0].Method
	}
	return nil, diag.New(ErrUnsupported, "backend "+i.Name, "cannot run %s as it was compiled for %s", method,
		strings.Join(reasons, "; for ")).
		WithHint(
			"write its description with rlxrun plugins describe %s -o %s.target and compile with --target %s.target, or choose another backend",
			i.Name, i.Name, i.Name)
}

// ChooseSplit is like Choose for a method that may be divided. A divided program runs only on the backend that it was
// compiled for. It is preferred over programs for other backends.
func (i Info) ChooseSplit(list []*program.Split) (*program.Split, error) {
	var whole []*program.Program
	var own []*program.Split
	of := map[*program.Program]*program.Split{}
	var reasons []string
	for _, s := range list {
		p := s.Segments[0].Program
		if !s.InPieces() {
			whole = append(whole, p)
			of[p] = s
			continue
		}
		lacks := ""
		for _, x := range s.Segments {
			if x.Target == s.Target && lacks == "" {
				lacks = i.Lacks(x.Program)
			}
		}
		backend, level := splitTarget(s.Target)
		switch {
		case backend != i.Name || level != "" && !slices.Contains(i.Levels, level):
			lacks = "it is in pieces, for backend " + backend + " and others"
		case lacks == "":
			own = append(own, s)
		}
		reasons = append(reasons, s.Target+": "+lacks)
	}
	var p *program.Program
	err := error(
		diag.New(ErrUnsupported, "backend "+i.Name, "cannot run %s as it was compiled for %s", list[0].Method,
			strings.Join(reasons, "; for ")))
	if len(whole) > 0 {
		p, err = i.Choose(whole)
	}
	if p != nil {
		if backend, _ := splitTarget(p.Target); backend == i.Name || own == nil {
			return of[p], nil
		}
	}
	if own != nil {
		return own[0], nil
	}
	return nil, err
}

// BackendOf returns the name of the backend of a target.
func BackendOf(target string) string {
	backend, _ := splitTarget(target)
	return backend
}

// Lacks describes the first node of a program that the backend does not run, and why. It returns "" if the backend runs
// all.
func (i Info) Lacks(p *program.Program) string { return i.Target.Lacks(p.Graph) }

// CheckLevel returns ErrLevel if there are programs for this backend and all of them require a higher level than the
// processor has.
func (i Info) CheckLevel(programs []*program.Program) error {
	var need []string
	for _, p := range programs {
		backend, level := splitTarget(p.Target)
		switch {
		case backend != i.Name:
		case level == "" || slices.Contains(i.Levels, level):
			return nil
		default:
			need = append(need, p.Target)
		}
	}
	if need == nil {
		return nil
	}
	var have, features []string
	recompile := i.Name
	for _, level := range slices.Backward(i.Levels) {
		recompile = i.Name + ":" + level
		have = append(have, recompile)
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
	return diag.New(ErrLevel, "backend "+i.Name, "the artifact needs %s; the processor has %s (%s)",
		strings.Join(need, " or "), has,
		strings.Join(features, ", ")).WithHint("%s, or run it on a processor that has what it needs", hint)
}
