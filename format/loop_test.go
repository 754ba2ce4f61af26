package format

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// loopText has a loop with a condition, whose body has a loop, and a weight that only the inner one reads.
const loopText = `graph inner
h = input : f32[4]
w = param : f32[4]
m = mul h, w : f32[4]
t = tanh m : f32[4]
return t=t

graph go
h = input : f32[4]
x = input : f32[4]
m = reduce_max h {axes=[0]} : f32[]
n = reduce_max x {axes=[0]} : f32[]
c = lt m, n : bool[]
return c=c

graph body
h = input : f32[4]
x = input : f32[4]
k = loop h {body=@inner, carried=1, length=3, results=[0]} : f32[4]
a = add k, x : f32[4]
s = add a, h : f32[4]
return s=s

graph main
x = input : f32[4]
n = neg x : f32[4]
y, z = loop n, x {body=@body, carried=1, cond=@go, length=9, results=[0,1]} : f32[4], f32[9,4]
r = add y, n : f32[4]
return r=r, z=z
`

func loopProgram(t testing.TB) *program.Program {
	t.Helper()
	g, err := ir.Parse(loopText)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := sched.Build(g, sched.Options{Target: "cpu", Weights: func(string) (int64, bool) { return 512, true }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// loopArtifact returns an artifact with loopText.
func loopArtifact(t testing.TB) (Artifact, []Weight) {
	t.Helper()
	weights := []Weight{{Name: "w", Type: ir.MustType("f32[4]"), Write: func(w io.Writer) error {
		_, err := w.Write(tensor.Bytes([]float32{1, -0.5, 0.25, 2}))
		return err
	}}}
	dir, err := Layout(weights)
	if err != nil {
		t.Fatal(err)
	}
	return Artifact{Meta: Meta{Model: "loop", Producer: Producer{"rlxc", "0"}},
		Programs: []*program.Program{build(t, loopText, "portable", dir)}}, weights
}

// TestLoop checks that a program with loops survives encoding, and that the verifier finds every change of the data
// about the loops.
func TestLoop(t *testing.T) {
	p := loopProgram(t)
	b, err := EncodeProgram(p)
	if err != nil {
		t.Fatal(err)
	}
	q, err := DecodeProgram(b)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := EncodeProgram(q); err != nil || !bytes.Equal(again, b) {
		t.Errorf("the program encodes differently: %v", err)
	}
	if len(q.Loops) != 1 || len(q.Nested()) != 3 || len(q.Graph.Params()) != 1 || q.WeightsExtent() != 512+16 {
		t.Errorf("%d loops, %d nested programs, weights %v", len(q.Loops), len(q.Nested()), q.Graph.Params())
	}

	type raw struct {
		g *rawGraph
		p *rawPlan
		s *rawSched
	}
	// numbers of bodies: inner 0, body 1, go 2 or in another order
	number := func(r raw, name string) int {
		return slices.IndexFunc(r.g.bodies, func(b rawBody) bool { return b.name == name })
	}
	plan := func(r raw, name string) *rawBodyPlan { return &r.p.bodies[number(r, name)] }
	attr := func(nodes []rawNode, name string, v any) {
		for i, n := range nodes {
			if n.op == "loop" {
				nodes[i].attrs = slices.Clone(n.attrs)
				for k := range n.attrs {
					if n.attrs[k].Name == name {
						nodes[i].attrs[k].Value = v
					}
				}
			}
		}
	}
	for _, c := range []struct {
		check  int
		what   string
		change func(r raw)
	}{
		{47, "no plans of bodies", func(r raw) { r.p.bodies, r.p.loops = nil, nil }},
		{47, "no schedules of bodies", func(r raw) { r.s.bodies = nil }},
		{47, "a plan too few", func(r raw) { r.p.bodies = r.p.bodies[:2] }},
		{47, "a plan too many", func(r raw) { r.p.bodies = append(r.p.bodies, r.p.bodies[2]) }},
		{47, "a schedule too many", func(r raw) { r.s.bodies = append(r.s.bodies, r.s.bodies[2]) }},
		{47, "plans out of order", func(r raw) { r.p.bodies[0], r.p.bodies[1] = r.p.bodies[1], r.p.bodies[0] }},
		{47, "schedule of another body", func(r raw) { r.s.bodies[0].body = 1 }},
		{47, "region past the arena", func(r raw) { r.p.loops[0].offset = r.p.arena }},
		{47, "region at 2^63-256", func(r raw) { r.p.loops[0].offset = math.MaxInt64 - 255 }},
		{47, "region not aligned", func(r raw) { r.p.loops[0].offset += 128; r.p.arena += 256 }},
		{47, "region of another node", func(r raw) { r.p.loops[0].node-- }},
		{47, "two regions", func(r raw) { r.p.loops = append(r.p.loops, r.p.loops[0]) }},
		{47, "body's arena beyond the region", func(r raw) { plan(r, "body").arena += r.p.arena }},
		{47, "region of the inner loop outside of the body's arena",
			func(r raw) { plan(r, "body").loops[0].offset = plan(r, "body").arena }},
		{47, "condition whose input is elsewhere", func(r raw) {
			at := plan(r, "go").places
			at[0].offset, at[1].offset = at[1].offset, at[0].offset
		}},
		{47, "weight elsewhere than in the program", func(r raw) {
			for _, x := range plan(r, "inner").places {
				if x.space == 0 {
					plan(r, "inner").places = slices.Clone(plan(r, "inner").places)
				}
			}
			for k, x := range plan(r, "inner").places {
				if x.space == 0 {
					plan(r, "inner").places[k].offset += 256
				}
			}
		}},
		{35, "region over an operand", func(r raw) {
			for k, n := range r.g.nodes {
				if n.op == "neg" {
					r.p.places[k].offset = r.p.loops[0].offset
				}
			}
		}},
		{29, "state in a body's plan", func(r raw) { plan(r, "body").arena++ }},
		{30, "value of a body outside its arena", func(r raw) { plan(r, "go").arena = 0 }},
		{32, "step of a body too few", func(r raw) {
			k := number(r, "body")
			r.s.bodies[k].steps = r.s.bodies[k].steps[1:]
		}},
		{33, "steps of a body in an order that overwrites", func(r raw) {
			at := plan(r, "body").places
			for k := range at { // all intermediate values at one place
				if at[k].space == 1 && at[k].parent < 0 && at[k].size > 0 {
					at[k].offset = plan(r, "body").loops[0].offset
				}
			}
			plan(r, "go").places[2].offset = plan(r, "go").places[3].offset
		}},
		{26, "0 iterations", func(r raw) { attr(r.g.nodes, "length", int64(0)) }},
		{26, "2^31 iterations", func(r raw) { attr(r.g.nodes, "length", int64(1<<31)) }},
		{26, "more carried values than operands", func(r raw) { attr(r.g.nodes, "carried", int64(3)) }},
		{26, "a result that there is not", func(r raw) { attr(r.g.nodes, "results", []int64{0, 2}) }},
		{26, "results out of order", func(r raw) { attr(r.g.nodes, "results", []int64{1, 0}) }},
		{26, "a condition that is a body", func(r raw) { attr(r.g.nodes, "cond", rawRef(number(r, "body"))) }},
		{26, "a body of other types", func(r raw) { attr(r.g.nodes, "body", rawRef(number(r, "go"))) }},
		{26, "no body", func(r raw) { attr(r.g.nodes, "body", rawRef(-1)) }},
		{25, "a body that has itself as its body",
			func(r raw) { attr(r.g.bodies[number(r, "body")].nodes, "body", rawRef(number(r, "body"))) }},
		{25, "a state in a body", func(r raw) {
			r.g.bodies[0].nodes[1] = rawNode{op: "state", name: "w", typ: r.g.bodies[0].nodes[1].typ,
				attrs: []ir.Attr{{Name: "init", Value: 0.0}}}
		}},
	} {
		g, pl, s := graphOf(p), planOf(p), schedOf(p)
		for k := range pl.bodies {
			pl.bodies[k].places = slices.Clone(pl.bodies[k].places)
		}
		c.change(raw{&g, &pl, &s})
		b := encoded(func(e *encoder) { encodeWire(e, &g, &pl, &s) })
		if _, err := DecodeProgram(b); !errors.Is(err, code.Verifier(c.check)) {
			t.Errorf("%s: %v; want check %d", c.what, err, c.check)
		} else {
			t.Logf("%s: %v", c.what, err)
		}
	}
}
