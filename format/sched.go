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
}

// rawStep has the number of its node.
type rawStep struct{ at, node int64 }

func (s *rawSched) encode(e *encoder) {
	e.object(2)
	e.keyInt("queues", s.queues)
	e.key("steps")
	e.list(len(s.steps))
	for _, x := range s.steps {
		e.integer(x.node)
	}
}

func decodeSched(d *decoder) (s rawSched) {
	s.at = d.at()
	d.object(2, "schedule")
	s.queues = d.keyInt("queues", 0, math.MaxInt32)
	d.key("steps")
	s.steps = decodeList(d, MaxSteps, 1, "steps", func() rawStep {
		return rawStep{d.at(), d.integer(0, math.MaxInt64, "node")}
	})
	return s
}

// schedOf returns the schedule of p as stored in SCHD.
func schedOf(p *program.Program) rawSched {
	r := rawSched{queues: 1, steps: make([]rawStep, 0, len(p.Steps))}
	for _, s := range p.Steps {
		r.steps = append(r.steps, rawStep{node: int64(s.Node)})
	}
	return r
}
