package driver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cuda/matrix"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// convCase is a convolution of inputs.
type convCase struct {
	x, w  []int64
	typ   dtype.DType // of the filters
	attrs op.ConvAttrs
	bias  bool

	transposed bool // its attributes are those of attrs, and w has x's channels first
}

var convCases = []convCase{
	{[]int64{1, 9, 7, 64}, []int64{20, 64, 3, 3}, dtype.F32,
		op.ConvAttrs{Padding: []int{1, 1}, Layout: "nhwc"}, true, false},
	{[]int64{2, 70, 6, 9}, []int64{33, 70, 3, 2}, dtype.BF16,
		op.ConvAttrs{Stride: []int{2, 1}, Padding: []int{2, 0}, Dilation: []int{1, 3}, Layout: "nchw"}, true, false},
	{[]int64{2, 3, 33, 25}, []int64{17, 3, 7, 5}, dtype.F32,
		op.ConvAttrs{Stride: []int{2, 3}, Padding: []int{3, 1}, Layout: "nchw"}, true, false},
	{[]int64{1, 32, 40, 3}, []int64{96, 3, 4, 4}, dtype.F16,
		op.ConvAttrs{Stride: []int{4, 4}, Layout: "nhwc"}, false, false},
	{[]int64{3, 40, 129}, []int64{31, 40, 5}, dtype.F32,
		op.ConvAttrs{Padding: []int{4}, Dilation: []int{2}, Layout: "ncw"}, false, false},
	{[]int64{1, 5, 6, 7, 33}, []int64{18, 33, 2, 3, 3}, dtype.F32,
		op.ConvAttrs{Stride: []int{2, 1, 2}, Padding: []int{1, 1, 2}, Dilation: []int{2, 1, 1}, Layout: "ndhwc"}, true,
		false},
	{[]int64{2, 128, 8, 8}, []int64{64, 128, 1, 1}, dtype.BF16, op.ConvAttrs{Layout: "nchw"}, true, false},
}

// transposedCases are transposed convolutions whose taps do not overlap.
var transposedCases = []convCase{
	{[]int64{1, 9, 7, 64}, []int64{64, 24, 2, 2}, dtype.F32,
		op.ConvAttrs{Stride: []int{2, 2}, Layout: "nhwc"}, true, true},
	{[]int64{2, 5, 11, 70}, []int64{70, 17, 3, 2}, dtype.BF16,
		op.ConvAttrs{Stride: []int{3, 2}, Layout: "nhwc"}, true, true},
	{[]int64{3, 33, 40}, []int64{40, 19, 4}, dtype.F16, op.ConvAttrs{Stride: []int{4}, Layout: "nwc"}, false, true},
	{[]int64{1, 24, 24, 128}, []int64{128, 64, 2, 2}, dtype.F32,
		op.ConvAttrs{Stride: []int{2, 2}, Layout: "nhwc"}, false, true},
}

// largeConv are cases for devices, the first for benchmarks alone.
var largeConv = []convCase{
	{[]int64{1, 64, 64, 256}, []int64{256, 256, 3, 3}, dtype.F32,
		op.ConvAttrs{Padding: []int{1, 1}, Layout: "nhwc"}, false, false},
	{[]int64{2, 96, 57, 61}, []int64{130, 96, 3, 3}, dtype.F32,
		op.ConvAttrs{Stride: []int{2, 2}, Padding: []int{1, 1}, Layout: "nchw"}, true, false},
	{[]int64{1, 3, 224, 224}, []int64{96, 3, 16, 16}, dtype.F32,
		op.ConvAttrs{Stride: []int{16, 16}, Layout: "nchw"}, true, false},
}

func (c convCase) String() string {
	return fmt.Sprintf("%v %v %v %+v %v", c.x, c.w, c.typ, c.attrs, c.bias)
}

// TestInterpretedConv runs convolutions on the interpreter.
func TestInterpretedConv(t *testing.T) {
	for _, i := range third(t, len(convCases)) {
		c := convCases[i]
		for j, d := range []func() (d, p string){
			func() (string, string) { return "mma", []string{"bf16", "f16"}[i%2] },
			func() (string, string) { return "wgmma", []string{"f16", "bf16"}[i%2] },
			func() (string, string) { return "wgmma", "f32" },
		} {
			name, p := d()
			on := withMMA
			if name == "wgmma" {
				on = withWGMMA
			}
			on.Small = true
			t.Run(fmt.Sprintf("%s/%s/%v", name, p, c), func(t *testing.T) {
				used := false
				c.test(t, interpreted(on, func(text string) string {
					used = true
					return text
				}), p, i, j == 0)
				if !used {
					t.Error("no kernel for matrix units was used")
				}
			})
		}
	}
}

