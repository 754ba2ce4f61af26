package op_test

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

var (
	nan  = math.NaN()
	inf  = math.Inf(1)
	zero = math.Copysign(0, -1) // -0
)

// TestUnaryValues checks published values, to nine digits, and edge cases that kernels easily get wrong.
func TestUnaryValues(t *testing.T) {
	for _, c := range []struct {
		def     *ir.OpDef
		x, want float64
	}{
		{op.GeluDef, 1, 0.841344746}, {op.GeluDef, -1, -0.158655254}, {op.GeluDef, 3, 2.995950306},
		{op.GeluDef, nan, nan}, {op.GeluDef, 1e30, 1e30},
		{op.GeluTanhDef, 1, 0.841191991}, {op.GeluTanhDef, 3, 2.996362608}, {op.GeluTanhDef, 1e30, 1e30},
		{op.GeluTanhDef, -1e30, 0},
		{op.SiluDef, 1, 0.731058579}, {op.SiluDef, -1000, 0}, {op.SigmoidDef, 1000, 1}, {op.SigmoidDef, -1000, 0},
		{op.SigmoidDef, 0, 0.5},
		{op.ReluDef, nan, nan}, {op.ReluDef, -3, 0}, {op.ReluDef, inf, inf},
		{op.RoundDef, 0.5, 0}, {op.RoundDef, 1.5, 2}, {op.RoundDef, 2.5, 2}, {op.RoundDef, -0.5, zero},
		{op.RoundDef, -1.5, -2}, {op.RoundDef, nan, nan},
		{op.FloorDef, 0.5, 0}, {op.FloorDef, -0.5, -1}, {op.FloorDef, 2, 2}, {op.FloorDef, nan, nan},
		{op.CeilDef, 0.5, 1}, {op.CeilDef, -0.5, zero},
		{op.CeilDef, -2, -2}, {op.CeilDef, inf, inf},
		{op.LogDef, 0, -inf}, {op.LogDef, -1, nan}, {op.SqrtDef, -1, nan}, {op.RsqrtDef, 0, inf}, {op.RsqrtDef, 4, 0.5},
		{op.ExpDef, -inf, 0},
		{op.ExpDef, 1, 2.718281828}, {op.TanhDef, 1000, 1}, {op.TanhDef, 0.5, 0.462117157}, {op.ErfDef, 1, 0.842700793},
		{op.AtanDef, inf, 1.570796327},
		{op.SinDef, 1, 0.841470985}, {op.CosDef, 1, 0.540302306}, {op.TanDef, 1, 1.557407725}, {op.NegDef, 0, zero},
		{op.AbsDef, zero, 0}, {op.AbsDef, nan, nan},
	} {
		got := eval(t, c.def, op.NoAttrs{}, vector(c.x)).Floats[0]
		if interp.Excess(got, c.want, ir.Tolerance{Abs: 5e-10, Rel: 5e-10}) > 0 ||
			math.Signbit(got) != math.Signbit(c.want) && c.want == zero && c.def == op.RoundDef {
			t.Errorf("%s(%v) = %v; want %v", c.def.Name, c.x, got, c.want)
		}
	}
}

func vector(v ...float64) *tensor.Array { return f32s([]int{len(v)}, v...) }

func f32s(shape []int, v ...float64) *tensor.Array { return floatsOf(dtype.F32, shape, v...) }

func floatsOf(d dtype.DType, shape []int, v ...float64) *tensor.Array {
	return &tensor.Array{DType: d, Shape: shape, Floats: v}
}

func ints(d dtype.DType, v ...int64) *tensor.Array {
	return &tensor.Array{DType: d, Shape: []int{len(v)}, Ints: v}
}

