package format

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// checkNested runs checks 29 to 37 and 47 on the programs of loops, as far as these checks concern them. These are the
// bodies to which attributes of an op with programs of its own refer. Each has a plan and a schedule, and no other body
// has them. It returns the programs by their graphs. A body comes after the bodies to which it refers, so its depth is
// bounded and no program contains itself.
func checkNested(target string, bodies []*body, pl *rawPlan, s *rawSched, dir *Directory) (
	map[*ir.Graph]*program.Program, error) {
	made := map[*ir.Graph]*program.Program{}
	for i, b := range bodies {
		if !b.nested {
			continue
		}
		k := len(made)
		switch {
		case k >= len(pl.bodies) || pl.bodies[k].body != int64(i):
			return nil, fail(checkLoop, KindPlan.String(), pl.at,
				"body %d, %.80q, is a graph of a loop and has no plan; want plans of such bodies, in order", i, b.Name)
		case k >= len(s.bodies) || s.bodies[k].body != int64(i):
			return nil, fail(checkLoop, KindSched.String(), s.at,
				"body %d, %.80q, is a graph of a loop and has no schedule; want schedules of such bodies, in order", i,
				b.Name)
		}
		p := &program.Program{Method: b.Name, Target: target, Graph: b.Graph}
		if err := checkPlan(p, &pl.bodies[k].rawPlan, made, dir); err != nil {
			return nil, err
		}
		if err := checkSched(p, &s.bodies[k].rawSched); err != nil {
			return nil, err
		}
		made[b.Graph] = p
	}
	if n := len(made); len(pl.bodies) != n || len(s.bodies) != n {
		return nil, fail(checkLoop, KindPlan.String(), pl.at,
			"%d plans and %d schedules of bodies; %d bodies are graphs of loops", len(pl.bodies), len(s.bodies), n)
	}
	return made, nil
}

// checkLoops runs check 47 on the loops of a program whose places are checked, and stores them in p. The schedule's
// checks tell whether a loop's region is free.
func checkLoops(p *program.Program, r *rawPlan, nested map[*ir.Graph]*program.Program) error {
	where := KindPlan.String()
	var params map[string]program.Place
	for _, n := range p.Graph.Nodes {
		if !n.Op.Nested {
			continue
		}
		if params == nil {
			params = p.ParamPlaces()
		}
		k := len(p.Loops)
		if k >= len(r.loops) || r.loops[k].node != int64(n.ID) {
			return fail(
				checkLoop, where, r.at, "loop %.80q (node %d) has no region; want regions of all loops, in order",
				n.Label(), n.ID)
		}
		x := &r.loops[k]
		l := program.NewLoop(n, x.offset, func(b *ir.Graph) *program.Program { return nested[b] })
		if err := l.Check(params, n); err != nil {
			return fail(checkLoop, where, x.at, "%w", err)
		}
		if size := l.Size(); !within(l.Offset, size, p.ArenaSize) || l.Offset%program.Align != 0 {
			return fail(checkLoop, where, x.at,
				"loop %.80q: its region of %d bytes at %d is outside the %d bytes of the arena, or at no multiple of %d",
				n.Label(), size, l.Offset, p.ArenaSize, program.Align)
		}
		p.Loops = append(p.Loops, l)
	}
	if len(r.loops) != len(p.Loops) {
		return fail(checkLoop, where, r.at, "regions of %d loops; the graph has %d", len(r.loops), len(p.Loops))
	}
	return nil
}
