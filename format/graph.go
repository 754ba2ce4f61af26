package format

import (
	"math"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// rawGraph is a graph as stored in GRPH. Decoding has checked only its schema.
type rawGraph struct {
	at             int64 // byte offset in the section, as in all raw types
	method, target string
	nesting        int64     // depth of bodies; without bodies 0
	bodies         []rawBody // graphs to which attributes refer, each after the graphs to which it refers
	syms           ir.Syms
	nodes          []rawNode
	outputs        []rawOutput
	reference      []program.OpCount
	rewritten      []program.OpCount
}

// rawBody is a graph that attributes refer to, by its number.
type rawBody struct {
	at      int64
	name    string
	syms    ir.Syms
	nodes   []rawNode
	outputs []rawOutput
}

type rawNode struct {
	at       int64
	op, name string
	attrs    []ir.Attr     // values of type bool, int64, float64, string, []int64, rawDType or rawRef
	in       []int64       // required operands, or those of a variadic op
	optional []rawOptional // optional operands, by ascending name
	typ      rawType       // empty if the op has several results
}

type rawOutput struct {
	name string
	node int64
}

type rawOptional struct {
	name string
	node int64
}

// rawDType is the name of an element type, which may be unknown.
type rawDType string

// rawRef is the number of a body, or -1.
type rawRef int64

type rawType struct {
	dtype rawDType
	shape ir.Shape
}

func (g *rawGraph) encode(e *encoder) {
	if len(g.bodies) > 0 {
		e.object(9)
		e.key("bodies")
		e.list(len(g.bodies))
		for i := range g.bodies {
			g.bodies[i].encode(e)
		}
	} else {
		e.object(8)
	}
	e.keyStr("method", g.method)
	e.keyInt("nesting", g.nesting)
	encodeNodes(e, g.nodes, g.outputs)
	encodeCounts(e, "reference", g.reference)
	encodeCounts(e, "rewritten", g.rewritten)
	e.key("syms")
	encodeSyms(e, g.syms)
	e.keyStr("target", g.target)
}

func decodeGraph(d *decoder) (g rawGraph) {
	g.at = d.at()
	count := nodeCounter{d: d}
	if d.objectOf(8, 9, "graph") == 9 {
		d.key("bodies")
		g.bodies = decodeList(d, MaxBodies, leastBody, "bodies", func() rawBody {
			return decodeBody(d, &count)
		})
		if len(g.bodies) == 0 {
			d.fail("bodies has no items; want no field bodies")
		}
	}
	g.method = d.keyStr("method", MaxName)
	g.nesting = d.keyInt("nesting", 0, math.MaxInt32)
	g.nodes, g.outputs = count.nodes()
	g.reference = decodeCounts(d, "reference")
	g.rewritten = decodeCounts(d, "rewritten")
	d.key("syms")
	g.syms = decodeSyms(d)
	g.target = d.keyStr("target", MaxName)
	return g
}

func (b *rawBody) encode(e *encoder) {
	e.object(4)
	e.keyStr("name", b.name)
	encodeNodes(e, b.nodes, b.outputs)
	e.key("syms")
	encodeSyms(e, b.syms)
}

func decodeBody(d *decoder, count *nodeCounter) (b rawBody) {
	b.at = d.at()
	d.object(4, "body")
	b.name = d.keyStr("name", MaxName)
	b.nodes, b.outputs = count.nodes()
	d.key("syms")
	b.syms = decodeSyms(d)
	return b
}

// encodeNodes writes the fields nodes and outputs.
func encodeNodes(e *encoder, nodes []rawNode, outputs []rawOutput) {
	e.key("nodes")
	e.list(len(nodes))
	for i := range nodes {
		nodes[i].encode(e)
	}
	e.key("outputs")
	e.list(len(outputs))
	for _, o := range outputs {
		e.list(2)
		e.str(o.name)
		e.integer(o.node)
	}
}

// nodeCounter reads the nodes of a graph and its bodies, and limits the number of nodes and of operands.
type nodeCounter struct {
	d               *decoder
	count, operands int
}

// nodes reads the fields nodes and outputs.
func (c *nodeCounter) nodes() (nodes []rawNode, outputs []rawOutput) {
	d := c.d
	d.key("nodes")
	nodes = decodeList(d, MaxNodes-c.count, leastNode, "nodes", func() rawNode {
		n := decodeNode(d)
		if c.operands += len(n.in) + len(n.optional); c.operands > MaxAllOperands {
			d.fail("the nodes have more than %d operands together", MaxAllOperands)
		}
		return n
	})
	c.count += len(nodes)
	d.key("outputs")
	outputs = decodeList(d, MaxSignature, 3, "outputs", func() rawOutput {
		d.tuple(2, "output")
		return rawOutput{d.str(MaxName, "output"), d.integer(0, math.MaxInt64, "output's node")}
	})
	return nodes, outputs
}

func encodeCounts(e *encoder, key string, list []program.OpCount) {
	e.key(key)
	e.list(len(list))
	for _, c := range list {
		e.list(2)
		e.str(c.Op)
		e.integer(int64(c.Count))
	}
}

func decodeCounts(d *decoder, key string) []program.OpCount {
	d.key(key)
	return decodeList(d, MaxOps, 3, key, func() program.OpCount {
		d.tuple(2, key)
		return program.OpCount{Op: d.str(MaxName, "op"), Count: int(d.integer(1, MaxNodes, "number of nodes"))}
	})
}

func (n *rawNode) encode(e *encoder) {
	e.object(7)
	e.key("attrs")
	e.list(len(n.attrs))
	for _, a := range n.attrs {
		encodeAttr(e, a)
	}
	e.keyStr("dtype", string(n.typ.dtype))
	e.key("in")
	e.list(len(n.in))
	for _, x := range n.in {
		e.integer(x)
	}
	e.keyStr("name", n.name)
	e.keyStr("op", n.op)
	e.key("optional")
	e.list(len(n.optional))
	for _, o := range n.optional {
		e.list(2)
		e.str(o.name)
		e.integer(o.node)
	}
	e.key("shape")
	encodeShape(e, n.typ.shape)
}

func decodeNode(d *decoder) (n rawNode) {
	n.at = d.at()
	d.object(7, "node")
	d.key("attrs")
	n.attrs = decodeList(d, MaxAttrs, 3, "attrs", func() ir.Attr { return decodeAttr(d) })
	n.typ.dtype = rawDType(d.keyWord("dtype", MaxName))
	d.key("in")
	n.in = decodeList(d, MaxOperands, 1, "in", func() int64 { return d.integer(0, math.MaxInt64, "operand") })
	n.name = d.keyStr("name", MaxName)
	n.op = d.keyWord("op", MaxName)
	d.key("optional")
	n.optional = decodeList(d, MaxAttrs, 3, "optional", func() rawOptional {
		d.tuple(2, "optional operand")
		return rawOptional{d.word(MaxName, "optional operand"), d.integer(0, math.MaxInt64, "operand")}
	})
	d.key("shape")
	n.typ.shape = decodeShape(d)
	return n
}

// encodeAttr writes [name, value]. An element type is {"dtype": name}, to distinguish it from a string, a graph
// {"graph": number}, and a list of attributes {"attrs": [[name, value], ...]}.
func encodeAttr(e *encoder, a ir.Attr) {
	e.list(2)
	e.str(a.Name)
	switch v := a.Value.(type) {
	case bool:
		e.boolean(v)
	case int64:
		e.integer(v)
	case float64:
		e.float(v)
	case string:
		e.str(v)
	case []int64:
		e.list(len(v))
		for _, n := range v {
			e.integer(n)
		}
	case rawDType:
		e.object(1)
		e.keyStr("dtype", string(v))
	case rawRef:
		e.object(1)
		e.keyInt("graph", int64(v))
	case []ir.Attr:
		e.object(1)
		e.key("attrs")
		e.list(len(v))
		for _, own := range v {
			encodeAttr(e, own)
		}
	default:
		panic("BUG: attribute " + a.Name + " has a type that attributes do not have")
	}
}

func decodeAttr(d *decoder) (a ir.Attr) { return decodeAttrAt(d, 0) }

// decodeAttrAt decodes an attribute, which is in a list of attributes if depth is 1. Such a list has no further lists.
func decodeAttrAt(d *decoder, depth int) (a ir.Attr) {
	d.tuple(2, "attribute")
	a.Name = d.word(MaxName, "attribute")
	number := func() int64 { return d.integer(math.MinInt64, math.MaxInt64, a.Name) }
	switch k := d.next(); k {
	case kindBool:
		a.Value = d.boolean(a.Name)
	case kindInt:
		a.Value = number()
	case kindFloat:
		a.Value = d.float(a.Name)
	case kindStr:
		a.Value = d.str(MaxString, a.Name)
	case kindList:
		a.Value = decodeList(d, MaxInts, 1, a.Name, number)
	case kindMap:
		d.object(1, a.Name)
		switch key := d.word(MaxName, "a field's name"); {
		case key == "dtype":
			a.Value = rawDType(d.word(MaxName, a.Name))
		case key == "graph" && depth == 0:
			a.Value = rawRef(d.integer(-1, math.MaxInt32, a.Name))
		case key == "attrs" && depth == 0:
			a.Value = decodeList(d, MaxAttrs, 3, a.Name, func() ir.Attr { return decodeAttrAt(d, 1) })
		case d.err == nil && depth > 0:
			d.fail("attribute %q has the field %.40q; want dtype", a.Name, key)
		case d.err == nil:
			d.fail("attribute %q has the field %.40q; want dtype, graph or attrs", a.Name, key)
		}
	default:
		d.fail("attribute %q is %s", a.Name, k)
	}
	return a
}

// encodeDim writes a static dim as an integer and any other dim as its canonical text.
func encodeDim(e *encoder, d ir.Dim) {
	if d.IsStatic() {
		e.integer(d.Const)
		return
	}
	text, ok := e.dims[d]
	if !ok {
		text = d.String()
		if e.dims == nil {
			e.dims = map[ir.Dim]string{}
		}
		e.dims[d] = text
	}
	e.str(text)
}

// decodeDim parses each text once. Parsing a dim is slow for its length, so the number of different dims per section is
// limited.
func decodeDim(d *decoder) ir.Dim {
	if d.next() != kindStr {
		return ir.Static(d.integer(math.MinInt64, math.MaxInt64, "dim"))
	}
	b := d.raw(MaxString, "dim")
	if x, ok := d.dims[string(b)]; ok || d.err != nil {
		return x
	}
	if len(d.dims) == MaxDims {
		d.fail("more than %d different dims with symbols", MaxDims)
		return ir.Dim{}
	}
	text := string(b)
	x, err := ir.ParseDim(text)
	d.check(err)
	if d.dims == nil {
		d.dims = map[string]ir.Dim{}
	}
	d.dims[text] = x
	return x
}

// decodeType also parses each text once.
func decodeType(d *decoder) ir.Type {
	d.key("type")
	if !d.want(kindStr, "type") {
		return ir.Type{}
	}
	b := d.raw(MaxString, "type")
	if t, ok := d.types[string(b)]; ok || d.err != nil {
		return t
	}
	text := string(b)
	t, err := ir.ParseType(text)
	switch d.check(err); {
	case len(t.Shape) > ir.MaxRank:
		d.fail("type %.40s has rank %d; at most %d", text, len(t.Shape), ir.MaxRank)
	case !t.Shape.IsStatic() && len(d.types) == MaxDims:
		d.fail("more than %d different types with symbols", MaxDims)
	case !t.Shape.IsStatic():
		if d.types == nil {
			d.types = map[string]ir.Type{}
		}
		d.types[text] = t
	}
	return t
}

func encodeShape(e *encoder, shape ir.Shape) {
	e.list(len(shape))
	for _, x := range shape {
		encodeDim(e, x)
	}
}

func decodeShape(d *decoder) ir.Shape {
	return decodeList(d, MaxAttrs, 1, "shape", func() ir.Dim { return decodeDim(d) })
}

// graphOf returns the graph of p as stored in GRPH.
func graphOf(p *program.Program) rawGraph {
	g := rawGraph{method: p.Method, target: p.Target, syms: p.Graph.Syms, reference: p.Reference,
		rewritten: p.Rewritten, nesting: int64(p.Graph.Nesting())}
	numbers := map[string]rawRef{} // of bodies; a graph has no different ones of the same name
	for _, b := range distinctBodies(p.Graph) {
		nodes, outputs := nodesOf(b, numbers)
		numbers[b.Name] = rawRef(len(g.bodies))
		g.bodies = append(g.bodies, rawBody{name: b.Name, syms: b.Syms, nodes: nodes, outputs: outputs})
	}
	g.nodes, g.outputs = nodesOf(p.Graph, numbers)
	return g
}

// distinctBodies returns the graphs that attributes refer to, in the order of GRPH. Equal ones have one name.
func distinctBodies(g *ir.Graph) (list []*ir.Graph) {
	seen := map[string]bool{}
	for _, b := range g.Bodies() {
		if !seen[b.Name] {
			seen[b.Name], list = true, append(list, b)
		}
	}
	return list
}

// nodesOf returns the nodes and outputs of a graph. bodies has the numbers of the graphs that attributes refer to.
func nodesOf(g *ir.Graph, bodies map[string]rawRef) (nodes []rawNode, outputs []rawOutput) {
	nodes = make([]rawNode, 0, len(g.Nodes))
	for _, n := range g.Nodes {
		r := rawNode{op: n.Op.Name, name: n.Name, attrs: n.Op.Attrs(n.Attrs), typ: typeOf(n.Type)}
		for i, a := range r.attrs {
			switch v := a.Value.(type) {
			case dtype.DType:
				r.attrs[i].Value = rawDTypeOf(v)
			case *ir.Graph:
				r.attrs[i].Value = rawRef(-1)
				if v != nil {
					r.attrs[i].Value = bodies[v.Name]
				}
			case []ir.Attr:
				own := slices.Clone(v)
				for k, x := range own {
					if t, ok := x.Value.(dtype.DType); ok {
						own[k].Value = rawDTypeOf(t)
					}
				}
				r.attrs[i].Value = own
			}
		}
		for k, x := range n.Operands() {
			if k < n.Op.Required() || n.Op.Variadic() {
				r.in = append(r.in, int64(x.ID))
			} else {
				r.optional = append(r.optional, rawOptional{n.Op.OperandName(k), int64(x.ID)})
			}
		}
		slices.SortFunc(r.optional, func(a, b rawOptional) int { return strings.Compare(a.name, b.name) })
		nodes = append(nodes, r)
	}
	for _, o := range g.Outputs {
		outputs = append(outputs, rawOutput{o.Name, int64(o.Node.ID)})
	}
	return nodes, outputs
}

// rawDTypeOf returns the name of an element type, or "" for dtype.Invalid, if the attribute has no type.
func rawDTypeOf(d dtype.DType) rawDType {
	if d == dtype.Invalid {
		return ""
	}
	return rawDType(d.String())
}

// typeOf returns a type as stored in a node. A node with several results has no type: an empty element type and no
// dims.
func typeOf(t ir.Type) rawType {
	if t.DType == dtype.Invalid {
		return rawType{}
	}
	return rawType{rawDTypeOf(t.DType), t.Shape}
}
