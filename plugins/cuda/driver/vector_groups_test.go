package driver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cuda/matrix"
	"github.com/rlx-go/rlx/plugins/cuda/shim"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// vectorCase is products of one row, which may be normalised first.
type vectorCase struct {
	types          []dtype.DType
	n              []int
	k              int
	norm, gated    bool
	sum            bool // what is normalised is a sum with another product
	bias, residual bool
	act            string
}

var vectorCases = []vectorCase{
	{types: []dtype.DType{dtype.BF16}, n: []int{37}, k: 1280},
	{types: []dtype.DType{dtype.BF16}, n: []int{150}, k: 2048, bias: true, residual: true, act: "gelu_tanh"},
	{types: []dtype.DType{dtype.F16}, n: []int{21}, k: 4104, bias: true, act: "silu"},
	{types: []dtype.DType{dtype.F32}, n: []int{19}, k: 1000, residual: true},
	{types: []dtype.DType{dtype.F32}, n: []int{9}, k: 9000},
	{types: []dtype.DType{dtype.BF16}, n: []int{5}, k: 12000, residual: true},
	{types: []dtype.DType{dtype.BF16, dtype.BF16, dtype.BF16}, n: []int{64, 24, 7}, k: 512, norm: true},
	{types: []dtype.DType{dtype.BF16, dtype.BF16}, n: []int{133, 133}, k: 2048, norm: true, gated: true, act: "silu"},
	{types: []dtype.DType{dtype.F16, dtype.F16}, n: []int{30, 30}, k: 200, norm: true, gated: true, act: "silu"},
	{types: []dtype.DType{dtype.Q4_0}, n: []int{90}, k: 8192, residual: true},
	{types: []dtype.DType{dtype.Q4_0}, n: []int{8200}, k: 256, residual: true},
	{types: []dtype.DType{dtype.Q8_0}, n: []int{8197}, k: 256},
	{types: []dtype.DType{dtype.Q4_0, dtype.Q4_0, dtype.Q4_0}, n: []int{64, 24, 7}, k: 512, norm: true},
	{types: []dtype.DType{dtype.Q4_K, dtype.Q4_K, dtype.Q6_K}, n: []int{64, 24, 17}, k: 2048, norm: true},
	{types: []dtype.DType{dtype.Q4_0, dtype.Q4_0}, n: []int{133, 133}, k: 2048, norm: true, gated: true, act: "silu"},
	{types: []dtype.DType{dtype.Q6_K, dtype.Q6_K}, n: []int{17, 17}, k: 4096, norm: true, gated: true, act: "silu"},
	{types: []dtype.DType{dtype.Q8_0, dtype.Q8_0}, n: []int{17, 17}, k: 2304, norm: true, gated: true, act: "silu"},
	{types: []dtype.DType{dtype.Q4_K, dtype.Q4_K}, n: []int{17, 17}, k: 4352, norm: true, gated: true, act: "silu"},
}

func init() {
	for _, gated := range []bool{false, true} {
		vectorCases = append(vectorCases, vectorCase{types: []dtype.DType{dtype.Q4_0, dtype.Q4_0}, n: []int{37, 37},
			k: 512, norm: true, sum: true, gated: gated})
	}
}

// TestInterpretedVectors compares products of one row with their definition, on the interpreter.
func TestInterpretedVectors(t *testing.T) {
	for _, c := range vectorCases {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { c.test(t, interpreted(withMMA, strings.Clone), 1) })
	}
}

// TestInterpretedSums runs a product, the sum of its result and the norm of that before others with the shaders of all
// backends.
func TestInterpretedSums(t *testing.T) {
	on := shim.New(shim.Options{PTX: matrix.Kernel, Limits: func(l *gpu.Limits) {}})
	for _, c := range vectorCases {
		if c.sum {
			t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { c.test(t, on, 1) })
		}
	}
}

// TestVectors is TestInterpretedVectors on the device.
func TestVectors(t *testing.T) {
	for _, c := range vectorCases {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { c.test(t, shared, 3) }) // the third run is a graph
	}
}

