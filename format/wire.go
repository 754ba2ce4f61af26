package format

import "github.com/rlx-go/rlx/core/program"

// EncodeProgram encodes a verified program for a backend: its parts of GRPH, PLAN and SCHD as {"graph", "plan",
// "sched"}. It contains the offsets of the weights but not the weights. It does not verify the program again;
// DecodeProgram does, in the process that runs it.
func EncodeProgram(p *program.Program) ([]byte, error) {
	g, pl, s := graphOf(p), planOf(p), schedOf(p)
	b := encoded(func(e *encoder) { encodeWire(e, &g, &pl, &s) })
	if len(b) > MaxSectionSize {
		return nil, fail(14, wireName, -1, "%d bytes; at most %d", len(b), MaxSectionSize)
	}
	return b, nil
}

func encodeWire(e *encoder, g *rawGraph, pl *rawPlan, s *rawSched) {
	e.object(3)
	e.key("graph")
	g.encode(e)
	e.key("plan")
	pl.encode(e)
	e.key("sched")
	s.encode(e)
}

// wireName replaces the section's name in errors about a program that was sent.
const wireName = "program"

// DecodeProgram decodes and verifies the output of EncodeProgram. It runs those of checks 13 to 38 that concern one
// program, and trusts nothing. Params are accepted as declared; compare Program.WeightsExtent with the size of the
// weights before use. It returns the same errors as Open.
func DecodeProgram(b []byte) (p *program.Program, err error) {
	if len(b) > MaxSectionSize {
		return nil, fail(14, wireName, -1, "%d bytes; at most %d", len(b), MaxSectionSize)
	}
	err = guard(func() error {
		if f := walk(b, MaxDepth, MaxValues); f != nil {
			return fail(f.check, wireName, int64(f.at), "%s", f.msg)
		}
		d := newDecoder(wireName, b)
		d.object(3, wireName)
		d.key("graph")
		g := decodeGraph(d)
		d.key("plan")
		pl := decodePlan(d)
		d.key("sched")
		s := decodeSched(d)
		if err := d.end(1, 1); err != nil {
			return err
		}
		if at := differs(b, func(e *encoder) { encodeWire(e, &g, &pl, &s) }); at >= 0 {
			return fail(16, wireName, int64(at), "the program is not in its canonical encoding")
		}
		if err := checkDims([]rawGraph{g}); err != nil {
			return err
		}
		p, err = checkProgram(&g, &pl, &s, nil, Policy{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}
