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
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// TestInterpretedPacked compares products of one row with packed weights with their definition, on the interpreter.
func TestInterpretedPacked(t *testing.T) { testPacked(t, interpreted(withMMA, strings.Clone)) }

// TestPacked is TestInterpretedPacked on the device.
func TestPacked(t *testing.T) { testPacked(t, shared) }

func testPacked(t *testing.T, on device.Backend) {
	for _, typ := range dtype.Packed() {
		for _, s := range [][2]int{{5, 256}, {19, 1536}, {3, 4352}, {11, 2048}} {
			t.Run(fmt.Sprintf("%v/%dx%d", typ, s[0], s[1]), func(t *testing.T) {
				g := ir.NewGraph("vectors")
				x := op.Input(g, "x", ir.TypeOf(dtype.F32, 1, int64(s[1])))
				w := op.Input(g, "w", ir.TypeOf(typ, int64(s[0]), int64(s[1]/typ.Values())))
				y := op.DequantMatMul(x, w, "f32")
				g.Return("y", y)
				r := loadOn(t, on, g, "f32")
				rng := rand.New(rand.NewPCG(uint64(s[1]), uint64(typ)))
				o := r.bound.Inputs[1]
				bytes := r.io[o.Offset : o.Offset+o.Bytes]
				for i := range bytes { // no exponent of a scale has all bits set
					bytes[i] = byte(rng.Uint32())
					if i%2 == 1 {
						bytes[i] &= 0xbb
					}
				}
				in := normal(rng, x.Type)
				r.set("x", in)
				weights, rows := tensor.NewArray(dtype.F32, s[0], s[1]), tensor.NewArray(dtype.I32, s[0])
				for i := range rows.Ints {
					rows.Ints[i] = int64(i)
				}
				packed := tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: bytes}.Array()
				decode := op.DequantRows(w, op.Input(g, "rows", ir.TypeOf(dtype.I32, int64(s[0]))))
				if err := decode.Op.Eval(decode.Attrs, []*tensor.Array{packed, rows}, weights); err != nil {
					t.Fatal(err)
				}
				for i, got := range r.run(t).Floats {
					want, all := 0.0, 0.0
					for k, v := range in.Floats {
						product := v * weights.Floats[i*s[1]+k]
						want, all = want+product, all+math.Abs(product)
					}
					if !(math.Abs(got-want) <= 2e-6*all) && !(math.IsNaN(got) && math.IsNaN(want)) && got != want {
						t.Errorf("y[%d] is %v; want %v, with an error of at most %v", i, got, want, 2e-6*all)
					}
				}
			})
		}
	}
}

// TestInterpretedGroups: a norm and two products of one row with packed weights, whose results are multiplied, give the
// same as one group and step by step.
func TestInterpretedGroups(t *testing.T) {
	for _, types := range [][2]dtype.DType{{dtype.Q4_0, dtype.Q4_0}, {dtype.Q4_K, dtype.Q4_K}, {dtype.Q4_K, dtype.Q6_K},
		{dtype.Q8_0, dtype.Q4_0}, {dtype.Q5_1, dtype.BF16}, {dtype.BF16, dtype.Q4_0}} {
		t.Run(fmt.Sprint(types), func(t *testing.T) {
			const n, k = 37, 1280
			g := ir.NewGraph("group")
			x, one := op.Input(g, "x", ir.TypeOf(dtype.F32, 1, k)), op.Input(g, "one", ir.TypeOf(dtype.F32, k))
			h := op.RmsNorm(x, one, one, 1e-5)
			var of [2]*ir.Node
			for i, typ := range types {
				w := op.Input(g, fmt.Sprint("w", i), ir.TypeOf(typ, n, int64(k/typ.Values())))
				if typ.IsPacked() {
					of[i] = op.DequantMatMul(h, w, "f32")
				} else {
					of[i] = op.MatMul(h, w, op.MatMulAttrs{TransB: true})
				}
			}
			g.Return("y", op.Mul(of[0], of[1]))
			r := loadOn(t, interpreted(withMMA, strings.Clone), g, "f32")
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range r.io {
				r.io[i] = byte(rng.Uint32()) & 0x3b
			}
			together := r.run(t)
			single := device.Run{IO: r.io, Opts: device.RunOptions{CheckNaN: true}}
			if _, err := r.exe.Run(t.Context(), single); err != nil {
				t.Fatal(err)
			}
			o := r.bound.Outputs[0]
			apart := tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: r.io[o.Offset : o.Offset+o.Bytes]}.Array()
			for i, v := range together.Floats {
				if w := apart.Floats[i]; !(math.Abs(v-w) <= 1e-5*math.Abs(w)) {
					t.Errorf("y[%d] is %v in a group, and %v step by step", i, v, w)
				}
			}
		})
	}
}

// BenchmarkVectors times products of one row by the device's clock. Each repetition reads other weights, so that they
// do not stay in the L2 cache.
func BenchmarkVectors(b *testing.B) {
	for _, typ := range []dtype.DType{dtype.BF16, dtype.Q4_0, dtype.Q4_K, dtype.Q8_0, dtype.Q6_K} {
		for _, s := range [][2]int{{2048, 2048}, {16384, 2048}, {2048, 8192}, {128256, 2048}} {
			b.Run(fmt.Sprintf("%v/%dx%d", typ, s[0], s[1]), func(b *testing.B) {
				g := ir.NewGraph("vectors")
				x := op.Input(g, "x", ir.TypeOf(dtype.F32, 1, int64(s[1])))
				bytes := s[0] * s[1] * typ.Size() / typ.Values()
				count := max(1, 400<<20/bytes)
				for i := range count {
					w := op.Input(g, fmt.Sprint("w", i), ir.TypeOf(typ, int64(s[0]), int64(s[1]/typ.Values())))
					var y *ir.Node
					if typ.IsPacked() {
						y = op.DequantMatMul(x, w, "f32")
					} else {
						y = op.FusedMatMul(x, w, nil, nil, op.FusedMatMulAttrs{TransB: true})
					}
					g.Return(fmt.Sprint("y", i), y)
				}
				r := loadOn(b, gpu.New(newAPI(openLibrary, cacheFolder())), g, "bf16")
				rng := rand.New(rand.NewPCG(1, 2))
				for i := range r.io {
					r.io[i] = byte(rng.Uint32()) & 0x3f
				}
				r.run(b)
				took := fastest(b, r.exe) / float64(count)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(1e6*took, "us")
				b.ReportMetric(float64(bytes)/took/1e9, "GB/s")
			})
		}
	}
}