func TestBinaryValues(t *testing.T) {
	for _, c := range []struct {
		def        *ir.OpDef
		a, b, want float64
	}{
		{op.DivDef, 1, 0, inf}, {op.DivDef, -1, 0, -inf}, {op.DivDef, 0, 0, nan}, {op.MaxDef, nan, 1, nan},
		{op.MaxDef, 1, nan, nan}, {op.MaxDef, inf, nan, nan},
		{op.MinDef, nan, -inf, nan}, {op.MinDef, 1, 2, 1}, {op.PowDef, nan, 0, 1}, {op.PowDef, -2, 3, -8},
		{op.PowDef, -2, 0.5, nan}, {op.PowDef, 2, 10, 1024},
		{op.SubDef, inf, inf, nan}, {op.MulDef, 0, inf, nan}, {op.AddDef, 1, 2, 3},
	} {
		if got := eval(t, c.def, op.NoAttrs{}, vector(c.a), vector(c.b)).Floats[0]; interp.Excess(
			got, c.want, ir.Tolerance{}) > 0 {
			t.Errorf("%s(%v, %v) = %v; want %v", c.def.Name, c.a, c.b, got, c.want)
		}
	}
	for _, c := range []struct {
		def        *ir.OpDef
		d          dtype.DType
		a, b, want int64
	}{
		{op.AddDef, dtype.U8, 250, 10, 4}, {op.SubDef, dtype.U32, 0, 1, 1<<32 - 1},
		{op.MulDef, dtype.I32, 1 << 20, 1 << 20, 0},
		{op.AddDef, dtype.I64, math.MaxInt64, 1, math.MinInt64}, {op.DivDef, dtype.I32, -7, 2, -3},
		{op.DivDef, dtype.I8, -128, -1, -128}, {op.MaxDef, dtype.I16, -3, 4, 4},
	} {
		if got := eval(t, c.def, op.NoAttrs{}, ints(c.d, c.a), ints(c.d, c.b)).Ints[0]; got != c.want {
			t.Errorf("%s(%v, %v) as %v = %v; want %v", c.def.Name, c.a, c.b, c.d, got, c.want)
		}
	}
	if _, err := tryEval(op.DivDef, op.NoAttrs{}, ints(dtype.I32, 1), ints(dtype.I32, 0)); err == nil ||
		!strings.Contains(err.Error(), "divisor is 0") {
		t.Errorf("1/0 on integers gives error %v", err)
	}
	for _, def := range []*ir.OpDef{op.EqDef, op.LtDef, op.LeDef, op.GtDef, op.GeDef, op.NeDef} {
		want := int64(0)
		if def == op.NeDef {
			want = 1
		}
		if got := eval(t, def, op.NoAttrs{}, vector(nan), vector(nan)).Ints[0]; got != want {
			t.Errorf("%s(NaN, NaN) = %v; want %v", def.Name, got, want)
		}
	}
	got := eval(t, op.WhereDef, op.NoAttrs{}, ints(dtype.Bool, 1, 0), vector(1, nan), vector(nan, 2))
	if err := interp.Compare(got, vector(1, 2), ir.Tolerance{}); err != nil {
		t.Errorf("where lets the other side through: %v", err)
	}
}

func TestCastValues(t *testing.T) {
	for _, c := range []struct {
		x    *tensor.Array
		to   dtype.DType
		want float64
	}{
		{vector(2.9), dtype.I32, 2}, {vector(-2.9), dtype.I32, -2}, {vector(nan), dtype.I32, 0},
		{vector(inf), dtype.I32, math.MaxInt32},
		{vector(-inf), dtype.I64, math.MinInt64}, {vector(300), dtype.U8, 255}, {vector(-1), dtype.U32, 0},
		{vector(nan), dtype.Bool, 1},
		{vector(0.25), dtype.Bool, 1}, {vector(0), dtype.Bool, 0}, {vector(65520), dtype.F16, inf},
		{vector(2049), dtype.F16, 2048}, {vector(2051), dtype.F16, 2052},
		{vector(257), dtype.BF16, 256}, {floatsOf(dtype.F64, []int{1}, 0.1), dtype.F32, float64(float32(0.1))},
		{ints(dtype.I32, 300), dtype.U8, 44},
		{ints(dtype.I64, -1), dtype.U32, 1<<32 - 1}, {ints(dtype.I32, 200), dtype.I8, -56},
		{ints(dtype.I32, 1<<24+1), dtype.F32, 1 << 24}, {ints(dtype.Bool, 1), dtype.F32, 1},
	} {
		if got := eval(t, op.CastDef, op.CastAttrs{To: c.to}, c.x).At(0); got != c.want {
			t.Errorf("cast of %v %v to %v = %v; want %v", c.x.DType, c.x.At(0), c.to, got, c.want)
		}
	}
}

