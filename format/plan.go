package format

import (
	"math"

	"github.com/rlx-go/rlx/core/program"
)

// rawPlan is a program's part of PLAN.
type rawPlan struct {
	at               int64
	arena, io, state int64 // sizes in bytes
	places           []rawPlace
}

// rawPlace is [space, offset, size, parent] in the file.
type rawPlace struct {
	at                   int64
	space                int64 // index in spaces
	offset, size, parent int64
}

// spaces maps numbers in the file to spaces. Numbers are never reused.
var spaces = [...]program.Space{program.Weights, program.Arena, program.IO, program.State}

func (p *rawPlan) encode(e *encoder) {
	e.object(4)
	e.keyInt("arena", p.arena)
	e.keyInt("io", p.io)
	e.key("places")
	e.list(len(p.places))
	for _, x := range p.places {
		e.list(4)
		e.integer(x.space)
		e.integer(x.offset)
		e.integer(x.size)
		e.integer(x.parent)
	}
	e.keyInt("state", p.state)
}

func decodePlan(d *decoder) (p rawPlan) {
	p.at = d.at()
	d.object(4, "plan")
	p.arena = d.keyInt("arena", 0, math.MaxInt64)
	p.io = d.keyInt("io", 0, math.MaxInt64)
	d.key("places")
	p.places = decodeList(d, MaxNodes, 5, "places", func() rawPlace {
		x := rawPlace{at: d.at()}
		d.tuple(4, "place")
		x.space = d.integer(0, math.MaxInt32, "space")
		x.offset = d.integer(0, math.MaxInt64, "offset")
		x.size = d.integer(0, math.MaxInt64, "size")
		x.parent = d.integer(-1, math.MaxInt64, "parent")
		return x
	})
	p.state = d.keyInt("state", 0, math.MaxInt64)
	return p
}

// planOf returns the plan of p as stored in PLAN.
func planOf(p *program.Program) rawPlan {
	r := rawPlan{arena: p.ArenaSize, io: p.IOSize, state: p.StateSize, places: make([]rawPlace, 0, len(p.Places))}
	for _, x := range p.Places {
		code := int64(-1)
		for i, s := range spaces {
			if s == x.Space {
				code = int64(i)
			}
		}
		r.places = append(r.places, rawPlace{space: code, offset: x.Offset, size: x.Size, parent: int64(x.Parent)})
	}
	return r
}
