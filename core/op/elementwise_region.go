package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ElementwiseRegionAttrs are the attributes of elementwise_region.
type ElementwiseRegionAttrs struct {
	Expr string `attr:"expr"` // steps, in the one form that the grammar above allows
}

// ElementwiseRegionDef runs a chain of elementwise ops in one pass over memory.
var ElementwiseRegionDef = ir.Define(ir.Def[ElementwiseRegionAttrs]{
	Name: "elementwise_region",
	Doc: "Up to 32 elementwise ops on up to 16 operands in one pass, written as expr, such as \"v0=add(i0,i1); v1=gelu(v0)\"; the " +
		"last step is the result. Each operand has the result's shape, or (without leading 1s) a suffix of it, or one element. Operands are " +
		"f32 or bool, or f16, bf16, i8, u8 or i32 that only casts to f32 read. Intermediate values are f32 or bool; the result is too, or it " +
		"is one of the other types if the last step casts f32 to it. Numbers in expr are f32.\n\n" + regionGrammar,
	Operands: "x...", Elementwise: true,
	InPlace: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	Unread:  regionUnread,
	Infer: func(s ir.Sig[ElementwiseRegionAttrs]) (ir.Type, error) {
		steps, err := ParseRegion(s.Attrs.Expr)
		if err != nil {
			return ir.Type{}, err
		}
		if n := regionInputs(steps); n != len(s.In) {
			return ir.Type{}, fmt.Errorf("%d operands; expr %q uses %d", len(s.In), s.Attrs.Expr, n)
		}
		shapes := make([]ir.Shape, len(s.In))
		for i, t := range s.In {
			if !computedInRegions(t.DType) && !castInRegions(t.DType) {
				return ir.Type{}, fmt.Errorf("x[%d] is %v; want f32, bool, f16, bf16, i8, u8 or i32", i, t)
			}
			shapes[i] = t.Shape
		}
		shape, err := broadcast(shapes...)
		if err != nil {
			return ir.Type{}, err
		}
		for i, t := range s.In {
			if !IsSuffix(t.Shape, shape) {
				return ir.Type{}, fmt.Errorf("x[%d] is %v; want the shape %v, a suffix of it, or one element", i, t,
					shape)
			}
		}
		types, err := regionTypes(steps, s.In, s.Syms)
		if err != nil {
			return ir.Type{}, err
		}
		if last := types[len(types)-1]; !last.Shape.Equal(shape) {
			return ir.Type{}, fmt.Errorf("the last step is %v; want the operands' shape %v", last, shape)
		}
		return types[len(types)-1], nil
	},
	Eval: evalRegion,
	Memory: func(s ir.Sig[ElementwiseRegionAttrs], _ ir.Type) (n int64) {
		steps, err := ParseRegion(s.Attrs.Expr)
		var types []ir.Type
		if err == nil {
			types, err = regionTypes(steps, s.In, s.Syms)
		}
		if err != nil {
			panic("BUG: op: " + err.Error()) // Infer has checked them
		}
		for _, t := range types[:len(types)-1] {
			n += 8 * s.Syms.MaxElems(t)
		}
		return n
	},
	FLOPs: func(a ElementwiseRegionAttrs, in []ir.Type, out ir.Type) int64 {
		steps, err := ParseRegion(a.Expr)
		if err != nil {
			return 0
		}
		var flops int64
		for _, s := range steps {
			flops += s.Op.FLOPs(s.Attrs, nil, out)
		}
		return flops
	},
	Tol:   rounded[ElementwiseRegionAttrs],
	Cases: regionCases,
})

// ElementwiseRegion adds a region. expr must have the form that FormatRegion returns.
func ElementwiseRegion(expr string, in ...*ir.Node) *ir.Node {
	return in[0].Graph.Add(ElementwiseRegionDef, ElementwiseRegionAttrs{expr}, in...)
}

// IsSuffix reports whether s, without leading 1s, is the end of full. Then the element for flat index i of full is i
// modulo the size of s. This is not true for [N,1] and [N,M].
func IsSuffix(s, full ir.Shape) bool {
	for len(s) > 0 && s[0].Is(1) {
		s = s[1:]
	}
	return len(s) <= len(full) && s.Equal(full[len(full)-len(s):])
}

// regionOperands returns the operands of a step: inputs of the region, results of earlier steps, and literals.
func regionOperands[T any](s RegionStep, in, results []T, literal func(float32) T) []T {
	operands := make([]T, len(s.In))
	for k, o := range s.In {
		switch o.Kind {
		case RegionInput:
			operands[k] = in[o.Index]
		case RegionResult:
			operands[k] = results[o.Index]
		case RegionLiteral:
			operands[k] = literal(o.Value)
		}
	}
	return operands
}

// regionTypes infers the type of each step. Literals are scalars.
func regionTypes(steps []RegionStep, in []ir.Type, syms ir.Syms) ([]ir.Type, error) {
	types := make([]ir.Type, len(steps))
	for i, s := range steps {
		operands := regionOperands(s, in, types, func(float32) ir.Type { return f32() })
		var err error
		if types[i], err = s.Op.Infer(s.Attrs, operands, ir.Type{}, syms); err != nil {
			return nil, fmt.Errorf("step v%d: %w", i, err)
		}
		from := slices.ContainsFunc(operands, func(t ir.Type) bool { return !computedInRegions(t.DType) })
		switch d, cast := types[i].DType, s.Op == CastDef; {
		case from && !(cast && d == dtype.F32):
			return nil, fmt.Errorf("step v%d reads %v; want it cast to f32 first", i, operands)
		case !computedInRegions(d) &&
			!(cast && castInRegions(d) && operands[0].DType == dtype.F32 && i == len(steps)-1):
			return nil,
				fmt.Errorf(
					"step v%d is %v; want f32 or bool, or a last step that casts f32 to f16, bf16, i8, u8 or i32", i,
					types[i])
		}
	}
	return types, nil
}

