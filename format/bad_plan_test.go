package format

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

func TestBadPlans(t *testing.T) {
	place := func(i int, change func(*rawPlace)) func(*forgery) {
		return func(f *forgery) { change(&f.c.plans[2].places[i]) }
	}
	head := func(i int, change func(*rawPlace)) func(*forgery) {
		return func(f *forgery) { change(&f.c.plans[0].places[i]) }
	}
	plan := func(change func(*rawPlan)) func(*forgery) { return func(f *forgery) { change(&f.c.plans[2]) } }
	sched := func(change func(*rawSched)) func(*forgery) { return func(f *forgery) { change(&f.c.scheds[2]) } }
	step := func(i int, change func(*rawStep)) func(*forgery) {
		return func(f *forgery) { change(&f.c.scheds[2].steps[i]) }
	}
	pick := func(i int, change func(*rawPlace)) func(*forgery) {
		return func(f *forgery) { change(&f.c.plans[6].places[i]) }
	}
	sums := func(i int, change func(x *rawPlace, all []rawPlace)) func(*forgery) {
		return func(f *forgery) { change(&f.c.plans[10].places[i], f.c.plans[10].places) }
	}
	kept := func(i int, change func(*rawPlace)) func(*forgery) {
		return func(f *forgery) { change(&f.c.plans[7].places[i]) }
	}
	const weights, arena, io, state = 0, 1, 2, 3
	testBadFiles(t, []badFile{
		{29, "arena of 300 bytes", plan(func(p *rawPlan) { p.arena = 300 })},
		{29, "arena of 2^42+256", plan(func(p *rawPlan) { p.arena = MaxArenaBytes + 256 })},
		{29, "io of 2^62", plan(func(p *rawPlan) { p.io = 1 << 62 })},
		{29, "unknown space", place(4, func(x *rawPlace) { x.space = 4 })},
		{29, "state of 100 bytes", func(f *forgery) { f.c.plans[7].state = 100 }},
		{30, "placement missing", plan(func(p *rawPlan) { p.places = p.places[:9] })},
		{30, "placement too many", plan(func(p *rawPlan) { p.places = append(p.places, rawPlace{}) })},
		{30, "plan missing", func(f *forgery) { f.c.plans = f.c.plans[:2] }},
		{30, "schedule missing", func(f *forgery) { f.c.scheds = f.c.scheds[:2] }},
		{30, "smaller than the type", place(9, func(x *rawPlace) { x.size -= 4 })},
		{30, "larger than the type", place(9, func(x *rawPlace) { x.size += 224 })},
		{30, "misaligned", head(2, func(x *rawPlace) { x.offset += 64 })},
		{30, "past the arena", head(2, func(x *rawPlace) { x.offset = 768 })},
		{30, "offset 2^63-1", head(2, func(x *rawPlace) { x.offset = math.MaxInt64 })},
		{30, "past the io space", place(0, func(x *rawPlace) { x.offset = 1024 })},
		{30, "input in the arena", place(1, func(x *rawPlace) { x.space = arena })},
		{30, "weight elsewhere in the weights", place(2, func(x *rawPlace) { x.offset = 0 })},
		{30, "offset of an op with several results", pick(2, func(x *rawPlace) { x.offset = 256 })},
		{30, "bytes of an op with several results", pick(2, func(x *rawPlace) { x.size = 96 })},
		{30, "an op with several results among the inputs", pick(2, func(x *rawPlace) { x.space = io })},
		{30, "an op with several results in space 3", pick(2, func(x *rawPlace) { x.space = 3 })},
		{30, "an op with several results in an unknown space", pick(2, func(x *rawPlace) { x.space = 4 })},
		{30, "an op with several results over its operand", pick(2, func(x *rawPlace) { x.parent = 1 })},
		{31, "view in another space that has room for it", func(f *forgery) {
			p := &f.c.plans[2]
			p.arena += 1 << 16
			p.places[7].space, p.places[8].parent = arena, -1
		}},
		{31, "view elsewhere, with what overwrites it", func(f *forgery) {
			p := &f.c.plans[2]
			p.io += 1 << 16
			p.places[7].offset += 1 << 12
			p.places[8].offset += 1 << 12
		}},
		{31, "result over the operand of its op", pick(3, func(x *rawPlace) { x.parent = 1 })},
		{31, "result over its op", pick(3, func(x *rawPlace) { x.parent = 2 })},
		{31, "result over what its op does not read", sums(6, func(x *rawPlace, _ []rawPlace) { x.parent = 0 })},
		{31, "result over an operand of another shape", sums(6, func(x *rawPlace, _ []rawPlace) { x.parent = 1 })},
		{31, "result over an operand, elsewhere",
			sums(6, func(x *rawPlace, all []rawPlace) { x.offset = all[2].offset })},
		{31, "result over an operand that its op has twice", func(f *forgery) { f.c.graphs[10].nodes[4].in[1] = 2 }},
		{31, "view without a parent", place(7, func(x *rawPlace) { x.parent = -1 })},
		{31, "view of another", place(7, func(x *rawPlace) { x.parent = 5 })},
		{31, "view of a later one", place(7, func(x *rawPlace) { x.parent = 8 })},
		{31, "view elsewhere", place(7, func(x *rawPlace) { x.offset += 256 })},
		{31, "view in another space", place(7, func(x *rawPlace) { x.space = arena })},
		{31, "shares with itself", place(9, func(x *rawPlace) { x.parent = 9 })},
		{31, "parent past the end", place(9, func(x *rawPlace) { x.parent = math.MaxInt64 })},
		{31, "op that may not overwrite", place(9, func(x *rawPlace) { x.parent = 8 })},
		{31, "overwrites a value that is not an operand", place(8, func(x *rawPlace) { x.parent = 6 })},
		{31, "overwrites another shape", place(8, func(x *rawPlace) { x.parent = 1 })},
		{31, "in place, elsewhere", place(5, func(x *rawPlace) { x.offset = 0 })},
		{31, "in place, in another space", place(5, func(x *rawPlace) { x.space = arena })},
		{31, "input with a parent", place(1, func(x *rawPlace) { x.parent = 0 })},
		{31, "alias: overwrites a factor that is the residual, too", func(f *forgery) {
			f.c.graphs[3].nodes[5].in[0] = 3
		}},
		{32, "a step more, of an input",
			sched(func(s *rawSched) { s.steps = append(slices.Clone(s.steps), rawStep{node: 0}) })},
		{32, "step missing", sched(func(s *rawSched) { s.steps = s.steps[:4] })},
		{32, "step twice", sched(func(s *rawSched) { s.steps = append(s.steps, s.steps[4]) })},
		{32, "steps out of order", sched(func(s *rawSched) { s.steps[0], s.steps[1] = s.steps[1], s.steps[0] })},
		{32, "operand's source comes later",
			sched(func(s *rawSched) { s.steps[2], s.steps[3] = s.steps[3], s.steps[2] })},
		{32, "step of an input", step(0, func(s *rawStep) { s.node = 0 })},
		{32, "step of a view", step(0, func(s *rawStep) { s.node = 7 })},
		{32, "step of a result", func(f *forgery) { f.c.scheds[6].steps[1].node = 3 }},
		{32, "result read before its op runs", func(f *forgery) {
			s := f.c.scheds[6].steps
			s[1], s[2] = s[2], s[1]
		}},
		{32, "step of nothing", step(4, func(s *rawStep) { s.node = 10 })},
		{32, "step 2^63-1", step(4, func(s *rawStep) { s.node = math.MaxInt64 })},
		{45, "state in the arena", kept(2, func(x *rawPlace) { x.space = arena })},
		{45, "states overlap", kept(3, func(x *rawPlace) { x.offset = 0 })},
		{45, "input among the states", kept(0, func(x *rawPlace) { x.space = state })},
		{45, "result among the states", kept(4, func(x *rawPlace) { x.space = state })},
		{45, "update elsewhere", kept(5, func(x *rawPlace) { x.parent = -1 })},
		{45, "update in the arena", kept(5, func(x *rawPlace) { x.space = arena })},
		{31, "update at another offset", kept(5, func(x *rawPlace) { x.offset = 256 })},
		{30, "state past the end", kept(3, func(x *rawPlace) { x.offset = 512 })},
		{45, "states without a state", func(f *forgery) { f.c.plans[0].state = 256 }},
		{45, "another size of the states in another method", func(f *forgery) { f.c.plans[8].state += 256 }},
		{45, "a state elsewhere in another method", func(f *forgery) { f.c.plans[8].places[0].offset = 256 }},
		{45, "another first value in another method",
			func(f *forgery) { f.c.graphs[8].nodes[0].attrs[0].Value = 0.25 }},
		{45, "an update of an input", func(f *forgery) {
			f.c.graphs[7].nodes[2].op, f.c.graphs[7].nodes[2].attrs = "input", nil
		}},
		{45, "two updates of one value", func(f *forgery) {
			n := f.c.graphs[7].nodes
			n[6] = n[5]
			n[6].name = "again"
		}},
		{33, "state read after its update", func(f *forgery) {
			s := f.c.scheds[7].steps
			s[0], s[1] = s[1], s[0]
		}},
		{35, "overwrites its operand", func(f *forgery) {
			// z has the place of y but is not marked as in place.
			f.c.plans[0].places[3] = rawPlace{space: arena, offset: 0, size: 64, parent: -1}
			f.c.plans[0].places[5] = rawPlace{space: io, offset: 256, size: 64, parent: -1}
		}},
		{35, "result over another of the same op", func(f *forgery) {
			x, at := &f.c.plans[6].places[4], f.c.plans[6].places[3]
			x.space, x.offset = at.space, at.offset
		}},
		{33, "result that nothing reads over what is read later", func(f *forgery) {
			x, at := &f.c.plans[6].places[6], f.c.plans[6].places[4]
			x.space, x.offset = at.space, at.offset
		}},
		{35, "result over the operand of its op", func(f *forgery) {
			x, at := &f.c.plans[6].places[6], f.c.plans[6].places[3]
			x.space, x.offset = at.space, at.offset
		}},
		{35, "two results over one operand", sums(6, func(x *rawPlace, all []rawPlace) { *x = all[5] })},
		{35, "result over an operand, undeclared", sums(6, func(x *rawPlace, _ []rawPlace) { x.parent = -1 })},
		{33, "result over what is read later", func(f *forgery) { f.c.graphs[10].nodes[7].in[1] = 3 }},
		{35, "in place, undeclared", place(5, func(x *rawPlace) { x.parent = -1 })},
		{33, "overwrites what is still read", func(f *forgery) {
			// c overwrites z, which d reads afterwards.
			f.c.plans[0].places[4] = rawPlace{space: io, offset: 256, size: 64, parent: -1}
		}},
		{33, "part of an input is overwritten before it is read", func(f *forgery) {
			f.c.plans[2].places[5] = rawPlace{space: io, offset: 256, size: 256, parent: -1} // hb over gain
			f.c.plans[2].places[6] = rawPlace{space: io, offset: 512, size: 256, parent: -1}
		}},
		{34, "two queues", sched(func(s *rawSched) { s.queues = 2 })},
		{34, "no queue", sched(func(s *rawSched) { s.queues = 0 })},
		{36, "result among the weights", head(4, func(x *rawPlace) { x.space = weights })},
		{36, "weight in the arena", place(2, func(x *rawPlace) { x.space = arena })},
		{36, "weight in the io space", place(3, func(x *rawPlace) { x.space = io })},
		{37, "output in an arena that has room for it", func(f *forgery) {
			p := &f.c.plans[2]
			p.arena += 1 << 16
			p.places[9].space, p.places[9].offset = arena, p.arena-1<<12
		}},
		{37, "outputs overlap", place(9, func(x *rawPlace) { x.offset = 512 })},
		{37, "output over an input", place(9, func(x *rawPlace) { x.offset = 0 })},
		{37, "inputs overlap", place(1, func(x *rawPlace) { x.offset = 0 })},
		{37, "output in the arena", func(f *forgery) {
			f.c.plans[2].arena = 256
			x := &f.c.plans[2].places[9]
			x.space, x.offset = arena, 0
		}},
		{37, "an input is the output", func(f *forgery) {
			f.c.graphs[2].outputs[1].node = 0
			f.c.meta.Methods[1].Outputs[1].Type = f.c.meta.Methods[1].Inputs[0].Type
		}},
		{37, "one value is two outputs", func(f *forgery) { f.c.graphs[2].outputs[1].node = 8 }},
		{37, "output overwritten later", func(f *forgery) {
			// act becomes an output, but scaled overwrites it.
			f.c.graphs[2].outputs[0].node = 6
		}},
		{37, "input overwritten", func(f *forgery) {
			// z overwrites x after y was computed from it.
			f.c.plans[0].places[3] = rawPlace{space: io, offset: 0, size: 64, parent: -1}
			f.c.plans[0].places[5] = rawPlace{space: io, offset: 256, size: 64, parent: -1}
		}},
	})
}