func TestReduceValues(t *testing.T) {
	for _, c := range []struct {
		def  *ir.OpDef
		x    []float64
		want float64
	}{
		{op.ReduceSumDef, nil, 0}, {op.ReduceProdDef, nil, 1}, {op.ReduceMaxDef, nil, -inf},
		{op.ReduceMinDef, nil, inf}, {op.ReduceMeanDef, nil, nan},
		{op.ReduceMaxDef, []float64{1, nan, inf}, nan}, {op.ReduceMinDef, []float64{nan, -inf}, nan},
		{op.ReduceMaxDef, []float64{-inf, -inf}, -inf},
		{op.ReduceMaxDef, []float64{-3e38, -2e38}, -2e38}, {op.ReduceProdDef, []float64{2, 3, -4}, -24},
		{op.ReduceMeanDef, []float64{1, 2, 6}, 3},
	} {
		if got := eval(t, c.def, op.ReduceAttrs{Axes: []int{0}}, vector(c.x...)).Floats[0]; interp.Excess(
			got, c.want, ir.Tolerance{}) > 0 {
			t.Errorf("%s%v = %v; want %v", c.def.Name, c.x, got, c.want)
		}
	}
	// Axes that are not adjacent: [2,3,2] over 0 and 2.
	x := f32s([]int{2, 3, 2}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
	got := eval(t, op.ReduceSumDef, op.ReduceAttrs{Axes: []int{0, 2}, KeepDims: true}, x)
	if err := interp.Compare(got, f32s([]int{1, 3, 1}, 18, 26, 34), ir.Tolerance{}); err != nil {
		t.Error(err)
	}
}

// TestRowsAgainstGonum compares row-wise ops with gonum's statistics.
func TestRowsAgainstGonum(t *testing.T) {
	const rows, cols = 5, 301
	c := ir.Case[any]{
		In: []ir.Type{ir.TypeOf(dtype.F32, rows, cols), ir.TypeOf(dtype.F32, cols), ir.TypeOf(dtype.F32, cols)}}
	in := interp.CaseInputs(c, 7)
	x := in[0]
	softmax := eval(t, op.SoftmaxDef, op.SoftmaxAttrs{Axis: 1}, x)
	layer := eval(t, op.LayerNormDef, op.LayerNormAttrs{Eps: 1e-5}, in...)
	rms := eval(t, op.RmsNormDef, op.RmsNormAttrs{Eps: 1e-5}, in...)
	sum := eval(t, op.ReduceSumDef, op.ReduceAttrs{Axes: []int{1}}, x)
	for r := range rows {
		row := x.Floats[r*cols : (r+1)*cols]
		mean, variance := stat.PopMeanVariance(row, nil)
		logSum, norm := floats.LogSumExp(row), floats.Norm(row, 2)
		near(t, "reduce_sum", sum.Floats[r], floats.Sum(row))
		for i, v := range row {
			near(t, "softmax", softmax.Floats[r*cols+i], math.Exp(v-logSum))
			near(t, "layer_norm", layer.Floats[r*cols+i], (v-mean)/math.Sqrt(variance+1e-5)*in[1].Floats[i]+
				in[2].Floats[i])
			near(t, "rms_norm", rms.Floats[r*cols+i], v/math.Sqrt(norm*norm/cols+1e-5)*in[1].Floats[i]+in[2].Floats[i])
		}
	}
}

func near(t *testing.T, name string, got, want float64) {
	t.Helper()
	if interp.Excess(got, want, ir.Tolerance{Abs: 1e-12, Rel: 1e-10}) > 0 {
		t.Fatalf("%s: got %v, want %v", name, got, want)
	}
}

// TestMatMulAgainstGonum compares matmul with gonum, for all four combinations of transposed operands.
func TestMatMulAgainstGonum(t *testing.T) {
	const m, k, n = 7, 13, 5
	in := interp.CaseInputs(ir.Case[any]{In: []ir.Type{ir.TypeOf(dtype.F64, m, k), ir.TypeOf(dtype.F64, k, n)}}, 8)
	var want mat.Dense
	want.Mul(mat.NewDense(m, k, in[0].Floats), mat.NewDense(k, n, in[1].Floats))
	for _, a := range []op.MatMulAttrs{{}, {TransA: true}, {TransB: true}, {TransA: true, TransB: true}} {
		x, y := in[0], in[1]
		if a.TransA {
			x = eval(t, op.TransposeDef, op.TransposeAttrs{Perm: []int{1, 0}}, x)
		}
		if a.TransB {
			y = eval(t, op.TransposeDef, op.TransposeAttrs{Perm: []int{1, 0}}, y)
		}
		got := eval(t, op.MatMulDef, a, x, y)
		if err := interp.Compare(got, floatsOf(dtype.F64, []int{m, n}, want.RawMatrix().Data...),
			ir.Tolerance{Abs: 1e-12}); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

// TestConvAdjoint checks that conv_transpose2d is the adjoint of conv2d: <conv(x), y> = <x, conv_transpose(y)>.
// Different loops evaluate the two.
func TestConvAdjoint(t *testing.T) {
	for _, layout := range []string{op.NCHW, op.NHWC} {
		for _, c := range []struct {
			stride, padding, dilation []int
			groups                    int
		}{
			{nil, nil, nil, 0}, {[]int{2, 2}, []int{1, 1}, nil, 1}, {[]int{3, 1}, []int{0, 2}, []int{1, 2}, 1},
			{nil, []int{1, 1}, nil, 2}, {[]int{2, 1}, nil, []int{2, 2}, 4},
		} {
			groups := int64(max(c.groups, 1))
			xt, wt := ir.TypeOf(dtype.F64, 2, 4, 11, 9), ir.TypeOf(dtype.F64, 8, 4/groups, 3, 3)
			if layout == op.NHWC {
				xt = ir.TypeOf(dtype.F64, 2, 11, 9, 4)
			}
			conv := op.ConvAttrs{Stride: c.stride, Padding: c.padding, Dilation: c.dilation, Groups: c.groups,
				Layout: layout}
			in := interp.CaseInputs(ir.Case[any]{In: []ir.Type{xt, wt}}, 9)
			cx := eval(t, op.Conv2DDef, conv, in...)
			y := interp.CaseInputs(ir.Case[any]{In: []ir.Type{interp.TypeOf(cx)}}, 10)[0]
			g, err := conv.Geometry()
			if err != nil {
				t.Fatal(err)
			}
			// Add back the elements that the stride cuts off.
			var extra []int
			_, _, size := g.Sizes(in[0].Shape)
			for i := 1; i < 3; i++ {
				room := size[i] + 2*g.Padding[i] - g.Dilation[i]*2 - 1
				extra = append(extra, room%g.Stride[i])
			}
			ty := eval(t, op.ConvTranspose2DDef,
				op.ConvTransposeAttrs{Stride: c.stride, Padding: c.padding, OutputPadding: extra,
					Dilation: c.dilation, Groups: c.groups, Layout: layout}, y, in[1])
			near(t, "conv", floats.Dot(cx.Floats, y.Floats), floats.Dot(in[0].Floats, ty.Floats))
		}
	}
}

func TestGatherOutOfRange(t *testing.T) {
	for _, i := range []int64{-1, 3} {
		_, err := tryEval(op.GatherDef, op.GatherAttrs{}, vector(1, 2, 3), ints(dtype.I32, i))
		if err == nil || !strings.Contains(err.Error(), "out of range 0 to 2") {
			t.Errorf("index %d gives error %v", i, err)
		}
	}
}

// TestAttentionWithoutKeys checks that a query that attends to no key gives zeros, not NaN or the mean of v.
func TestAttentionWithoutKeys(t *testing.T) {
	q, v := f32s([]int{1, 2, 2}, 1, 2, 3, 4), f32s([]int{1, 1, 2}, 5, 6)
	got := eval(t, op.AttentionDef, op.AttentionAttrs{Heads: 1, Layout: op.BSE, Mask: op.MaskCausal}, q, v, v)
	if err := interp.Compare(got, f32s([]int{1, 2, 2}, 0, 0, 5, 6), ir.Tolerance{}); err != nil {
		t.Error(err)
	}
	bias := f32s([]int{1, 1, 2, 1}, -inf, -7)
	got = eval(t, op.AttentionDef, op.AttentionAttrs{Heads: 1, Layout: op.BSE, Mask: op.MaskBias}, q, v, v, bias)
	if err := interp.Compare(got, f32s([]int{1, 2, 2}, 0, 0, 5, 6), ir.Tolerance{}); err != nil {
		t.Errorf("bias: %v", err)
	}
}

// TestRopePositions checks that a position outside of the tables is an error.
func TestRopePositions(t *testing.T) {
	x, table := f32s([]int{1, 2, 2}, 1, 2, 3, 4), f32s([]int{3, 1}, 1, 0.5, 0)
	a := op.RopeAttrs{HeadDim: 2, Style: op.NeoX, Layout: op.BSE}
	for _, p := range []int64{-1, 2, math.MaxInt32} {
		_, err := tryEval(op.RopeDef, a, x, table, table, nil, &tensor.Array{DType: dtype.I32, Ints: []int64{p}})
		if err == nil || !strings.Contains(err.Error(), "is out of range 0 to 2") {
			t.Errorf("position %d gives error %v", p, err)
		}
	}
}
