package format

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// A subject is an artifact that campaigns forge.
type subject struct {
	c       *contents
	weights []byte
}

var (
	subjectsOnce sync.Once
	subjectList  []subject
)

// subjects returns an artifact for each program of the test artifact, one with a program in segments, one with loops,
// and last the whole test artifact. The small ones are verified in a small part of the time.
func subjects(t testing.TB) []subject {
	t.Helper()
	subjectsOnce.Do(func() {
		a, weights := splitArtifact(t)
		meta := Meta{Model: "forged", Producer: Producer{"rlxc", "test"}}
		for _, p := range a.Programs {
			some := slices.Clone(weights)
			for i := range some {
				n, ok := p.Graph.Find(some[i].Name)
				some[i].Mutable = some[i].Mutable && ok && n.Op.Name == "param"
			}
			addSubject(t, Artifact{Meta: meta, Programs: []*program.Program{p}}, some)
		}
		plain := slices.Clone(weights)
		for i := range plain {
			plain[i].Mutable = false
		}
		segments := meta
		for _, s := range a.Splits {
			m, _ := a.Meta.Method(s.Method)
			segments.Methods = append(segments.Methods, *m)
		}
		addSubject(t, Artifact{Meta: segments, Splits: a.Splits}, plain)
		loop, own := loopArtifact(t)
		addSubject(t, loop, own)
		addSubject(t, a, weights)
	})
	return subjectList
}

func addSubject(t testing.TB, a Artifact, weights []Weight) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.rlx")
	if _, err := Write(context.Background(), path, a, weights); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verifyBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	s := subject{c: decodeContents(v, b)}
	off, size := v.WeightsSection()
	s.weights = b[off:][:size]
	subjectList = append(subjectList, s)
}

// decodeContents decodes the sections of the artifact v, whose bytes are b.
func decodeContents(v *Verified, b []byte) *contents {
	c := &contents{}
	for _, k := range codecs {
		if s, ok := v.c.section(k.kind); ok {
			k.decode(c, newDecoder(k.kind.String(), b[s.Offset:][:s.Size]))
		}
	}
	return c
}

// forgeOne returns a copy of one of the subjects: rarely of the whole artifact, and rather of one with few nodes.
func forgeOne(t testing.TB, r *rand.Rand) *forgery {
	list := subjects(t)
	s := list[len(list)-1]
	if r.IntN(1024) > 0 {
		s = list[r.IntN(len(list)-1)]
		for range r.IntN(4) {
			if other := list[r.IntN(len(list)-1)]; other.c.size() < s.c.size() {
				s = other
			}
		}
	}
	return &forgery{c: s.c.clone(), weights: s.weights}
}

// size returns the number of nodes.
func (c *contents) size() (n int) {
	for i := range c.graphs {
		n += len(c.graphs[i].nodes)
		for k := range c.graphs[i].bodies {
			n += len(c.graphs[i].bodies[k].nodes)
		}
	}
	return n
}

// clone returns a copy that mutate may change. The description of the artifact is shared.
func (c *contents) clone() *contents {
	d := *c
	d.graphs, d.plans, d.scheds = slices.Clone(c.graphs), slices.Clone(c.plans), slices.Clone(c.scheds)
	for i := range d.graphs {
		g := &d.graphs[i]
		g.nodes, g.syms, g.outputs = cloneNodes(g.nodes), slices.Clone(g.syms), slices.Clone(g.outputs)
		g.bodies = slices.Clone(g.bodies)
		for k := range g.bodies {
			b := &g.bodies[k]
			b.nodes, b.syms, b.outputs = cloneNodes(b.nodes), slices.Clone(b.syms), slices.Clone(b.outputs)
		}
		d.plans[i].clone()
		d.scheds[i].clone()
	}
	d.splits = slices.Clone(c.splits)
	for i := range d.splits {
		s := &d.splits[i]
		s.outputs, s.segments = slices.Clone(s.outputs), slices.Clone(s.segments)
		for k := range s.segments {
			s.segments[k].inputs = slices.Clone(s.segments[k].inputs)
		}
	}
	d.tensors = slices.Clone(c.tensors)
	return &d
}

func (p *rawPlan) clone() {
	p.places, p.loops, p.bodies = slices.Clone(p.places), slices.Clone(p.loops), slices.Clone(p.bodies)
	for i := range p.bodies {
		p.bodies[i].clone()
	}
}

func (s *rawSched) clone() {
	s.steps, s.bodies = slices.Clone(s.steps), slices.Clone(s.bodies)
	for i := range s.bodies {
		s.bodies[i].clone()
	}
}

// cloneNodes copies nodes. Their lists of numbers share one block of memory.
func cloneNodes(nodes []rawNode) []rawNode {
	out, ints, attrs, dims := slices.Clone(nodes), 0, 0, 0
	for i := range out {
		ints, attrs, dims = ints+len(out[i].in), attrs+len(out[i].attrs), dims+len(out[i].typ.shape)
	}
	allInts, allAttrs, allDims := make([]int64, 0, ints), make([]ir.Attr, 0, attrs), make(ir.Shape, 0, dims)
	for i := range out {
		n := &out[i]
		n.in, allInts = copyTo(allInts, n.in)
		n.attrs, allAttrs = copyTo(allAttrs, n.attrs)
		n.typ.shape, allDims = copyTo(allDims, n.typ.shape)
		n.optional = slices.Clone(n.optional)
		for k := range n.attrs {
			if v, ok := n.attrs[k].Value.([]int64); ok {
				n.attrs[k].Value = slices.Clone(v)
			}
		}
	}
	return out
}

// copyTo appends list to all and returns the copy, which has no room to grow, and all.
func copyTo[S ~[]E, E any](all, list S) (made, rest S) {
	first := len(all)
	all = append(all, list...)
	return all[first:len(all):len(all)], all
}

// TestSubjects checks that the subjects are right as they are, and a change of a copy leaves them so.
func TestSubjects(t *testing.T) {
	var before [][]byte
	all := func() (files [][]byte) {
		for _, s := range subjects(t) {
			files = append(files, (&forgery{c: s.c, weights: s.weights}).file())
		}
		return files
	}
	for i, b := range all() {
		if _, err := verifyBytes(b); err != nil {
			t.Errorf("subject %d: %v", i, err)
		}
		before = append(before, b)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 20000 {
		mutate(r, forgeOne(t, r).c)
	}
	for i, b := range all() {
		if !slices.Equal(b, before[i]) {
			t.Errorf("subject %d has changed", i)
		}
	}
}