func (c vectorCase) graph() *ir.Graph {
	g := ir.NewGraph("vectors")
	k := int64(c.k)
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 1, k))
	if c.sum {
		w := op.Input(g, "w", ir.TypeOf(c.types[0], k, k/int64(c.types[0].Values())))
		s, y := op.FusedAddRmsNorm(op.Input(g, "r", x.Type), op.DequantMatMul(x, w, "f32"),
			op.Input(g, "gamma", ir.TypeOf(dtype.F32, k)), op.Input(g, "beta", ir.TypeOf(dtype.F32, k)), 1e-5)
		x = y
		defer g.Return("sum", s)
	} else if c.norm {
		x = op.RmsNorm(x, op.Input(g, "gamma", ir.TypeOf(dtype.F32, k)), op.Input(g, "beta", ir.TypeOf(dtype.F32, k)),
			1e-5)
	}
	var out []*ir.Node
	for i, typ := range c.types {
		n := int64(c.n[i])
		var bias, residual *ir.Node
		if c.bias {
			bias = op.Input(g, fmt.Sprint("bias", i), ir.TypeOf(dtype.F32, n))
		}
		if c.residual {
			residual = op.Input(g, fmt.Sprint("residual", i), ir.TypeOf(dtype.F32, 1, n))
		}
		name := fmt.Sprint("w", i)
		if typ.IsPacked() {
			y := op.DequantMatMul(x, op.Input(g, name, ir.TypeOf(typ, n, k/int64(typ.Values()))), "f32")
			if residual != nil {
				y = op.Add(residual, y)
			}
			out = append(out, y)
			continue
		}
		a := op.FusedMatMulAttrs{TransB: true}
		if i == len(c.types)-1 {
			a.Act = c.act
		}
		out = append(out, op.FusedMatMul(x, op.Input(g, name, ir.TypeOf(typ, n, k)), bias, residual, a))
	}
	if c.gated {
		out = []*ir.Node{op.Mul(out[0], out[1])}
	}
	for i, y := range out {
		g.Return(fmt.Sprint("y", i), y)
	}
	return g
}

func (c vectorCase) test(t *testing.T, on device.Backend, runs int) {
	r := loadOn(t, on, c.graph(), "f32")
	rng := rand.New(rand.NewPCG(uint64(c.k), uint64(c.n[0])))
	in := map[string][]float64{}
	for i, n := range r.program.Graph.Inputs() {
		o := r.bound.Inputs[i]
		bytes := r.io[o.Offset : o.Offset+o.Bytes]
		if !n.Type.DType.IsPacked() {
			a := normal(rng, n.Type)
			a.Store(bytes)
			in[n.Name] = a.Floats
			continue
		}
		for i := range bytes { // no exponent of a scale is large
			bytes[i] = byte(rng.Uint32())
			if i%2 == 1 {
				bytes[i] &= 0xbb
			}
		}
		in[n.Name] = unpacked(t, n, bytes)
	}
	for range runs {
		r.run(t)
		for i, o := range r.bound.Outputs[:len(r.bound.Outputs)-btoi(c.sum)] {
			y := tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: r.io[o.Offset : o.Offset+o.Bytes]}.Array()
			c.compare(t, i, y.Floats, in)
		}
	}
}

// unpacked returns the values of packed weights.
func unpacked(t *testing.T, n *ir.Node, bytes []byte) []float64 {
	shape := n.Type.Shape.Eval(nil)
	g := ir.NewGraph("decode")
	w := op.Input(g, "w", n.Type)
	decode := op.DequantRows(w, op.Input(g, "rows", ir.TypeOf(dtype.I32, int64(shape[0]))))
	rows := tensor.NewArray(dtype.I32, shape[0])
	for i := range rows.Ints {
		rows.Ints[i] = int64(i)
	}
	packed := tensor.Tensor{DType: n.Type.DType, Shape: shape, Data: bytes}.Array()
	out := tensor.NewArray(dtype.F32, shape[0], shape[1]*n.Type.DType.Values())
	if err := decode.Op.Eval(decode.Attrs, []*tensor.Array{packed, rows}, out); err != nil {
		t.Fatal(err)
	}
	return out.Floats
}

