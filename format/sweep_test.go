package format

import (
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/plan"
	"github.com/rlx-go/rlx/core/program"
)

// unchecked builds the program that the raw parts describe, without any checks.
func unchecked(g *ir.Graph, p *rawPlan, s *rawSched) *program.Program {
	out := &program.Program{Method: "m", Target: "cpu", Graph: g, ArenaSize: p.arena, IOSize: p.io, StateSize: p.state}
	for _, x := range p.places {
		out.Places = append(
			out.Places, program.Place{Space: spaces[x.space], Offset: x.offset, Size: x.size, Parent: int(x.parent)})
	}
	for _, x := range s.steps {
		out.Steps = append(out.Steps, program.Step{Node: int(x.node)})
	}
	return out
}

// TestAgreesWithPlanner checks that the verifier and the planner's proof, which were written independently, agree on
// every plan, right or wrong.
func TestAgreesWithPlanner(t *testing.T) {
	f := forge(t)
	dir, err := checkTensors(f.c.tensors, int64(len(f.weights)))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	accepted, total := 0, 30000
	for range total {
		i := r.IntN(len(f.c.graphs))
		g, _, err := checkGraph(&f.c.graphs[i], dir)
		if err != nil {
			t.Fatal(err)
		}
		p, s := f.c.plans[i], f.c.scheds[i]
		p.places = append([]rawPlace(nil), p.places...)
		s.steps = append([]rawStep(nil), s.steps...)
		p.arena += 256 * int64(r.IntN(3))
		p.io += 256 * int64(r.IntN(3))
		for range 1 + r.IntN(3) {
			n := r.IntN(len(p.places))
			x, st := &p.places[n], &s.steps[r.IntN(len(s.steps))]
			switch r.IntN(5) {
			case 0, 1, 2: // move a value, together with the values that share its storage
				to, space := 256*int64(r.IntN(5)), int64(1+r.IntN(2))
				for k, from := n, x.offset; k < len(p.places); k++ {
					if k == n || p.places[k].parent >= int64(n) && p.places[k].offset == from {
						p.places[k].offset, p.places[k].space = to, space
					}
				}
			case 3:
				x.parent = int64(r.IntN(len(p.places)+1) - 1)
			case 4:
				j := r.IntN(len(s.steps))
				*st, s.steps[j] = s.steps[j], *st
			}
		}
		prog := &program.Program{Method: "m", Target: "cpu", Graph: g}
		ours := checkPlan(prog, &p, nil, dir)
		if ours == nil {
			ours = checkSched(prog, &s)
		}
		theirs := plan.CheckProgram(unchecked(g, &p, &s))
		if theirs == nil {
			// The planner's proof does not check the weights space, which the file determines.
			for k, n := range g.Nodes {
				if w, ok := dir.Find(n.Name); n.Op.Name == "param" && (!ok || w.Offset != p.places[k].offset) {
					theirs = errDisk
				}
			}
		}
		if (ours == nil) != (theirs == nil) {
			t.Fatalf("verifier: %v\nplanner: %v\n%v\n%v\n%v", ours, theirs, g, p, s)
		}
		if ours == nil {
			if accepted++; accepted%4 == 0 {
				checkRun(t, prog)
			}
		}
	}
	t.Logf("%d of %d plans are right", accepted, total)
	if accepted < total/100 || accepted > total*9/10 {
		t.Errorf("%d of %d plans are right: the test does not tell them apart", accepted, total)
	}
}

// TestOwners compares the tree of owners with an array that has an entry per byte.
func TestOwners(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		const size = 60
		var ranges [][2]int64
		var ends []int64
		for range 1 + r.IntN(12) {
			a, b := r.Int64N(size), r.Int64N(size)
			ranges = append(ranges, [2]int64{min(a, b), max(a, b)})
			ends = append(ends, a, b)
		}
		tree := newOwners(ends)
		var bytes [size]int32
		for i := range bytes {
			bytes[i] = nobody
		}
		for range 60 {
			x, owner := ranges[r.IntN(len(ranges))], int32(r.IntN(4))
			if r.IntN(2) == 0 {
				tree.assign(x[0], x[1], owner)
				for i := x[0]; i < x[1]; i++ {
					bytes[i] = owner
				}
				continue
			}
			by, at, ok := tree.all(x[0], x[1], owner)
			wantOK, wantAt := true, int64(0)
			for i := x[1] - 1; i >= x[0]; i-- {
				if bytes[i] != owner {
					wantOK, wantAt = false, i
				}
			}
			if ok != wantOK || !ok && (at != wantAt || by != bytes[at]) {
				t.Fatalf("bytes %v of %v: %v at %d by %d, want %v at %d", x, bytes, ok, at, by, wantOK, wantAt)
			}
		}
	}
}
