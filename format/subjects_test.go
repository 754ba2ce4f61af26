package format

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
)

// A subject is an artifact that campaigns forge.
type subject struct {
	number  int
	nodes   int
	c       *contents
	weights []byte
	bytes   [][]byte // of its sections, by codec; empty if it does not have the section
}

var (
	subjectsOnce sync.Once
	subjectList  []*subject
	opSubjects   []*subject // programs of one op
)

// subjects returns an artifact for each program of the test artifact, one with a program in segments, one with loops,
// and last the whole test artifact. The small ones are verified in a small part of the time.
func subjects(t testing.TB) []*subject {
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
		addOpSubjects(t)
	})
	return subjectList
}

// addOpSubjects adds programs for cases of each op. In every other one, the op's operands and results are in the arena.
func addOpSubjects(t testing.TB) {
	t.Helper()
	for _, def := range ir.Defs() {
		if def.Block || def.Effects || def.Updates || def.Nested || def.Eval == nil {
			continue
		}
		for i, c := range def.Cases() {
			outs, err := def.InferResults(c.Attrs, c.In, c.Out, nil)
			if err != nil {
				t.Fatal(def.Name, err)
			}
			g := ir.NewGraph(def.Name)
			nodes, bytes := make([]*ir.Node, len(c.In)), int64(0)
			for k, typ := range c.In {
				if !typ.Present() {
					continue
				}
				bytes += typ.Bytes(nil)
				nodes[k] = op.Input(g, fmt.Sprint("x", k), typ)
				if i%2 == 1 {
					nodes[k] = op.Copy(nodes[k])
				}
			}
			if i >= 4 || bytes > 1<<14 {
				continue
			}
			var results []*ir.Node
			if def.Tuple {
				results = g.AddResults(len(outs), def, c.Attrs, nodes...)
			} else {
				results = append(results, g.AddDeclared(def, c.Attrs, c.Out, nodes...))
			}
			for k, n := range results {
				if i%2 == 1 {
					n = op.Copy(n)
				}
				g.Return(fmt.Sprint("y", k), n)
			}
			p, _, err := sched.Build(g, sched.Options{Method: "main", Target: "cpu"})
			if err != nil {
				t.Fatal(def.Name, i, err)
			}
			meta := &Meta{Model: "op", Opset: Opset, Methods: []Method{MethodOf("main", p.Graph)}}
			made, err := newSubject(contentsOf(meta, []*program.Program{p}, nil, nil))
			if err != nil {
				t.Fatal(def.Name, i, err)
			}
			made.number = -1 - len(opSubjects)
			opSubjects = append(opSubjects, made)
		}
	}
}

