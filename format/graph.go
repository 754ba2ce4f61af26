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
	nesting        int64 // depth of nested subgraphs; 0 in this version
	syms           ir.Syms
	nodes          []rawNode
	outputs        []rawOutput
	reference      []program.OpCount
	rewritten      []program.OpCount
}

type rawNode struct {
	at       int64
	op, name string
	attrs    []ir.Attr     // values of type bool, int64, float64, string, []int64 or rawDType
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

type rawType struct {
	dtype rawDType
	shape ir.Shape
}

func (g *rawGraph) encode(e *encoder) {
	e.object(8)
	e.keyStr("method", g.method)
	e.keyInt("nesting", g.nesting)
	e.key("nodes")
	e.list(len(g.nodes))
	for i := range g.nodes {
		g.nodes[i].encode(e)
	}
	e.key("outputs")
	e.list(len(g.outputs))
	for _, o := range g.outputs {
		e.list(2)
		e.str(o.name)
		e.integer(o.node)
	}
	encodeCounts(e, "reference", g.reference)
	encodeCounts(e, "rewritten", g.rewritten)
	e.key("syms")
	encodeSyms(e, g.syms)
	e.keyStr("target", g.target)
}

func decodeGraph(d *decoder) (g rawGraph) {
	g.at = d.at()
	d.object(8, "graph")
	g.method = d.keyStr("method", MaxName)
	g.nesting = d.keyInt("nesting", 0, math.MaxInt32)
	d.key("nodes")
	operands := 0
	g.nodes = decodeList(d, MaxNodes, leastOf((*rawNode).encode), "nodes", func() rawNode {
		n := decodeNode(d)
		if operands += len(n.in) + len(n.optional); operands > MaxAllOperands {
			d.fail("the nodes have more than %d operands together", MaxAllOperands)
		}
		return n
	})
	d.key("outputs")
	g.outputs = decodeList(d, MaxSignature, 3, "outputs", func() rawOutput {
		d.tuple(2, "output")
		return rawOutput{d.str(MaxName, "output"), d.integer(0, math.MaxInt64, "output's node")}
	})
	g.reference = decodeCounts(d, "reference")
	g.rewritten = decodeCounts(d, "rewritten")
	d.key("syms")
	g.syms = decodeSyms(d)
	g.target = d.keyStr("target", MaxName)
	return g
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

// encodeAttr writes [name, value]. An element type is {"dtype": name}, to distinguish it from a string.
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
	default:
		panic("BUG: attribute " + a.Name + " has a type that attributes do not have")
	}
}

func decodeAttr(d *decoder) (a ir.Attr) {
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
		a.Value = rawDType(d.keyWord("dtype", MaxName))
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
		rewritten: p.Rewritten,
		nodes:     make([]rawNode, 0, len(p.Graph.Nodes))}
	for _, n := range p.Graph.Nodes {
		r := rawNode{op: n.Op.Name, name: n.Name, attrs: n.Op.Attrs(n.Attrs), typ: typeOf(n.Type)}
		for i, a := range r.attrs {
			if t, ok := a.Value.(dtype.DType); ok {
				r.attrs[i].Value = rawDTypeOf(t)
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
		g.nodes = append(g.nodes, r)
	}
	for _, o := range p.Graph.Outputs {
		g.outputs = append(g.outputs, rawOutput{o.Name, int64(o.Node.ID)})
	}
	return g
}

// rawDTypeOf returns the name of an element type, or "" if the attribute names none.
func rawDTypeOf(d dtype.DType) rawDType {
	if d == dtype.Invalid {
		return ""
	}
	return rawDType(d.String())
}

// typeOf returns a type as stored in a node. A node with several results has none: an empty element type and no dims.
func typeOf(t ir.Type) rawType {
	if t.DType == dtype.Invalid {
		return rawType{}
	}
	return rawType{rawDTypeOf(t.DType), t.Shape}
}
