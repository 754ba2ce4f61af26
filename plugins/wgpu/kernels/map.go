package kernels

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// harness runs `fn value(i: u32) -> u32`, the bits of element i of the result, for every element. An invocation writes one
// 32-bit word, so that no two write the same one.
//
//go:embed map.wgsl
var harness string

const mapGroup = 64

// mapped is a shader that computes each element of the result by itself. Body defines value; fields and params come after
// the number of elements, n.
func mapped(n *ir.Node, name, body string, consts any, fields []string, params func(c *Call) []uint32) Shader {
	per := 4 / n.Type.DType.Size()
	s := Shader{
		Name: name, Consts: consts, Fields: append([]string{"n"}, fields...),
		Body: body + strings.NewReplacer("PER_WORD", fmt.Sprintf("%du", per), "WORD", perWord(per)).Replace(harness),
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
		Groups: func(c *Call) int { return ceilDiv(ceilDiv(numel(c.Out.Shape), per), mapGroup) },
	}
	for i := range n.In {
		s.Bindings = append(s.Bindings, Binding{Name: operandNames[i], Operand: i, DType: n.In[i].Type.DType})
	}
	s.Bindings = append(s.Bindings, Binding{Name: "y", Operand: Out, DType: n.Type.DType})
	return s
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

// perWord is the expression for word w of a result with so many elements per word.
func perWord(per int) string {
	if per == 1 {
		return "value(w)"
	}
	width, expr := 32/per, "0u"
	for k := range per {
		expr += fmt.Sprintf(" | (value(min(w * %du + %du, P.n - 1u)) << %du)", per, k, k*width)
	}
	return expr
}
