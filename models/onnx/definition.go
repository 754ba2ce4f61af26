package onnx

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// This file checks nodes against the definitions of their ops before they are converted, so that conversions can rely
// on inputs and attributes. Inputs, element types and attributes are those of ONNX's own definitions; ranks, which
// these have in words only, are next to the conversions (ranks).

//go:embed definitions.txt
var definitionsText string

// definition describes the inputs and attributes of an op from a version of the opset on.
type definition struct {
	since  int64
	inputs []parameter
	attrs  map[string]attribute
}

// parameter is an input that the definition of an op names.
type parameter struct {
	name     string
	optional bool
	variadic bool
	least    int           // of a variadic one, 0 or 1
	types    []dtype.DType // nil for all
}

type attribute struct {
	kind     onnxpb.AttributeProto_AttributeType
	required bool
}

// definitions returns, by op, functions that read the op's definitions, in the order of versions. A model has few of
// the ops, and reading all definitions takes half a millisecond.
var definitions = sync.OnceValue(func() map[string]func() []definition {
	lines := map[string][]string{}
	for line := range strings.Lines(definitionsText) {
		if name, _, _ := strings.Cut(line, " "); name != "#" {
			key := opKey(name)
			lines[key] = append(lines[key], line)
		}
	}
	out := make(map[string]func() []definition, len(lines))
	for key, of := range lines {
		out[key] = sync.OnceValue(func() (list []definition) {
			for _, line := range of {
				list = append(list, parseDefinition(line))
			}
			return list
		})
	}
	return out
})

func parseDefinition(line string) definition {
	head, rest, _ := strings.Cut(strings.TrimSpace(line), " ;")
	inputs, attrs, _ := strings.Cut(rest, " ;")
	_, since, _ := strings.Cut(head, " ")
	d := definition{since: int64(mustInt(since)), attrs: map[string]attribute{}}
	for _, f := range strings.Fields(inputs) {
		d.inputs = append(d.inputs, parseParameter(f))
	}
	for _, f := range strings.Fields(attrs) {
		attr, kind, _ := strings.Cut(f, ":")
		short := strings.TrimSuffix(attr, "!")
		d.attrs[short] = attribute{attributeKind(kind), short != attr}
	}
	return d
}

// opKey returns the key of an op that is named with its domain.
func opKey(name string) string {
	i := strings.LastIndexByte(name, '.')
	return functionKey(name[:max(i, 0)], name[i+1:])
}

func parseParameter(s string) parameter {
	name, types, _ := strings.Cut(s, ":")
	p := parameter{name: strings.TrimRight(name, "?*+")}
	switch name[len(p.name):] {
	case "?":
		p.optional = true
	case "*":
		p.variadic = true
	case "+":
		p.variadic, p.least = true, 1
	}
	if types == "any" {
		return p
	}
	for _, t := range strings.Split(types, "|") {
		d, ok := dtype.Parse(t)
		if !ok {
			panic("BUG: onnx: definitions.txt: " + s)
		}
		p.types = append(p.types, d)
	}
	return p
}

func attributeKind(s string) onnxpb.AttributeProto_AttributeType {
	k, ok := onnxpb.AttributeProto_AttributeType_value[strings.ToUpper(s)]
	if !ok {
		panic("BUG: onnx: definitions.txt: " + s)
	}
	return onnxpb.AttributeProto_AttributeType(k)
}

// definitionOf returns the definition of an op in a version of its domain, or nil. Ops of the default domain that some
// files have in another one are defined in the default one.
func definitionOf(domain, name string, version int64) *definition {
	read := definitions()[functionKey(domain, name)]
	if read == nil {
		read = definitions()[functionKey("", name)]
	}
	if read == nil {
		return nil
	}
	list := read()
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].since <= version || i == 0 {
			return &list[i]
		}
	}
	return nil
}

// rankRange has the least and largest rank of an input.
type rankRange struct {
	least, most int
	single      bool // it has one element
}

var rankRanges = map[string][]rankRange{}

// ranks declares the ranks that the inputs of ops may have. For each input it has a rank, a range such as 2-4, the
// least rank such as 2+, "one" for a number (rank 0, or 1 with one element), or * for any rank. It holds for all inputs
// that a variadic one stands for. Inputs after the last one may have any rank.
func ranks(list string, names ...string) struct{} {
	var out []rankRange
	for _, s := range strings.Fields(list) {
		r := rankRange{0, -1, false}
		lo, hi, isRange := strings.Cut(s, "-")
		switch {
		case s == "*":
		case s == "one":
			r = rankRange{0, 1, true}
		case strings.HasSuffix(s, "+"):
			r.least = mustInt(s[:len(s)-1])
		case isRange:
			r = rankRange{mustInt(lo), mustInt(hi), false}
		default:
			r = rankRange{mustInt(s), mustInt(s), false}
		}
		out = append(out, r)
	}
	for _, name := range names {
		rankRanges[opKey(name)] = out
	}
	return struct{}{}
}

