package format

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// In the test artifact the method chain is compiled in segments for the target few: graphs 11 to 13 are chainTexts.

// TestBadSegments checks that each fault in SEGM is found, with the right check number and message.
func TestBadSegments(t *testing.T) {
	split := func(change func(*rawSplit)) func(*forgery) {
		return func(f *forgery) { change(&f.c.splits[0]) }
	}
	graph := func(i int, change func(*rawGraph)) func(*forgery) {
		return func(f *forgery) { change(&f.c.graphs[11+i]) }
	}
	last := func(change func(*Method)) func(*forgery) {
		return func(f *forgery) { change(&f.c.meta.Methods[len(f.c.meta.Methods)-1]) }
	}
	files := []badFile{
		{17, "split twice for a target",
			func(f *forgery) { f.c.splits[0].method, f.c.splits[0].target = "encode", "cpu" }},
		{17, "ops out of order",
			split(
				func(s *rawSplit) {
					s.segments[1].lacked = []program.OpCount{{Op: "b", Count: 1}, {Op: "a", Count: 1}}
				})},
		{17, "op without a name",
			split(func(s *rawSplit) { s.segments[1].moved = []program.OpCount{{Op: "", Count: 1}} })},
		{17, "input of the method twice", last(func(m *Method) { m.Inputs[1].Name = "x" })},
		{17, "output of the method without a name", last(func(m *Method) { m.Outputs[1].Name = "" })},
		{18, "input that nothing reads, of too many elements", last(func(m *Method) {
			m.Inputs[1].Type = ir.Type{DType: m.Inputs[1].Type.DType, Shape: ir.ShapeOf(1<<40, 1<<40)}
		})},
		{46, "no segments", func(f *forgery) {
			f.c.splits[0].segments = nil
			f.c.graphs, f.c.plans, f.c.scheds = f.c.graphs[:11], f.c.plans[:11], f.c.scheds[:11]
		}},
		{46, "program of another method", graph(1, func(g *rawGraph) { g.method = "encode" })},
		{46, "program that is not a segment", split(func(s *rawSplit) { s.segments[0].program = 0 })},
		{46, "program behind the last", split(func(s *rawSplit) { s.segments[2].program = 14 })},
		{46, "programs out of order",
			split(func(s *rawSplit) { s.segments[0].program, s.segments[1].program = 12, 11 })},
		{46, "more segments than programs",
			split(func(s *rawSplit) { s.segments = append(s.segments, make([]rawSegment, 13)...) })},
		{46, "input of a later segment", split(func(s *rawSplit) { s.segments[1].inputs[0] = rawSource{2, 0} })},
		{46, "input of its own segment", split(func(s *rawSplit) { s.segments[1].inputs[0] = rawSource{1, 0} })},
		{46, "input of another type", split(func(s *rawSplit) { s.segments[1].inputs[0] = rawSource{-1, 0} })},
		{46, "input that the method has not", split(func(s *rawSplit) { s.segments[0].inputs[0] = rawSource{-1, 2} })},
		{46, "output that the segment has not", split(func(s *rawSplit) { s.segments[1].inputs[0] = rawSource{0, 1} })},
		{46, "an input too few", split(func(s *rawSplit) { s.segments[2].inputs = s.segments[2].inputs[:1] })},
		{46, "an input too many",
			split(func(s *rawSplit) { s.segments[0].inputs = append(s.segments[0].inputs, rawSource{-1, 0}) })},
		{46, "output that is an input", split(func(s *rawSplit) { s.outputs[0] = rawSource{-1, 0} })},
		{46, "output of another type", last(func(m *Method) { m.Outputs[0].Type = ir.MustType("f32[N,17]") })},
		{46, "an output too few", split(func(s *rawSplit) { s.outputs = s.outputs[:1] })},
		{46, "other symbols", last(func(m *Method) { m.Syms[0].Max = 5 })},
	}
	testBadFiles(t, files)
}

// TestSegments checks that methods in segments are read as they were written, and that their programs are kept apart
// from those of whole methods.
func TestSegments(t *testing.T) {
	v, err := verifyBytes(artifactBytes(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Splits()) != 1 || len(v.All()) != len(v.Programs())+3 {
		t.Fatalf("%d splits; %d programs, %d in all", len(v.Splits()), len(v.Programs()), len(v.All()))
	}
	s := v.Splits()[0]
	if got, want := s.Lowering(), "on cpu: softmax (1)"; got != want || s.Target != "few" ||
		s.Segments[1].Target != "cpu" || s.Segments[2].Inputs[1] != (program.Source{}) {
		t.Errorf("%+v; %s", s, got)
	}
	if _, ok := v.Program("chain", "few"); ok {
		t.Error("a segment is found as a program")
	}
}

// TestOlderReader checks that a reader without support for segments refuses the file and names the section that it does
// not know.
func TestOlderReader(t *testing.T) {
	was := kinds
	defer func() { kinds = was }()
	kinds = nil
	for _, k := range was {
		if k.kind != KindSplits {
			kinds = append(kinds, k)
		}
	}
	_, err := verifyBytes(artifactBytes(t))
	if err == nil || !strings.Contains(err.Error(), "(SEGM): this version does not know this critical section") {
		t.Error(err)
	}
}
