package kernels

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// harness runs `fn value(i: u32)` for every unit of the result. A unit is written by one invocation, so that no two write
// the same 32-bit word.
//
//go:embed map.wgsl
var harness string

// Results of so many units and more are computed by workgroups of largeGroup invocations that take largeEach units each: the
// device would spend its time on starting workgroups, and an invocation that waits for one value from memory can wait for
// others meanwhile.
const (
	mapGroup   = 64
	largeUnits = 1 << 16
	largeGroup = 256
	largeEach  = 4
)

// mapping makes a shader of `fn value(i: u32) -> u32`: mapped or coarsened.
type mapping func(n *ir.Node, name, body string, consts any, fields []string, params func(c *Call) []uint32) Shader

// mapped is a shader that computes each element of the result by itself. Body defines `fn value(i: u32) -> u32`, the bits of
// element i; fields and params come after the number of elements, n.
func mapped(n *ir.Node, name, body string, consts any, fields []string, params func(c *Call) []uint32) Shader {
	return harnessed(n, name, body, consts, fields, params, element(made(n).DType), 1)
}

// coarsened is mapped for values that cost little: an invocation computes several of a large result, and the last one again instead
// of those past the end, which it drops. The shader must not report to the host: where the result takes the place of an operand,
// the last one may be there already, and what it reports of that is nonsense.
func coarsened(n *ir.Node, name, body string, consts any, fields []string, params func(c *Call) []uint32) Shader {
	return harnessed(n, name, body, consts, fields, params, element(made(n).DType), largeEach)
}

// moved is a shader that moves bits from the operands data into the result, u at a time. Body defines value(i), which returns
// unit i of the result as a .C.T, and reads unit k of operand x as x.C.Read(k). Params count units.
func moved(n *ir.Node, u unit, data []int, name, body string, consts map[string]any, fields []string, params func(c *Call) []uint32) Shader {
	all := map[string]any{"T": u.typ(), "Read": u.read()}
	for k, v := range consts {
		all[k] = v
	}
	each := largeEach
	if u.words == 4 { // a vector is as much as four words
		each = 1
	}
	s := harnessed(n, name, body, all, fields, params, u, each)
	if u.words > 0 {
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

// made is the type of what a harness makes: of the result, the first of several.
func made(n *ir.Node) ir.Type { return n.ResultTypes()[0] }

func harnessed(n *ir.Node, name, body string, consts any, fields []string, params func(c *Call) []uint32, u unit, each int) Shader {
	group := mapGroup
	if most := ceilDiv(numel(n.Graph.Syms.Largest(made(n).Shape)), u.elements); most >= largeUnits {
		group = largeGroup
	} else {
		each = 1
	}
	s := Shader{
		Name: name, Consts: consts, Fields: append([]string{"n"}, fields...),
		Body: body + strings.NewReplacer("GROUP", strconv.Itoa(group), "SPAN", strconv.Itoa(group*each), "PER_UNIT", strconv.Itoa(u.elements),
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
	for i := range n.In {
		s.Bindings = append(s.Bindings, Binding{Name: operandNames[i], Operand: i, DType: n.In[i].Type.DType})
	}
	s.Bindings = append(s.Bindings, Binding{Name: "y", Operand: Out, DType: made(n).DType})
	return s
}

// unit is what a value is in a harness.
type unit struct {
	elements int // of the result
	words    int // that are moved at once, 1 or 4; 0: an element, and those that share its word are put together
}

// element is the unit of shaders that compute.
func element(d dtype.DType) unit { return unit{elements: 4 / d.Size()} }

// units is the largest unit that divides rows of the given elements of type d, and their places.
func units(d dtype.DType, rows []int, at ...*ir.Node) unit {
	for _, words := range []int{4, 1} {
		ok := true
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

// beginsAt reports a value that begins at a multiple of so many bytes. A view may begin anywhere in its parent.
func beginsAt(n *ir.Node, bytes int64) bool {
	offset, view := n.View()
	return !view || offset%bytes == 0 && beginsAt(n.In[0], bytes)
}

// common is a number that divides the product of sizes, whatever the symbols: the largest one among the divisors of 64.
func common(sizes []ir.Dim) int {
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

// per is the number of elements in what value(i) returns.
func (u unit) per() int {
	if u.words == 0 {
		return 1
	}
	return u.elements
}

// vecOf is the Binding.Vec of so many words at once.
func vecOf(words int) int {
	if words == 4 {
		return 4
	}
	return 0
}

func (u unit) typ() string {
	if u.words == 4 {
		return "vec4<u32>"
	}
	return "u32"
}

func (u unit) read() string {
	if u.words == 4 {
		return "4"
	}
	return "_bits"
}

// statements compute each units, group apart, and then write them: a write would hold up the reads after it, which may be of
// the same memory for all that a compiler knows.
func (u unit) statements(group, each int) string {
	put := "y_put"
	if u.words == 4 {
		put = "y4_put"
	}
	if each == 1 {
		return fmt.Sprintf("  %s(first, %s);\n", put, u.value("first"))
	}
	values, writes := "", ""
	for k := range each {
		values += fmt.Sprintf("  let w%d = min(first + %du, count - 1u);\n  let v%d = %s;\n", k, k*group, k, u.value(fmt.Sprint("w", k)))
		writes += fmt.Sprintf("  if (first + %du < count) {\n    %s(w%d, v%d);\n  }\n", k*group, put, k, k)
	}
	return values + writes
}

// value is the expression for unit w of the result.
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
	for _, x := range n.In {
		if x.Type.DType != dtype.F32 {
			return false
		}
	}
	return n.Type.DType == dtype.F32
}

// withStatus adds the binding through which a shader refuses values, and the number that it writes there.
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
