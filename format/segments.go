package format

import (
	"math"

	"github.com/rlx-go/rlx/core/program"
)

// rawSplit is a method in segments as stored in SEGM.
type rawSplit struct {
	at             int64
	method, target string
	outputs        []rawSource
	segments       []rawSegment
}

// rawSegment refers to its program by number.
type rawSegment struct {
	inputs        []rawSource
	lacked, moved []program.OpCount
	program       int64
}

// rawSource is [segment, index] in the file.
type rawSource struct{ segment, index int64 }

func (s *rawSplit) encode(e *encoder) {
	e.object(4)
	e.keyStr("method", s.method)
	encodeSources(e, "outputs", s.outputs)
	e.key("segments")
	encodeAll(e, s.segments, (*rawSegment).encode)
	e.keyStr("target", s.target)
}

func (s *rawSegment) encode(e *encoder) {
	e.object(4)
	encodeSources(e, "inputs", s.inputs)
	encodeCounts(e, "lacked", s.lacked)
	encodeCounts(e, "moved", s.moved)
	e.keyInt("program", s.program)
}

func encodeSources(e *encoder, key string, list []rawSource) {
	e.key(key)
	e.list(len(list))
	for _, x := range list {
		e.list(2)
		e.integer(x.segment)
		e.integer(x.index)
	}
}

func decodeSplit(d *decoder) (s rawSplit) {
	s.at = d.at()
	d.object(4, "split")
	s.method = d.keyStr("method", MaxName)
	s.outputs = decodeSources(d, "outputs")
	d.key("segments")
	s.segments = decodeList(d, MaxPrograms, leastSegment, "segments", func() (x rawSegment) {
		d.object(4, "segment")
		x.inputs = decodeSources(d, "inputs")
		x.lacked = decodeCounts(d, "lacked")
		x.moved = decodeCounts(d, "moved")
		x.program = d.keyInt("program", 0, math.MaxInt64)
		return x
	})
	s.target = d.keyStr("target", MaxName)
	return s
}

func decodeSources(d *decoder, key string) []rawSource {
	d.key(key)
	return decodeList(d, MaxSignature, 3, key, func() rawSource {
		d.tuple(2, "source")
		return rawSource{d.integer(program.FromInput, MaxPrograms, "segment"), d.integer(0, MaxSignature, "index")}
	})
}

// splitOf returns s as stored in SEGM. first is the number of its first program.
func splitOf(s *program.Split, first int) rawSplit {
	sources := func(list []program.Source) (out []rawSource) {
		for _, x := range list {
			out = append(out, rawSource{int64(x.Segment), int64(x.Index)})
		}
		return out
	}
	r := rawSplit{method: s.Method, target: s.Target, outputs: sources(s.Outputs)}
	for i, x := range s.Segments {
		r.segments = append(r.segments, rawSegment{sources(x.Inputs), x.Lacked, x.Moved, int64(first + i)})
	}
	return r
}

// checkDivision is the part of check 46 that finds the programs of segments: they must be the last programs, in the
// order of SEGM, each used once. whole is the number of programs before them.
func checkDivision(c *contents) (whole int, err error) {
	where := KindSplits.String()
	n := 0
	for i := range c.splits {
		n += len(c.splits[i].segments)
	}
	next := int64(len(c.graphs) - n)
	whole = int(next)
	for i := range c.splits {
		s := &c.splits[i]
		for k, x := range s.segments {
			if next < 0 || x.program != next {
				return 0,
					fail(checkSegments, where, s.at,
						"segment %d of %.80q is program %d; the segments of all methods are the last of the %d programs, in order",
						k, s.method, x.program, len(c.graphs))
			}
			next++
		}
	}
	return whole, nil
}

// checkSplits runs checks 17 and 46 on SEGM. The programs from index whole on belong to segments.
func checkSplits(c *contents, programs []*program.Program, whole int) (out []*program.Split, err error) {
	where := KindSplits.String()
	has := map[[2]string]bool{}
	for _, p := range programs[:whole] {
		has[[2]string{p.Method, p.Target}] = true
	}
	rest := programs[whole:]
	for i := range c.splits {
		r := &c.splits[i]
		m, ok := c.meta.Method(r.method)
		if !ok {
			return nil, fail(27, where, r.at, "META has no method %.80q", r.method)
		}
		if err := m.check(where, r.at); err != nil {
			return nil, err
		}
		key := [2]string{r.method, r.target}
		if has[key] {
			return nil, fail(17, where, r.at, "method %q for target %q is listed twice", r.method, r.target)
		}
		has[key] = true
		s := &program.Split{Method: r.method, Target: r.target, Outputs: sourcesOf(r.outputs)}
		for _, x := range r.segments {
			if err := checkCounts(where, r.at, x.lacked, x.moved); err != nil {
				return nil, err
			}
			s.Segments = append(
				s.Segments, program.Segment{Program: rest[0], Inputs: sourcesOf(x.inputs), Lacked: x.lacked,
					Moved: x.moved})
			rest = rest[1:]
		}
		if err := s.Check(m.signature()); err != nil {
			return nil, fail(checkSegments, where, r.at, "method %s for %.80q: %w", r.method, r.target, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func sourcesOf(list []rawSource) (out []program.Source) {
	for _, x := range list {
		out = append(out, program.Source{Segment: int(x.segment), Index: int(x.index)})
	}
	return out
}

// check runs checks 17, 18 and 28 on the signature of a method. No single program need have this signature.
func (m *Method) check(where string, at int64) error {
	if err := checkSyms(m.Syms, where, at); err != nil {
		return err
	}
	for _, list := range [][]Value{m.Inputs, m.Outputs} {
		seen := names{}
		for _, v := range list {
			if err := seen.add(where, at, "input or output", v.Name); err != nil {
				return err
			}
			t := typeOf(v.Type)
			if _, err := checkType(&t, m.Syms, where, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// signature returns the method's signature without names.
func (m *Method) signature() program.Signature {
	s := program.Signature{Syms: m.Syms}
	for _, v := range m.Inputs {
		s.Inputs = append(s.Inputs, v.Type)
	}
	for _, v := range m.Outputs {
		s.Outputs = append(s.Outputs, v.Type)
	}
	return s
}