// newSubject encodes and decodes the sections of a subject without weights.
func newSubject(c *contents) (*subject, error) {
	s := &subject{c: &contents{}}
	for _, k := range codecs {
		b := k.bytes(c)
		s.bytes = append(s.bytes, b)
		if k.written(c) {
			if err := k.read(s.c, b, uint64(k.items(c))); err != nil {
				return nil, err
			}
		}
	}
	s.nodes = s.c.size()
	_, _, _, err := checkContents(s.c, 0, Policy{})
	return s, err
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
	s := &subject{number: len(subjectList), c: decodeContents(v, b)}
	s.nodes = s.c.size()
	off, size := v.WeightsSection()
	s.weights = b[off:][:size]
	for _, k := range codecs {
		s.bytes = append(s.bytes, k.bytes(s.c))
	}
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

// A forged is a changed subject.
type forged struct {
	*subject
	c     *contents
	bytes [len(codecs)][]byte // the sections that have changed, by codec
}

// forgeOne changes one of the subjects: a program of one op or one of the artifacts, rarely the whole one, and rather
// one with few nodes.
func forgeOne(t testing.TB, seed, stream uint64) *forged {
	list := subjects(t)
	r := rand.New(rand.NewPCG(seed, stream))
	s := list[len(list)-1]
	switch k := r.IntN(1024); {
	case k >= 512:
		s = opSubjects[r.IntN(len(opSubjects))]
	case k > 0:
		s = list[r.IntN(len(list)-1)]
		for range r.IntN(4) {
			if other := list[r.IntN(len(list)-1)]; other.nodes < s.nodes {
				s = other
			}
		}
	}
	m := newMutant(s.c)
	f := &forged{subject: s, c: m.c}
	for done := false; !done; {
		mutate(r, m)
		for i, k := range codecs {
			if !m.changed[i] {
				continue
			}
			if b := k.bytes(f.c); !bytes.Equal(b, s.bytes[i]) {
				f.bytes[i], done = b, true
			}
		}
	}
	return f
}

// read reads the sections as Verify does, except those that are known to be right as they have not changed.
func (f *forged) read() (*contents, error) {
	c := *f.c
	for i, k := range codecs {
		if b := f.bytes[i]; b != nil && k.written(f.c) {
			if err := k.read(&c, b, uint64(k.items(f.c))); err != nil {
				return nil, err
			}
		}
	}
	return &c, nil
}

// judged has the forgeries that were accepted and right, by a digest of what has changed. Many are forged again.
var judged sync.Map

// judge checks what the verifier found: either an error of a bad artifact, or an artifact that is right.
func (f *forged) judge(t testing.TB, v *Verified, err error) {
	t.Helper()
	if err != nil {
		if diag.ExitCode(err) != 4 {
			t.Fatal(err)
		}
		return
	}
	h := sha256.New()
	for i, b := range f.bytes {
		fmt.Fprintln(h, f.number, i, len(b))
		h.Write(b)
	}
	key := [sha256.Size]byte(h.Sum(nil))
	if _, ok := judged.Load(key); ok {
		return
	}
	checkAccepted(t, v.All())
	for _, s := range v.Splits() {
		m, _ := v.meta.Method(s.Method)
		checkSplit(t, m, s)
	}
	judged.Store(key, true)
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

// Numbers of codecs, for the sections that mutate changes.
const (
	partGraph = iota + 1
	partPlan
	partSched
	partSplits
	partTensors
)

// A mutant is the contents of an artifact that mutate changes. It copies a part before it changes it for the first
// time.
type mutant struct {
	c       *contents
	changed [len(codecs)]bool   // by section: it may have changed
	owned   [len(codecs)]uint64 // by section: the programs of which it is a copy, as bits
}

func newMutant(c *contents) *mutant {
	d := *c
	return &mutant{c: &d}
}

func (g *rawGraph) clone() {
	g.nodes, g.syms, g.outputs = cloneNodes(g.nodes), slices.Clone(g.syms), slices.Clone(g.outputs)
	g.bodies = slices.Clone(g.bodies)
	for k := range g.bodies {
		b := &g.bodies[k]
		b.nodes, b.syms, b.outputs = cloneNodes(b.nodes), slices.Clone(b.syms), slices.Clone(b.outputs)
	}
}

func (s *rawSplit) clone() {
	s.outputs, s.segments = slices.Clone(s.outputs), slices.Clone(s.segments)
	for k := range s.segments {
		s.segments[k].inputs = slices.Clone(s.segments[k].inputs)
	}
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
	for _, s := range opSubjects {
		if _, err := verifyBytes((&forgery{c: s.c}).file()); err != nil {
			t.Errorf("%v: %v", s.c.graphs[0].nodes, err)
		}
	}
	for i, b := range all() {
		if _, err := verifyBytes(b); err != nil {
			t.Errorf("subject %d: %v", i, err)
		}
		before = append(before, b)
	}
	for seed := range uint64(5000) {
		f := forgeOne(t, seed, 1)
		for i, k := range codecs {
			if b := k.bytes(f.c); f.bytes[i] == nil && !bytes.Equal(b, f.subject.bytes[i]) {
				t.Fatalf("forgery %d: %v has changed unnoticed", seed, k.kind)
			}
		}
		if c, err := f.read(); err == nil {
			checkContents(c, 1<<20, Policy{})
		}
	}
	for i, b := range all() {
		if !slices.Equal(b, before[i]) {
			t.Errorf("subject %d has changed", i)
		}
	}
}
