package format

import "github.com/rlx-go/rlx/core/program"

// contents has the decoded msgpack sections. encode and decode are inverses of each other.
type contents struct {
	meta    *Meta
	graphs  []rawGraph
	plans   []rawPlan
	scheds  []rawSched
	splits  []rawSplit
	tensors []rawTensor
	mutable []int64 // weights that may be replaced, by their number in tensors
}

func contentsOf(m *Meta, programs []*program.Program, splits []*program.Split, weights []Tensor) *contents {
	c := &contents{meta: m}
	for i, t := range weights {
		if t.Mutable {
			c.mutable = append(c.mutable, int64(i))
		}
		c.tensors = append(c.tensors, rawTensor{name: t.Name, typ: typeOf(t.Type), offset: t.Offset, size: t.Size})
	}
	add := func(p *program.Program) {
		c.graphs = append(c.graphs, graphOf(p))
		c.plans = append(c.plans, planOf(p))
		c.scheds = append(c.scheds, schedOf(p))
	}
	for _, p := range programs {
		add(p)
	}
	for _, s := range splits {
		c.splits = append(c.splits, splitOf(s, len(c.graphs)))
		for _, x := range s.Segments {
			add(x.Program)
		}
	}
	return c
}

// codec reads and writes one msgpack section. items returns the number that the section table states; an optional
// section is written if that is not 0.
type codec struct {
	kind   Kind
	encode func(c *contents, e *encoder)
	decode func(c *contents, d *decoder)
	items  func(c *contents) int
}

var codecs = [...]codec{
	{KindMeta, func(c *contents, e *encoder) { c.meta.encode(e) },
		func(c *contents, d *decoder) { c.meta = decodeMeta(d) },
		func(*contents) int { return 1 }},
	{KindGraph, func(c *contents, e *encoder) { encodeAll(e, c.graphs, (*rawGraph).encode) },
		func(c *contents, d *decoder) {
			c.graphs = decodeList(d, MaxPrograms, leastGraph, "graphs",
				func() rawGraph { return decodeGraph(d) })
		},
		func(c *contents) int { return len(c.graphs) }},
	{KindPlan, func(c *contents, e *encoder) { encodeAll(e, c.plans, (*rawPlan).encode) },
		func(c *contents, d *decoder) {
			c.plans = decodeList(d, MaxPrograms, leastPlan, "plans",
				func() rawPlan { return decodePlan(d) })
		},
		func(c *contents) int { return len(c.plans) }},
	{KindSched, func(c *contents, e *encoder) { encodeAll(e, c.scheds, (*rawSched).encode) },
		func(c *contents, d *decoder) {
			c.scheds = decodeList(d, MaxPrograms, leastSched, "schedules",
				func() rawSched { return decodeSched(d) })
		},
		func(c *contents) int { return len(c.scheds) }},
	{KindSplits, func(c *contents, e *encoder) { encodeAll(e, c.splits, (*rawSplit).encode) },
		func(c *contents, d *decoder) {
			c.splits = decodeList(d, MaxPrograms, leastSplit, "splits",
				func() rawSplit { return decodeSplit(d) })
		},
		func(c *contents) int { return len(c.splits) }},
	{KindTensor, func(c *contents, e *encoder) { encodeAll(e, c.tensors, (*rawTensor).encode) },
		func(c *contents, d *decoder) {
			c.tensors = decodeList(d, MaxWeights, leastTensor, "weights",
				func() rawTensor { return decodeTensor(d) })
		},
		func(c *contents) int { return len(c.tensors) }},
	{KindChange, func(c *contents, e *encoder) {
		e.list(len(c.mutable))
		for _, i := range c.mutable {
			e.integer(i)
		}
	},
		func(c *contents, d *decoder) {
			c.mutable = decodeList(d, MaxWeights, 1, "weights",
				func() int64 { return d.integer(0, MaxWeights, "weight") })
		},
		func(c *contents) int { return len(c.mutable) }},
}

// written reports whether a file with these contents has the section.
func (k codec) written(c *contents) bool {
	info, _ := findKind(k.kind)
	return info.there == always || k.items(c) > 0
}

func encodeAll[T any](e *encoder, list []T, encode func(*T, *encoder)) {
	e.list(len(list))
	for i := range list {
		encode(&list[i], e)
	}
}

func (k codec) bytes(c *contents) []byte {
	return encoded(func(e *encoder) { k.encode(c, e) })
}

// read runs checks 13 to 16 on a section's bytes and decodes them into c.
func (k codec) read(c *contents, b []byte, items uint64) error {
	name := k.kind.String()
	if f := walk(b, MaxDepth, MaxValues); f != nil {
		return fail(f.check, name, int64(f.at), "%s", f.msg)
	}
	d := newDecoder(name, b)
	k.decode(c, d)
	if err := d.end(k.items(c), items); err != nil {
		return err
	}
	if !k.written(c) {
		return fail(checkSchema, name, 0, "the section is empty; a file without its contents has no such section")
	}
	if at := differs(b, func(e *encoder) { k.encode(c, e) }); at >= 0 {
		return fail(16, name, int64(at), "the section is not in its canonical encoding")
	}
	return nil
}

// firstDifference returns the first offset at which a and b differ, or -1 if they are equal.
func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}
