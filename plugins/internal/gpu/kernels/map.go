package kernels

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// harness calls `fn value(i: u32)` for every unit of the result. One invocation writes a unit, so that no two write the
// same 32-bit word.
//
//go:embed map.wgsl
var harness string

// From largeUnits units on, workgroups have largeGroup invocations with largeEach units each. Otherwise the device
// would spend its time on starting workgroups. Several units per invocation also keep several reads in flight.
const (
	mapGroup   = 64
	largeUnits = 1 << 16
	largeGroup = 256
	largeEach  = 4
)

// mapping is the type of mapped and coarsened, which make a shader from `fn value(i: u32) -> u32`.
type mapping func(n *ir.Node, name, body string, consts any, fields []string, params func(c *Call) []uint32) Shader

// mapped makes a shader that computes each element of the result independently. body must define `fn value(i: u32) ->
// u32`, which returns the bits of element i. fields and params are the parameters after n, the number of elements.
func mapped(n *ir.Node, name, body string, consts any, fields []string, params func(c *Call) []uint32) Shader {
	return harnessed(n, name, body, consts, fields, params, element(resultType(n).DType), 1)
}

// coarsened is like mapped, but for values that are cheap to compute: if the result is large, an invocation computes
// several. Past the end it computes the last element again and discards it. body must not use the status: if the result
// overwrites an operand, that element may be computed from one of the result.
func coarsened(n *ir.Node, name, body string, consts any, fields []string, params func(c *Call) []uint32) Shader {
	return harnessed(n, name, body, consts, fields, params, element(resultType(n).DType), largeEach)
}

// moved makes a shader that moves bits from the operands in data to the result, in units u. body must define value(i),
// which returns unit i of the result as a .C.T. It reads unit k of operand x as x.C.Read(k). params counts in units.
func moved(n *ir.Node, u unit, data []int, name, body string, consts map[string]any, fields []string,
	params func(c *Call) []uint32) Shader {
	each := largeEach
	if u.words == 4 { // a vector has as much data as four words
		each = 1
	}
	return movedSeveral(n, u, each, data, name, body, consts, fields, params)
}

// movedSeveral is like moved. If the result is large, an invocation moves several units.
func movedSeveral(n *ir.Node, u unit, each int, data []int, name, body string, consts map[string]any, fields []string,
	params func(c *Call) []uint32) Shader {
	all := map[string]any{"T": u.typ(), "Read": u.read()}
	for k, v := range consts {
		all[k] = v
	}
	s := harnessed(n, name, body, all, fields, params, u, each)
	if u.words == 1 || u.words == 4 {
		for i := range s.Bindings {
			for _, k := range data {
				if s.Bindings[i].Operand == k || s.Bindings[i].Operand == Out {
					s.Bindings[i].DType, s.Bindings[i].Vec = dtype.U32, vecOf(u.words)
				}
			}
		}
	}
	return s
}

// resultType returns the type of the node's result, or of its first result.
func resultType(n *ir.Node) ir.Type { return n.ResultTypes()[0] }

func harnessed(n *ir.Node, name, body string, consts any, fields []string, params func(c *Call) []uint32, u unit,
	each int) Shader {
	group := mapGroup
	if most := ceilDiv(numel(n.Graph.Syms.Largest(resultType(n).Shape)), u.elements); most >= largeUnits {
		group = largeGroup
	} else {
		each = 1
	}
	s := Shader{
		Name: name, Consts: consts, Fields: append([]string{"n"}, fields...),
		Body: body + strings.NewReplacer("GROUP", strconv.Itoa(group), "SPAN", strconv.Itoa(group*each), "PER_UNIT",
			strconv.Itoa(u.elements),
			"UNITS", u.statements(group, each)).Replace(harness),
		Params: func(c *Call) []uint32 {
			count := numel(c.Out.Shape)
			if count == 0 {
				return nil
			}
			out := []uint32{uint32(count)}
			if params != nil {
				out = append(out, params(c)...)
			}
			return out
		},
		Groups: func(c *Call) int { return ceilDiv(ceilDiv(numel(c.Out.Shape), u.elements), group*each) },
	}
	for k, x := range n.Operands() {
		s.Bindings = append(s.Bindings, Binding{Name: operandNames[k], Operand: k, DType: x.Type.DType})
	}
	s.Bindings = append(s.Bindings, Binding{Name: "y", Operand: Out, DType: resultType(n).DType})
	return s
}

