package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ScanAttrs are the attributes of cumsum, cumprod and cummax.
type ScanAttrs struct {
	Axis      int  `attr:"axis"`
	Exclusive bool `attr:"exclusive"` // element i combines the elements before it, without element i itself
	Reverse   bool `attr:"reverse"`   // from the last element to the first
}

// scan defines y_i = x_0 op x_1 op ... op x_i along an axis. op is the fold of a reduction.
func scan(r reduction) *ir.OpDef {
	return ir.Define(ir.Def[ScanAttrs]{
		Name: r.name, Doc: r.doc, Operands: "x",
		Infer: func(s ir.Sig[ScanAttrs]) (ir.Type, error) {
			if x := s.In[0]; x.DType == dtype.Bool {
				return ir.Type{}, fmt.Errorf("x is %v; want a number type", x)
			}
			return s.In[0], checkAxis(s.Attrs.Axis, s.In[0].Rank())
		},
		Eval: func(a ScanAttrs, in []*tensor.Array, out *tensor.Array) error {
			n, inner := out.Shape[a.Axis], tensor.Numel(out.Shape[a.Axis+1:])
			for line := range tensor.Numel(out.Shape[:a.Axis]) * inner {
				at := func(k int) int {
					if a.Reverse {
						k = n - 1 - k
					}
					return (line/inner*n+k)*inner + line%inner
				}
				if out.Floats != nil {
					scanLine(in[0].Floats, out.Floats, n, a.Exclusive, at, r.start, r.float)
				} else {
					scanLine(in[0].Ints, out.Ints, n, a.Exclusive, at, r.startInt(out.DType), r.integer)
				}
			}
			return nil
		},
		FLOPs: perElement[ScanAttrs](1),
		Tol:   r.scanTol,
		Cases: func() []ir.Case[ScanAttrs] {
			c := func(t ir.Type, axis int, exclusive, reverse bool) ir.Case[ScanAttrs] {
				return ir.Case[ScanAttrs]{Attrs: ScanAttrs{axis, exclusive, reverse}, In: []ir.Type{t}, Fill: r.fill}
			}
			cases := []ir.Case[ScanAttrs]{
				c(f32(1), 0, false, false), c(f32(1), 0, true, false), c(f32(7), 0, false, false),
				c(f32(0), 0, true, true), c(f32(3, 0, 4), 1, false, false),
				c(f32(4, 0), 0, false, false), c(f32(5, 3000), 1, false, false), c(f32(300, 7), 0, false, false),
				c(f32(2, 9000), 1, true, false), c(f32(6000, 3), 0, false, true), c(i32(9001), 0, false, false),
			}
			for _, exclusive := range []bool{false, true} {
				for _, reverse := range []bool{false, true} {
					for axis := range 3 {
						cases = append(cases, c(f32(3, 17, 5), axis, exclusive, reverse))
					}
					cases = append(cases, c(i32(3, 70), 1, exclusive, reverse))
				}
			}
			for _, d := range dtype.All() {
				if d != dtype.Bool {
					cases = append(cases, c(ir.TypeOf(d, 3, 19), 1, true, false))
				}
			}
			return cases
		},
	})
}

// scanLine scans the n elements at at(0), at(1), .... acc is the initial value.
func scanLine[T any](x, y []T, n int, exclusive bool, at func(k int) int, acc T, fold func(acc, x T) T) {
	for k := range n {
		next := fold(acc, x[at(k)])
		if exclusive {
			y[at(k)] = acc
		} else {
			y[at(k)] = next
		}
		acc = next
	}
}

// summedLine returns the tolerance of a sum of all elements along the axis.
func summedLine(a ScanAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
	return summed(out.DType, in[0].Shape[a.Axis].Const)
}

// addScan adds a scan. The axis may be counted from the end.
func addScan(def *ir.OpDef, x *ir.Node, a ScanAttrs) *ir.Node {
	a.Axis = fromEnd(a.Axis, x)
	return x.Graph.Add(def, a, x)
}