// computedInRegions reports whether intermediate values may have type d.
func computedInRegions(d dtype.DType) bool { return d == dtype.F32 || d == dtype.Bool }

// castInRegions reports whether operands and results of type d are cast.
func castInRegions(d dtype.DType) bool {
	return d == dtype.F16 || d == dtype.BF16 || d == dtype.I8 || d == dtype.U8 || d == dtype.I32
}

func evalRegion(a ElementwiseRegionAttrs, in []*tensor.Array, out *tensor.Array) error {
	steps, err := ParseRegion(a.Expr)
	if err != nil {
		return err
	}
	inTypes := make([]ir.Type, len(in))
	for i, x := range in {
		inTypes[i] = ir.TypeOf(x.DType, sizes(x)...)
	}
	types, err := regionTypes(steps, inTypes, nil)
	if err != nil {
		return err
	}
	results := make([]*tensor.Array, len(steps))
	for i, s := range steps {
		operands := regionOperands(s, in, results, func(v float32) *tensor.Array {
			scalar := tensor.NewArray(dtype.F32)
			scalar.Floats[0] = float64(v)
			return scalar
		})
		results[i] = out
		if i < len(steps)-1 {
			results[i] = tensor.NewArray(types[i].DType, types[i].Shape.Eval(nil)...)
		}
		if err := s.Op.Eval(s.Attrs, operands, results[i]); err != nil {
			return err
		}
	}
	return nil
}

var _ = ir.Lower(ElementwiseRegionDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	steps, err := ParseRegion(n.Attrs.(ElementwiseRegionAttrs).Expr)
	if err != nil {
		g.Fail(err)
		return in[0]
	}
	results := make([]*ir.Node, len(steps))
	for i, s := range steps {
		operands := regionOperands(s, in, results, func(v float32) *ir.Node { return Const(g, float64(v), f32()) })
		results[i] = g.Add(s.Op, s.Attrs, operands...)
	}
	return results[len(steps)-1]
})

func regionCases() []ir.Case[ElementwiseRegionAttrs] {
	c := func(expr string, in ...ir.Type) ir.Case[ElementwiseRegionAttrs] {
		return ir.Case[ElementwiseRegionAttrs]{Attrs: ElementwiseRegionAttrs{expr}, In: in}
	}
	long := "v0=add(i0,1.0)"
	for i := 1; i < MaxRegionSteps; i++ {
		long += fmt.Sprintf("; v%d=mul(v%d,%s)", i, i-1, [...]string{"0.5", "2.0"}[i%2])
	}
	return []ir.Case[ElementwiseRegionAttrs]{
		c("v0=relu(i0)", f32()), c("v0=add(i0,i1); v1=gelu(v0)", f32(3, 257), f32(257)),
		c("v0=add(i0,i1); v1=silu(v0)", f32(0, 3), f32(3)),
		c("v0=mul(i0,2.0); v1=add(v0,i1); v2=tanh(v1)", f32(2, 3, 5), f32(3, 5)),
		c("v0=sub(i1,i0); v1=abs(v0)", f32(1, 1, 5), f32(3, 5)),
		c("v0=lt(i0,0.0); v1=mul(i0,0.01); v2=where(v0,v1,i0)", f32(33)),
		c("v0=where(i0,i1,-Inf); v1=max(v0,i2)", bools(3, 5), f32(3, 5), f32()),
		c("v0=exp(i0); v1=add(v0,1e-06); v2=log(v1); v3=gt(v2,i1)", f32(4, 9), f32(1, 9)),
		c("v0=add(i0,i0); v1=mul(v0,v0)", f32(17)), c(long, f32(5)),
		c("v0=cast(i0,to=f32); v1=silu(v0); v2=cast(v1,to=f16)", f16(5, 67)),
		c("v0=cast(i0,to=f32); v1=mul(v0,i1); v2=cast(v1,to=bf16)", bf16(7, 33), f32(33)),
		c("v0=cast(i0,to=f32); v1=sub(v0,3.0); v2=mul(v1,i1)", i8(3, 50), f32()),
		c("v0=cast(i0,to=f32); v1=cast(i1,to=f32); v2=lt(v0,v1)", u8(70), f16(70)),
		c("v0=mul(i0,64.0); v1=round(v0); v2=add(v1,128.0); v3=cast(v2,to=u8)", f32(2, 77)),
		c("v0=mul(i0,200.0); v1=cast(v0,to=i8)", f32(40)),
		c("v0=cast(i0,to=f32); v1=cast(i1,to=f32); v2=add(v0,v1); v3=cast(v2,to=i32)", i32(3, 19), f16(19)),
		c("v0=cast(i0,to=f32); v1=neg(v0); v2=cast(v1,to=bf16)", f16(0, 3)),
	}
}
