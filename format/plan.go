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
	// of loops: both lists are empty, or neither is
	loops  []rawLoop
	bodies []rawBodyPlan
}

// rawLoop is [node, offset of its region in the arena] in the file.
type rawLoop struct{ at, node, offset int64 }

// rawBodyPlan is the plan of a graph of a loop.
type rawBodyPlan struct {
	body int64 // number of the graph
	rawPlan
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
	e.object(4 + 2*min(len(p.bodies), 1))
	e.keyInt("arena", p.arena)
	if len(p.bodies) > 0 {
		e.key("bodies")
		encodeAll(e, p.bodies, (*rawBodyPlan).encode)
	}
	e.keyInt("io", p.io)
	p.encodePlaces(e)
	e.keyInt("state", p.state)
}

func (p *rawBodyPlan) encode(e *encoder) {
	e.object(4 + min(len(p.loops), 1))
	e.keyInt("arena", p.arena)
	e.keyInt("body", p.body)
	e.keyInt("io", p.io)
	p.encodePlaces(e)
}

// encodePlaces writes the fields loops, if there are some, and places.
func (p *rawPlan) encodePlaces(e *encoder) {
	if len(p.loops) > 0 {
		e.key("loops")
		encodeAll(e, p.loops, (*rawLoop).encode)
	}
	e.key("places")
	e.list(len(p.places))
	for _, x := range p.places {
		e.list(4)
		e.integer(x.space)
		e.integer(x.offset)
		e.integer(x.size)
		e.integer(x.parent)
	}
}

func (l *rawLoop) encode(e *encoder) {
	e.list(2)
	e.integer(l.node)
	e.integer(l.offset)
}

func decodePlan(d *decoder) (p rawPlan) {
	p.at = d.at()
	fields := d.objectOf(4, 6, "plan")
	if fields == 5 {
		d.fail("plan has 5 fields; want 4, or 6 with bodies and loops")
	}
	p.arena = d.keyInt("arena", 0, math.MaxInt64)
	if fields == 6 {
		d.key("bodies")
		p.bodies = decodeList(d, MaxBodies, leastBodyPlan, "bodies", func() rawBodyPlan {
			return decodeBodyPlan(d)
		})
		if len(p.bodies) == 0 {
			d.fail("bodies has no items; want no field bodies")
		}
	}
	p.io = d.keyInt("io", 0, math.MaxInt64)
	p.decodePlaces(d, fields == 6)
	p.state = d.keyInt("state", 0, math.MaxInt64)
	return p
}

func decodeBodyPlan(d *decoder) (p rawBodyPlan) {
	p.at = d.at()
	fields := d.objectOf(4, 5, "body")
	p.arena = d.keyInt("arena", 0, math.MaxInt64)
	p.body = d.keyInt("body", 0, MaxBodies)
	p.io = d.keyInt("io", 0, math.MaxInt64)
	p.decodePlaces(d, fields == 5)
	return p
}

// decodePlaces reads the fields loops, if the plan has it, and places.
func (p *rawPlan) decodePlaces(d *decoder, loops bool) {
	if loops {
		d.key("loops")
		p.loops = decodeList(d, MaxNodes, 3, "loops", func() rawLoop {
			l := rawLoop{at: d.at()}
			d.tuple(2, "loop")
			l.node = d.integer(0, math.MaxInt64, "node")
			l.offset = d.integer(0, math.MaxInt64, "offset")
			return l
		})
		if len(p.loops) == 0 {
			d.fail("loops has no items; want no field loops")
		}
	}
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
}

// nestedOf returns the programs of p's loops, by the numbers of their graphs among all graphs that attributes refer to.
func nestedOf(p *program.Program) (list []*program.Program, numbers []int64) {
	by := map[string]*program.Program{} // different graphs have different names
	for _, x := range p.Nested() {
		by[x.Graph.Name] = x
	}
	for i, b := range distinctBodies(p.Graph) {
		if x := by[b.Name]; x != nil {
			list, numbers = append(list, x), append(numbers, int64(i))
		}
	}
	return list, numbers
}

// planOf returns the plan of p as stored in PLAN.
func planOf(p *program.Program) rawPlan {
	r := placesOf(p)
	nested, numbers := nestedOf(p)
	for i, x := range nested {
		r.bodies = append(r.bodies, rawBodyPlan{numbers[i], placesOf(x)})
	}
	return r
}

// placesOf returns the plan of p without those of the graphs of its loops.
func placesOf(p *program.Program) rawPlan {
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
	for _, l := range p.Loops {
		r.loops = append(r.loops, rawLoop{node: int64(l.Node), offset: l.Offset})
	}
	return r
}