// TestInterpretedTransposed runs transposed convolutions on the interpreter.
func TestInterpretedTransposed(t *testing.T) {
	for i, c := range transposedCases {
		for j, on := range []matrix.Device{withMMA, withWGMMA} {
			p := halves[(i+j)%2]
			t.Run(fmt.Sprintf("%d/%s/%v", on.Capability, p, c), func(t *testing.T) {
				used := false
				c.test(t, interpreted(on, func(text string) string {
					used = used || strings.Contains(text, "mma")
					return text
				}), p, uint64(i), i == 0)
				if !used {
					t.Error("no kernel for matrix units was used")
				}
			})
		}
	}
}

// TestInterpretedFusedConv runs fused convolutions on the interpreter. The matrix units compute the convolution, and
// another shader does the rest. Padding must not multiply an infinite weight before the activation either.
func TestInterpretedFusedConv(t *testing.T) {
	for i, c := range convCases[:5] {
		t.Run(c.String(), func(t *testing.T) {
			g, y := c.convolution()
			a := c.attrs.Fused([]string{"relu", "", "silu"}[i%3])
			addend := op.Input(g, "addend", y.Type)
			var residual *ir.Node
			if i%2 == 0 {
				residual = op.Input(g, "residual", y.Type)
			}
			y = op.FusedConv(y.In[0], y.In[1], y.In[op.ConvBias], addend, residual, a)
			g.Return("y", y)
			on := withMMA
			on.Small = true
			r := loadOn(t, interpreted(on, func(text string) string { return text }), g, "f32")
			rng := rand.New(rand.NewPCG(uint64(i), 4))
			in := make([]*tensor.Array, len(y.In))
			for k, n := range y.Operands() {
				in[k] = normal(rng, n.Type)
				if k == 1 {
					in[k].Floats[0] = math.Inf(1)
				}
				r.set(n.Name, in[k])
			}
			want := tensor.NewArray(dtype.F32, y.Type.Shape.Eval(nil)...)
			if err := y.Op.Eval(y.Attrs, in, want); err != nil {
				t.Fatal(err)
			}
			for k, v := range r.run(t).Floats {
				w := want.Floats[k]
				if w != v && !(math.IsNaN(w) && math.IsNaN(v)) && !(math.Abs(v-w) <= 2e-5*(1+math.Abs(w))) {
					t.Fatalf("element %d of %v is %v; want %v", k, y.Type, v, w)
				}
			}
		})
	}
}

// TestConv compares convolutions with their definition.
func TestConv(t *testing.T) {
	for i, c := range slices.Concat(largeConv[1:], convCases, transposedCases) {
		for _, p := range []string{"bf16", "f16", "f32"} {
			if c.transposed && p == "f32" {
				continue // kernels of all GPUs, which the conformance suite tests
			}
			for _, special := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/%v", p, special, c), func(t *testing.T) {
					c.test(t, small(t), p, uint64(i), special)
				})
			}
		}
	}
}

// small returns a backend that runs products at f32 on matrix units however small they are.
func small(t *testing.T) device.Backend {
	list, err := newAPI(openLibrary, "").Adapters()
	if err != nil {
		return shared // which skips or fails the test
	}
	d := list[0].(*adapter).matrix
	d.Small = true
	a := newAPI(openLibrary, cacheFolder())
	a.change = func(l *gpu.Limits) { l.Kernels.Own = matrix.Kernels(d) }
	return gpu.New(a)
}

func (c convCase) graph() (g *ir.Graph, y *ir.Node) {
	g, y = c.convolution()
	g.Return("y", y)
	return g, y
}

