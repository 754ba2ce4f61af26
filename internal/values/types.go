package values

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// statics returns the types of operands for the sizes of a run; the zero type for absent ones.
func statics(list []program.Operand) []ir.Type {
	types := make([]ir.Type, len(list))
	for i, o := range list {
		types[i].DType = o.DType
		for _, d := range o.Shape {
			types[i].Shape = append(types[i].Shape, ir.Static(int64(d)))
		}
	}
	return types
}