// unit is the amount of data that value(i) returns.
type unit struct {
	elements int // elements of the result
	// words are moved at once: 1 or 4, or 2 for one element of 8 bytes. 0 is for single elements of 4 bytes or fewer,
	// which are packed into words.
	words int
}

// element returns the unit of shaders that compute: one element at a time, packed into words.
func element(d dtype.DType) unit {
	if d.Size() == 8 {
		return unit{elements: 1, words: 2}
	}
	return unit{elements: 4 / d.Size()}
}

// units returns the largest unit that divides rows with the given numbers of elements of type d, and the offsets of the
// nodes in at.
func units(d dtype.DType, rows []int, at ...*ir.Node) unit {
	for _, words := range []int{4, 1} {
		ok := 4*words >= d.Size()
		for _, r := range rows {
			ok = ok && r*d.Size()%(4*words) == 0
		}
		for _, x := range at {
			ok = ok && beginsAt(x, int64(4*words))
		}
		if ok {
			return unit{4 * words / d.Size(), words}
		}
	}
	return element(d)
}

// beginsAt reports whether a value begins at a multiple of that many bytes. A view may begin anywhere in its parent.
func beginsAt(n *ir.Node, bytes int64) bool {
	offset, view := n.View()
	return !view || offset%bytes == 0 && beginsAt(n.In[0], bytes)
}

// commonDivisor returns the largest divisor of 64 that divides the product of sizes for all values of the symbols.
func commonDivisor(sizes []ir.Dim) int {
	product := 1
	for _, d := range sizes {
		if d.Is(0) {
			return 64
		}
		k, by := 1, d.Divisor()
		for k < 64 && by%int64(2*k) == 0 {
			k *= 2
		}
		product = min(product*k, 64)
	}
	return product
}

// per returns the number of elements that value(i) returns.
func (u unit) per() int {
	if u.words == 0 {
		return 1
	}
	return u.elements
}

// vecOf returns Binding.Vec for that many words per access.
func vecOf(words int) int {
	if words == 4 {
		return 4
	}
	return 0
}

func (u unit) typ() string {
	return map[int]string{0: "u32", 1: "u32", 2: "vec2<u32>", 4: "vec4<u32>"}[u.words]
}

func (u unit) read() string {
	return map[int]string{0: "_bits", 1: "_bits", 2: "_wide", 4: "4"}[u.words]
}

// statements returns WGSL that computes each units, group apart, and then writes them. Writes in between would delay
// later reads, because a compiler cannot rule out that both access the same memory.
func (u unit) statements(group, each int) string {
	put := map[int]string{0: "y_put", 1: "y_put", 2: "y_wide_put", 4: "y4_put"}[u.words]
	if each == 1 {
		return fmt.Sprintf("  %s(first, %s);\n", put, u.value("first"))
	}
	values, writes := "", ""
	for k := range each {
		values += fmt.Sprintf("  let w%d = min(first + %du, count - 1u);\n  let v%d = %s;\n", k, k*group, k,
			u.value(fmt.Sprint("w", k)))
		writes += fmt.Sprintf("  if (first + %du < count) {\n    %s(w%d, v%d);\n  }\n", k*group, put, k, k)
	}
	return values + writes
}

// value returns the WGSL expression for unit w of the result.
func (u unit) value(w string) string {
	if u.words > 0 || u.elements == 1 {
		return "value(" + w + ")"
	}
	width, expr := 32/u.elements, "0u"
	for k := range u.elements {
		expr += fmt.Sprintf(" | (value(min(%s * %du + %du, P.n - 1u)) << %du)", w, u.elements, k, k*width)
	}
	return expr
}

func allF32(n *ir.Node) bool {
	for _, x := range n.Operands() {
		if x.Type.DType != dtype.F32 {
			return false
		}
	}
	return n.Type.DType == dtype.F32
}

// withStatus adds the status binding, through which a shader reports invalid values.
func (s Shader) withStatus() Shader {
	s.Bindings = append(s.Bindings, Binding{Name: "status", Operand: Status, DType: dtype.U32})
	return s
}

var operandNames = func() (out [64]string) {
	for i := range out {
		out[i] = fmt.Sprintf("x%d", i)
	}
	return out
}()
