//go:build cgo && (darwin || amd64)

package backend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestNormSizes normalises rows of every way that the kernel cuts them: fewer units than invocations, a whole number
// each, a rest, more than registers hold, and 16-bit rows that begin within a word. A NaN stays in its row.
func TestNormSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, d := range []dtype.DType{dtype.F32, dtype.F16, dtype.BF16} {
		tol := map[dtype.DType]float64{dtype.F32: 2e-6, dtype.F16: 1e-3, dtype.BF16: 8e-3}[d]
		widths := []int{5, 64, 100, 768, 1280, 8192, 8196}
		for _, i := range devicetest.Some(t, 2, uint64(len(widths))) {
			width := widths[i]
			for _, rows := range []int{1, 33} {
				if rows == 1 && width != 768 || d != dtype.F32 && width > 100 {
					continue
				}
				for _, kind := range []string{"alone", "of a sum", "and the sum", "and the sum, in place"} {
					residual := kind != "alone"
					sums, inPlace := strings.HasPrefix(kind, "and the sum"), strings.HasSuffix(kind, "in place")
					if sums && d != dtype.F32 {
						continue
					}
					g := ir.NewGraph("norm")
					shape := ir.TypeOf(d, int64(rows), int64(width))
					x, r := op.Input(g, "x", shape), op.Input(g, "r", shape)
					gamma, beta := op.Input(g, "gamma", ir.TypeOf(d, int64(width))),
						op.Input(g, "beta", ir.TypeOf(d, int64(width)))
					y := op.LayerNorm(x, gamma, beta, 1e-5)
					z := op.RmsNorm(r, gamma, beta, 1e-5)
					if residual {
						y = op.FusedResidualLayerNorm(x, r, gamma, beta, 1e-5)
						z = op.FusedResidualRmsNorm(r, x, gamma, beta, 1e-5)
					}
					if sums {
						var s, u *ir.Node
						operand := func(n *ir.Node) *ir.Node {
							if inPlace {
								return op.Copy(n)
							}
							return n
						}
						s, y = op.FusedAddLayerNorm(operand(x), operand(r), gamma, beta, 1e-5)
						u, z = op.FusedAddRmsNorm(operand(r), operand(x), gamma, beta, 1e-5)
						g.Return("s", s)
						g.Return("u", u)
					}
					g.Return("y", y)
					g.Return("z", z)
					p, _, err := sched.Build(
						g, sched.Options{Target: "cpu", Weights: func(string) (int64, bool) { return 0, true }})
					if err != nil {
						t.Fatal(err)
					}
					for _, o := range p.Graph.Outputs {
						if inPlace != (p.Places[o.Node.ID].Parent >= 0) {
							t.Fatalf("%s: output %s is at %+v", kind, o.Name, p.Places[o.Node.ID])
						}
					}
					in := map[string]*tensor.Array{}
					for name, shape := range map[string][]int{"x": {rows, width}, "r": {rows, width}, "gamma": {width},
						"beta": {width}} {
						a := tensor.NewArray(d, shape...)
						for i := range a.Floats {
							a.Floats[i] = 3 + 2*rng.Float64()
							if name == "x" && d == dtype.F32 && width%3 == 1 {
								a.Floats[i] += 1000 // far from 0 beside the differences
							}
						}
						in[name] = a.Tensor().Array() // rounded
					}
					if rows > 1 {
						in["x"].Floats[2*width-1], in["r"].Floats[width] = math.NaN(), math.NaN()
					}
					out := onDevice(t, load(t, shared, p, nil), p, nil, in)
					for i := range rows {
						row := func(a *tensor.Array) []float64 { return a.Floats[i*width : (i+1)*width] }
						first, second := row(in["x"]), row(in["r"])
						if residual {
							sum := make([]float64, width)
							for k := range sum {
								sum[k] = float64(float32(first[k] + second[k]))
							}
							first, second = sum, sum
						}
						name := fmt.Sprintf("%v[%d,%d] %s row %d", d, rows, width, kind, i)
						if sums {
							for k, want := range first {
								for _, sum := range []float64{row(out["s"])[k], row(out["u"])[k]} {
									if sum != want && !(math.IsNaN(sum) && math.IsNaN(want)) {
										t.Fatalf("%s: sum %d is %v; want %v", name, k, sum, want)
									}
								}
							}
						}
						checkNorm(t, name+" layer", row(out["y"]), first, in["gamma"].Floats, in["beta"].Floats, true,
							tol)
						checkNorm(t, name+" rms", row(out["z"]), second, in["gamma"].Floats, in["beta"].Floats, false,
							tol)
					}
				}
			}
		}
	}
}

// TestNormOfViews normalises rows that begin within a vector, because a view begins there.
func TestNormOfViews(t *testing.T) {
	for _, d := range []dtype.DType{dtype.F32, dtype.F16} {
		g := ir.NewGraph("norm")
		x, gamma := op.Input(g, "x", ir.TypeOf(d, 17)), op.Input(g, "gamma", ir.TypeOf(d, 9))
		rows := op.Reshape(op.Narrow(x, 0, 1, 16), ir.Shape{ir.Static(2), ir.Static(8)})
		g.Return("y", op.LayerNorm(rows, op.Narrow(gamma, 0, 0, 8), op.Narrow(gamma, 0, 1, 8), 1e-5))
		p, _, err := sched.Build(g, sched.Options{Target: "cpu"})
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]*tensor.Array{"x": tensor.NewArray(d, 17), "gamma": tensor.NewArray(d, 9)}
		for name, a := range in {
			for i := range a.Floats {
				a.Floats[i] = float64(i*i%11 + len(name))
			}
		}
		got := onDevice(t, load(t, shared, p, nil), p, nil, in)["y"].Floats
		for i := range 2 {
			checkNorm(t, fmt.Sprint(d, " row ", i), got[i*8:i*8+8], in["x"].Floats[1+i*8:9+i*8], in["gamma"].Floats[:8],
				in["gamma"].Floats[1:], true, map[dtype.DType]float64{dtype.F32: 2e-6, dtype.F16: 1e-3}[d])
		}
	}
}

func checkNorm(t *testing.T, name string, got, x, gamma, beta []float64, center bool, tol float64) {
	t.Helper()
	mean, squares := 0.0, 0.0
	if center {
		for _, v := range x {
			mean += v / float64(len(x))
		}
	}
	for _, v := range x {
		squares += (v - mean) * (v - mean) / float64(len(x))
	}
	for k, v := range x {
		n := (v - mean) / math.Sqrt(squares+1e-5)
		want := n*gamma[k] + beta[k]
		// f32 knows a mean of about 4 to 3e-7, and dividing by a small deviation makes that more.
		bound := tol*(math.Abs(n*gamma[k])+math.Abs(beta[k])) + 1e-5/math.Sqrt(squares+1e-5)
		if d := math.Abs(got[k] - want); !(d <= bound) && !(math.IsNaN(want) && math.IsNaN(got[k])) {
			t.Fatalf("%s: element %d is %v; want %v within %v", name, k, got[k], want, bound)
		}
	}
}
