package elementwise

import "github.com/rlx-go/rlx/core/op"

// params are the parameters of a function: the attributes of its op, in the order of their names.
type params = op.Params

// formula and formula2 return the definition of an elementwise op of floats.
func formula(name string) func(x float64, p params) float64 { return op.Scalar(name) }
func formula2(name string) func(x, y float64) float64       { return op.Scalar2(name) }