func mustInt(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic("BUG: onnx: no number: " + s)
	}
	return n
}

func (r rankRange) String() string {
	switch {
	case r.single:
		return "a number"
	case r.most < 0:
		return fmt.Sprintf("rank %d or more", r.least)
	case r.least == r.most:
		return fmt.Sprintf("rank %d", r.least)
	}
	return fmt.Sprintf("rank %d to %d", r.least, r.most)
}

// check ends the import if the inputs or attributes of a node do not fit the definition of its op.
func (n *node) check() {
	d := definitionOf(n.p.GetDomain(), n.p.GetOpType(), n.version)
	if d == nil {
		return
	}
	n.checkCount(d)
	at := rankRanges[functionKey(n.p.GetDomain(), n.p.GetOpType())]
	for i, v := range n.in {
		k := min(i, len(d.inputs)-1) // the last one may be variadic
		p := d.inputs[k]
		if v == nil {
			continue
		}
		if p.types != nil && !slices.Contains(p.types, v.typ.DType) {
			n.fail("input %d (%s) has elements of %v; allowed are %s", i, p.name, v.typ.DType, oneOf(p.types))
		}
		if k >= len(at) {
			continue
		}
		r, rank := at[k], v.typ.Rank()
		if rank < r.least || r.most >= 0 && rank > r.most || r.single && v.numel() != 1 && v.numel() >= 0 {
			n.fail("input %d (%s) is %v; want %v", i, p.name, v.typ, r)
		}
	}
	n.checkAttributes(d)
}

// checkCount checks that inputs are there, and a result.
func (n *node) checkCount(d *definition) {
	if len(n.p.GetOutput()) == 0 {
		n.fail("has no outputs; want at least 1")
	}
	least, most := 0, len(d.inputs)
	for i, p := range d.inputs {
		switch {
		case p.variadic:
			most = len(n.in)
			if p.least > 0 {
				least = i + 1
			}
		case !p.optional:
			least = i + 1
		}
	}
	if len(n.in) > most {
		n.fail("has %d inputs; allowed are up to %d", len(n.in), most)
	}
	for i := range max(len(n.in), least) {
		if p := d.inputs[min(i, len(d.inputs)-1)]; !p.optional && !n.has(i) {
			n.fail("input %d (%s) is missing; want at least %d inputs", i, p.name, least)
		}
	}
}

// leasts has attributes that are sizes, counts and positions, with the least number that they may have. The
// largest one is that of 32 bits.
var leasts = map[string]int64{"strides": 1, "dilations": 1, "kernel_shape": 1, "group": 1, "offset_group": 1,
	"num_groups": 1, "blocksize": 1, "block_size": 0, "num_outputs": 1, "pooled_shape": 1, "output_height": 1,
	"output_width": 1, "hidden_size": 1, "sample_size": 1, "size": 1, "num_heads": 0, "q_num_heads": 0,
	"kv_num_heads": 0, "rotary_embedding_dim": 0, "num_scan_inputs": 1, "output_padding": 0, "output_shape": 0,
	"qkv_hidden_sizes": 1, "batch_dims": 0, "sampling_ratio": 0,
	"pads": -math.MaxInt32, "axis": -ir.MaxRank, "axes": -ir.MaxRank, "perm": 0}

// checkNumbers checks that the numbers of an attribute are in its limits.
func (n *node) checkNumbers(a *onnxpb.AttributeProto, kind onnxpb.AttributeProto_AttributeType) {
	least, ok := leasts[a.GetName()]
	if !ok {
		return
	}
	list := a.GetInts()
	if kind == onnxpb.AttributeProto_INT { // a zero may be left out
		list = []int64{a.GetI()}
	}
	for _, v := range list {
		if v < least || v > math.MaxInt32 {
			n.fail("attribute %s has the number %d; allowed are %d to %d", a.GetName(), v, least, math.MaxInt32)
		}
	}
}

// checkAttributes checks the types of attributes. Some files leave the type of an attribute open.
func (n *node) checkAttributes(d *definition) {
	for _, a := range n.p.GetAttribute() {
		want, ok := d.attrs[a.GetName()]
		if ok && a.GetType() != onnxpb.AttributeProto_UNDEFINED && a.GetType() != want.kind {
			n.fail("attribute %s is of type %s; want %s", a.GetName(), strings.ToLower(a.GetType().String()),
				strings.ToLower(want.kind.String()))
		}
		if ok {
			n.checkNumbers(a, want.kind)
		}
	}
	for name, a := range d.attrs {
		if a.required && a.kind != onnxpb.AttributeProto_GRAPH && n.attr(name) == nil { // of graphs, one may do
			n.fail("attribute %s is missing; the op has no default for it", name)
		}
	}
}

func oneOf(types []dtype.DType) string {
	var names []string
	for _, t := range types {
		names = append(names, t.String())
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