// compare compares output i with sums in float64. The bound is that of f32 sums in any order.
func (c vectorCase) compare(t *testing.T, i int, got []float64, in map[string][]float64) {
	t.Helper()
	x := append([]float64(nil), in["x"]...)
	if c.sum {
		sums := append([]float64(nil), in["r"]...)
		for row := range sums {
			for k, v := range x {
				sums[row] += v * in["w"][row*c.k+k]
			}
		}
		x = sums
	}
	if c.norm {
		squares := 0.0
		for _, v := range x {
			squares += v * v
		}
		for k := range x {
			x[k] = x[k]/math.Sqrt(squares/float64(c.k)+1e-5)*in["gamma"][k] + in["beta"][k]
		}
	}
	product := func(i, row int) (sum, all float64) {
		for k, v := range x {
			p := v * in[fmt.Sprint("w", i)][row*c.k+k]
			sum, all = sum+p, all+math.Abs(p)
		}
		if bias := in[fmt.Sprint("bias", i)]; bias != nil {
			sum, all = sum+bias[row], all+math.Abs(bias[row])
		}
		if i == len(c.types)-1 && !c.types[i].IsPacked() {
			sum = activate(c.act, sum)
		}
		if residual := in[fmt.Sprint("residual", i)]; residual != nil {
			sum, all = sum+residual[row], all+math.Abs(residual[row])
		}
		return sum, all + 1
	}
	for row, v := range got {
		want, bound := product(i, row)
		bound *= 3e-6
		if c.gated {
			other, more := product(1, row)
			bound = 3e-6*more*math.Abs(want) + bound*math.Abs(other)
			want *= other
		}
		if !(math.Abs(v-want) <= bound) {
			t.Fatalf("y%d[%d] is %v; want %v, with an error of at most %v", i, row, v, want, bound)
		}
	}
}

// TestInterpretedInfinite: an infinite value of x makes results infinite, or NaN where a weight is 0 or has a minimum,
// and NaN makes them NaN.
func TestInterpretedInfinite(t *testing.T) {
	for _, typ := range []dtype.DType{dtype.Q4_0, dtype.Q8_0, dtype.Q4_K, dtype.Q6_K, dtype.BF16} {
		for _, v := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
			c := vectorCase{types: []dtype.DType{typ}, n: []int{24}, k: 2048}
			r := loadOn(t, interpreted(withMMA, strings.Clone), c.graph(), "f32")
			in := r.bound.Inputs
			w := r.io[in[1].Offset : in[1].Offset+in[1].Bytes]
			rng := rand.New(rand.NewPCG(uint64(typ), 1))
			for i := range w {
				w[i] = byte(rng.Uint32()) & 0x3b
			}
			x := normal(rng, r.program.Graph.Inputs()[0].Type)
			x.Floats[777] = v
			r.set("x", x)
			weights := unpackedOr(t, r.program.Graph.Inputs()[1], w)
			for row, got := range r.run(t).Floats {
				want := v * weights[row*c.k+777]
				if !(got == want || math.IsNaN(got) && (math.IsNaN(want) || typ == dtype.Q4_K)) {
					t.Errorf("%v: x has %v; y[%d] is %v; want %v", typ, v, row, got, want)
				}
			}
		}
	}
}

// unpackedOr returns the values of weights, packed or not.
func unpackedOr(t *testing.T, n *ir.Node, bytes []byte) []float64 {
	if n.Type.DType.IsPacked() {
		return unpacked(t, n, bytes)
	}
	return tensor.Tensor{DType: n.Type.DType, Shape: n.Type.Shape.Eval(nil), Data: bytes}.Array().Floats
}