// TestSignatureOverlaps checks inputs and outputs that overlap partly. Those of the test artifact are too small for
// that.
func TestSignatureOverlaps(t *testing.T) {
	g, err := ir.Parse(
		"graph f\nsym N = 2..2\nx = input : f32[N,64]\ny = neg x : f32[N,64]\nz = neg y : f32[N,64]\nreturn y=y, z=z\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x, y, z int64
		ok      bool
	}{{0, 512, 1024, true}, {1024, 0, 512, true}, {0, 256, 1024, false}, {512, 256, 1024, false}, {0, 1024, 768, false},
		{0, 512, 768, false}} {
		raw := rawPlan{io: 1536}
		for _, at := range []int64{c.x, c.y, c.z} {
			raw.places = append(raw.places, rawPlace{space: 2, offset: at, size: 512, parent: -1})
		}
		err := checkPlan(&program.Program{Graph: g}, &raw, nil, nil)
		if c.ok && err != nil || !c.ok && !errors.Is(err, code.Verifier(37)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestPolicy checks that check 38 enforces a policy below the limits of the format: a limit equal to the need passes,
// and one less fails.
func TestPolicy(t *testing.T) {
	b := artifactBytes(t)
	v, err := verifyBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	_, weights := v.WeightsSection()
	const blend = 768 + 1024                       // arena and IO space of the largest program
	const flops = 2*8*8*16 + (2*8+1)*16*8 + 3*16*8 // matmul, fused_matmul, and relu, neg and add
	for _, c := range []struct {
		name string
		p    Policy
		ok   bool
	}{
		{"memory", Policy{MaxMemory: weights + blend}, true},
		{"memory less 1", Policy{MaxMemory: weights + blend - 1}, false},
		{"work", Policy{MaxWork: flops}, true},
		{"work less 1", Policy{MaxWork: flops - 1}, false},
	} {
		_, err := Verify(bytes.NewReader(b), int64(len(b)), c.p)
		if c.ok && err != nil || !c.ok && !errors.Is(err, code.Verifier(38)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestAliasChain checks that a chain of views may be MaxAliasChain long, and no longer.
func TestAliasChain(t *testing.T) {
	for _, c := range []struct {
		views int
		ok    bool
	}{{MaxAliasChain, true}, {MaxAliasChain + 1, false}} {
		f := forge(t)
		g, p := &f.c.graphs[2], &f.c.plans[2]
		// Inserts reshapes of act between act and half, so that half is the last view of the chain.
		var nodes []rawNode
		var places []rawPlace
		nodes, places = append(nodes, g.nodes[:7]...), append(places, p.places[:7]...)
		for i := range c.views {
			n, at := g.nodes[7], p.places[7]
			n.name = ""
			n.in, at.parent = []int64{int64(6 + i)}, int64(6+i)
			nodes, places = append(nodes, n), append(places, at)
		}
		move := int64(c.views - 1)
		for i := 8; i < 10; i++ {
			n, at := g.nodes[i], p.places[i]
			n.in = slices.Clone(n.in)
			n.in[0] += move
			if at.parent >= 0 {
				at.parent += move
			}
			nodes, places = append(nodes, n), append(places, at)
		}
		g.nodes, p.places = nodes, places
		for i := range g.outputs {
			g.outputs[i].node += move
		}
		for i := range f.c.scheds[2].steps {
			if s := &f.c.scheds[2].steps[i]; s.node > 7 {
				s.node += move
			}
		}
		_, err := verifyBytes(f.file())
		if c.ok && err != nil || !c.ok && !errors.Is(err, code.Verifier(31)) {
			t.Errorf("%d views: %v", c.views, err)
		}
	}
}
