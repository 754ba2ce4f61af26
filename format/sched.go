package format

import (
	"math"

	"github.com/rlx-go/rlx/core/program"
)

// rawSched is a program's part of SCHD.
type rawSched struct {
	at     int64
	queues int64 // 1 in this version
	steps  []rawStep
	bodies []rawBodySched // of the graphs of loops
}

// rawBodySched is the schedule of a graph of a loop.
type rawBodySched struct {
	body int64 // number of the graph
	rawSched
}

// rawStep has the number of its node.
type rawStep struct{ at, node int64 }

func (s *rawSched) encode(e *encoder) {
	e.object(2 + min(len(s.bodies), 1))
	if len(s.bodies) > 0 {
		e.key("bodies")
		encodeAll(e, s.bodies, (*rawBodySched).encode)
	}
	e.keyInt("queues", s.queues)
	s.encodeSteps(e)
}

func (s *rawBodySched) encode(e *encoder) {
	e.object(2)
	e.keyInt("body", s.body)
	s.encodeSteps(e)
}

func (s *rawSched) encodeSteps(e *encoder) {
	e.key("steps")
	e.list(len(s.steps))
	for _, x := range s.steps {
		e.integer(x.node)
	}
}

func decodeSched(d *decoder) (s rawSched) {
	s.at = d.at()
	if d.objectOf(2, 3, "schedule") == 3 {
		d.key("bodies")
		s.bodies = decodeList(d, MaxBodies, leastBodySched, "bodies", func() (b rawBodySched) {
			b.at, b.queues = d.at(), 1
			d.object(2, "body")
			b.body = d.keyInt("body", 0, MaxBodies)
			b.steps = decodeSteps(d)
			return b
		})
		if len(s.bodies) == 0 {
			d.fail("bodies has no items; want no field bodies")
		}
	}
	s.queues = d.keyInt("queues", 0, math.MaxInt32)
	s.steps = decodeSteps(d)
	return s
}

func decodeSteps(d *decoder) []rawStep {
	d.key("steps")
	return decodeList(d, MaxSteps, 1, "steps", func() rawStep {
		return rawStep{d.at(), d.integer(0, math.MaxInt64, "node")}
	})
}

// schedOf returns the schedule of p as stored in SCHD.
func schedOf(p *program.Program) rawSched {
	r := stepsOf(p)
	nested, numbers := nestedOf(p)
	for i, x := range nested {
		r.bodies = append(r.bodies, rawBodySched{numbers[i], stepsOf(x)})
	}
	return r
}

// stepsOf returns the schedule of p without those of the graphs of its loops.
func stepsOf(p *program.Program) rawSched {
	r := rawSched{queues: 1, steps: make([]rawStep, 0, len(p.Steps))}
	for _, s := range p.Steps {
		r.steps = append(r.steps, rawStep{node: int64(s.Node)})
	}
	return r
}