// convolution returns a graph that does not return its result yet.
func (c convCase) convolution() (g *ir.Graph, y *ir.Node) {
	g = ir.NewGraph("convolution")
	x, w := op.Input(g, "x", ir.TypeOf(dtype.F32, c.x...)), op.Input(g, "w", ir.TypeOf(c.typ, c.w...))
	var bias *ir.Node
	if c.bias && !c.transposed {
		bias = op.Input(g, "bias", ir.TypeOf(dtype.F32, c.w[0]))
	}
	if c.transposed {
		a := op.ConvTransposeAttrs{Stride: c.attrs.Stride, Layout: c.attrs.Layout}
		if c.bias {
			bias = op.Input(g, "bias", ir.TypeOf(dtype.F32, c.w[1]))
		}
		y = map[int]func(x, w, bias *ir.Node, a op.ConvTransposeAttrs) *ir.Node{3: op.ConvTranspose1D,
			4: op.ConvTranspose2D}[len(c.x)](x, w, bias, a)
		return g, y
	}
	make := map[int]func(x, w, bias *ir.Node, a op.ConvAttrs) *ir.Node{3: op.Conv1D, 4: op.Conv2D, 5: op.Conv3D}
	y = make[len(c.x)](x, w, bias, c.attrs)
	return g, y
}

// test compares with the definition in float64. The bound is that of products. Special values are NaN, infinities,
// which padding must not multiply, and values that become infinite when they are rounded.
func (c convCase) test(t *testing.T, on device.Backend, precision string, seed uint64, special bool) {
	g, y := c.graph()
	r := loadOn(t, on, g, precision)
	rng := rand.New(rand.NewPCG(seed, 3))
	in, sizes := make([]*tensor.Array, 3), make([]*tensor.Array, 3)
	for i, n := range r.program.Graph.Inputs() {
		a := normal(rng, n.Type)
		if special && i == 0 {
			a.Floats[0] = math.NaN()
			a.Floats[len(a.Floats)-1] = math.MaxFloat32
		}
		if special && i == 1 {
			a.Floats[0], a.Floats[len(a.Floats)-1] = math.Inf(1), math.Inf(-1)
		}
		r.set(n.Name, a)
		in[i] = a
		if precision != "f32" && i < 2 && !special {
			in[i] = rounded(a, precision)
		}
		sizes[i] = tensor.NewArray(dtype.F32, a.Shape...)
		for k, v := range in[i].Floats {
			sizes[i].Floats[k] = math.Abs(v)
		}
	}
	shape := y.Type.Shape.Eval(nil)
	want, all := tensor.NewArray(dtype.F32, shape...), tensor.NewArray(dtype.F32, shape...)
	for _, e := range []struct {
		in  []*tensor.Array
		out *tensor.Array
	}{{in, want}, {sizes, all}} {
		if err := y.Op.Eval(y.Attrs, e.in, e.out); err != nil {
			t.Fatal(err)
		}
	}
	part := map[string]float64{"f32": 0x1p-22, "bf16": 2e-6, "f16": 2e-6}[precision]
	if special { // finite elements are those of rounded operands
		part = map[string]float64{"f32": 0x1p-22, "bf16": 0x1p-7, "f16": 0x1p-10}[precision]
	}
	for range 2 { // the second finds what the first left in memory
		got := r.run(t)
		for i, v := range got.Floats {
			w := want.Floats[i]
			if math.IsNaN(w) && math.IsNaN(v) || v == w || float64(float32(w)) == v {
				continue
			}
			if !(math.Abs(v-w) <= part*all.Floats[i]+1e-6) {
				t.Fatalf("y[%d] is %v; want %v, with an error of at most %v", i, v, w, part*all.Floats[i])
			}
		}
	}
}

// BenchmarkConv times the convolution of SAM's neck and a patch embedding by the device's clock.
func BenchmarkConv(b *testing.B) {
	for _, p := range []string{"bf16", "f32", "fma"} {
		for _, c := range largeConv {
			b.Run(p+"/"+strings.ReplaceAll(fmt.Sprint(c.x, c.w, c.attrs.Layout), " ", "x"), func(b *testing.B) {
				a := newAPI(openLibrary, cacheFolder())
				precision := p
				if p == "fma" {
					a.change, precision = withoutMatrix, "f32"
				}
				g, _ := c.graph()
				r := loadOn(b, gpu.New(a), g, precision)
				for _, n := range r.program.Graph.Inputs() {
					r.set(n.Name, normal(rand.New(rand.NewPCG(1, 2)), n.Type))
				}
				r.run(b)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(1e6*fastest(b, r.exe), "us")
			})
		}
	}
}
