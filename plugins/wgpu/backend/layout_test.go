//go:build cgo && (darwin || amd64)

package backend

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// BenchmarkLayout times the transposes of SAM's ViT-B and large ones by the device's clock, each beside a copy of the
// same bytes. Its rate counts the bytes that are read and those that are written.
func BenchmarkLayout(b *testing.B) {
	for _, c := range []struct {
		name string
		d    dtype.DType
		dims []int64
		perm []int
	}{
		{"patches", dtype.F32, []int64{1, 3, 64, 16, 64, 16}, []int{0, 2, 4, 1, 3, 5}},
		{"last", dtype.F32, []int64{1, 256, 64, 64}, []int{0, 2, 3, 1}},
		{"first", dtype.F32, []int64{1, 64, 64, 256}, []int{0, 3, 1, 2}},
		{"heads", dtype.F32, []int64{4096, 12, 64}, []int{1, 0, 2}},
		{"keys", dtype.F32, []int64{4096, 12, 64}, []int{1, 2, 0}},
		{"square", dtype.F32, []int64{4096, 4096}, []int{1, 0}},
		{"square_f16", dtype.F16, []int64{4096, 4096}, []int{1, 0}},
		{"square_bool", dtype.Bool, []int64{4096, 4096}, []int{1, 0}},
		{"large", dtype.F32, []int64{8192, 8192}, []int{1, 0}},
		{"odd", dtype.F32, []int64{4095, 4097}, []int{1, 0}},
		{"odd_f16", dtype.F16, []int64{4095, 4097}, []int{1, 0}},
		{"batched", dtype.F32, []int64{4, 64, 32, 33, 65}, []int{0, 3, 2, 4, 1}},
		{"narrow", dtype.F32, []int64{1 << 20, 4}, []int{1, 0}},
		{"wide", dtype.F32, []int64{4, 1 << 20}, []int{1, 0}},
	} {
		x := ir.TypeOf(c.d, c.dims...)
		bandwidth(b, c.name+"/transpose", []ir.Type{x}, func(in []*ir.Node) *ir.Node {
			return op.Transpose(in[0], c.perm...)
		})
		bandwidth(b, c.name+"/copy", []ir.Type{x}, func(in []*ir.Node) *ir.Node { return op.Copy(in[0]) })
	}
}

// BenchmarkRows times ops that fold rows, and elementwise ones, against the bytes that they read and write.
func BenchmarkRows(b *testing.B) {
	f32 := func(dims ...int64) ir.Type { return ir.TypeOf(dtype.F32, dims...) }
	for _, width := range []int64{256, 768, 1280} {
		bandwidth(b, fmt.Sprint("layer_norm/", width), []ir.Type{f32(4096, width), f32(width), f32(width)},
			func(in []*ir.Node) *ir.Node {
				return op.LayerNorm(in[0], in[1], in[2], 1e-6)
			})
		bandwidth(b, fmt.Sprint("softmax/", width), []ir.Type{f32(4096, width)}, func(in []*ir.Node) *ir.Node {
			return op.Softmax(in[0], 1)
		})
		bandwidth(b, fmt.Sprint("softmax_columns/", width), []ir.Type{f32(16, 256, width)},
			func(in []*ir.Node) *ir.Node { return op.Softmax(in[0], 1) })
		bandwidth(b, fmt.Sprint("sum/", width), []ir.Type{f32(4096, width)}, func(in []*ir.Node) *ir.Node {
			return op.ReduceSum(in[0], false, 1)
		})
		bandwidth(b, fmt.Sprint("sum_columns/", width), []ir.Type{f32(16, 256, width)}, func(in []*ir.Node) *ir.Node {
			return op.ReduceSum(in[0], false, 1)
		})
		bandwidth(b, fmt.Sprint("add_bias/", width), []ir.Type{f32(4096, width), f32(width)},
			func(in []*ir.Node) *ir.Node { return op.Add(in[0], in[1]) })
		bandwidth(b, fmt.Sprint("add_column/", width), []ir.Type{f32(4096, width), f32(4096, 1)},
			func(in []*ir.Node) *ir.Node { return op.Add(in[0], in[1]) })
		bandwidth(b, fmt.Sprint("gelu/", width), []ir.Type{f32(4096, width)}, func(in []*ir.Node) *ir.Node {
			return op.Gelu(in[0])
		})
	}
}

// bandwidth reports the bytes per second that an op reads and writes on the device.
func bandwidth(b *testing.B, name string, in []ir.Type, build func(in []*ir.Node) *ir.Node) {
	b.Run(name, func(b *testing.B) {
		back := withClock(b, Options{})
		graph, bytes := ir.NewGraph("bandwidth"), int64(0)
		var nodes []*ir.Node
		for i, t := range in {
			nodes = append(nodes, op.Input(graph, fmt.Sprint("x", i), t))
			bytes += t.Bytes(nil)
		}
		y := build(nodes)
		graph.Return("y", y)
		p, _, err := sched.Build(graph, sched.Options{Target: "portable"})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(bytes+y.Type.Bytes(nil))/deviceTime(b, back, p)/1e9, "GB/s")
		b.ReportMetric(0, "ns/op")
	})
}

// TestTransposes permutes random shapes of every element type: axes that stay together, axes of size 1, rows that begin
// at vectors, at words and within words, operands that are views, and sizes that change from run to run; some on a
// device with small bindings, which starts few workgroups per dimension.
func TestTransposes(t *testing.T) {
	sizes := []int64{1, 2, 3, 4, 5, 8, 12, 16, 31, 32, 33, 40, 64, 65, 130, 1000}
	small := New(Options{MaxBinding: 32 << 10, MaxGroups: 40})
	types := slices.Clone(kernels.Description().Types)
	types = slices.DeleteFunc(types, func(d dtype.DType) bool {
		g := ir.NewGraph("probe")
		how, _ := kernels.Description().Takes(op.Transpose(op.Input(g, "x", ir.TypeOf(d, 2, 3)), 1, 0))
		return how != target.Native
	})
	if len(types) < 6 {
		t.Fatalf("the backend transposes %v only", types)
	}
	for _, k := range devicetest.Some(t, 3, uint64(len(types))) {
		d, rng := types[k], rand.New(rand.NewPCG(7, k))
		for i := range transposePrograms {
			g := ir.NewGraph("transposes", ir.Sym{Name: "N", Min: 1, Max: 9})
			var want []*ir.Node
			for k := range 6 {
				shape, total := ir.Shape{}, int64(1)
				for len(shape) < 2 || len(shape) < 8 && rng.IntN(3) > 0 {
					dim := ir.Static(sizes[rng.IntN(len(sizes))])
					if rng.IntN(5) == 0 {
						dim, _ = ir.Named("N").Mul(ir.Static(1 << rng.IntN(4)))
					}
					if _, most := g.Syms.Bounds(dim); total*most > 20_000 {
						dim = ir.Static(1 + rng.Int64N(2))
						if total*int64(d.Size()) > 150_000 { // more would need too many bindings
							dim = ir.Static(1)
						}
					}
					_, most := g.Syms.Bounds(dim)
					total *= most
					shape = append(shape, dim)
				}
				x := op.Input(g, fmt.Sprint("x", k), ir.Type{DType: d, Shape: shape})
				// a view that begins within a word, or a vector
				if lead := shape[0]; rng.IntN(3) == 0 && lead.IsStatic() && lead.Const > 1 {
					x = op.Narrow(x, 0, 1, int(lead.Const-1))
				}
				y := op.Transpose(x, rng.Perm(len(shape))...)
				want = append(want, y)
				g.Return(fmt.Sprint("y", k), y)
			}
			p, _, err := sched.Build(g, sched.Options{Target: "portable"})
			if err != nil {
				t.Fatal(err)
			}
			exe := load(t, []device.Backend{small, shared, shared}[i%3], p, nil)
			for _, n := range []int64{9, 1, 4} {
				syms := map[string]int64{"N": n}
				in, refs := map[string]*tensor.Array{}, map[*ir.Node]*tensor.Array{}
				for _, x := range p.Graph.Inputs() {
					in[x.Name] = interp.Random(rng, x.Type, syms, ir.Range{Lo: -9, Hi: 9})
				}
				out := onDevice(t, exe, p, syms, in)
				for k, y := range want {
					eval(t, y, syms, in, refs)
					if got := out[fmt.Sprint("y", k)]; !slices.Equal(got.Floats, refs[y].Floats) ||
						!slices.Equal(got.Ints, refs[y].Ints) {
						t.Fatalf("N=%d: %v of %v: elements are not where they belong", n, y, y.In[0].Type)
					}
				}
			}
		}
	}
}

const transposePrograms = 3

// TestLargeResults runs ops whose invocations make several units of a large result, at sizes that end within a
// workgroup, in place too.
func TestLargeResults(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	types, widths := []dtype.DType{dtype.F32, dtype.F16, dtype.Bool}, []int64{1031, 1040}
	for _, k := range devicetest.Some(t, 2, uint64(len(types)*len(widths))) {
		d, width := types[k/2], widths[k%2]
		rows := int64(70 * 4 / d.Size()) // words for more than 1<<16 results
		g := ir.NewGraph("large")
		x, idx := op.Input(g, "x", ir.TypeOf(d, rows, width)), op.Input(g, "idx", ir.TypeOf(dtype.I32, rows+1))
		row, mask := op.Narrow(x, 0, 1, 1), op.Ne(x, op.Narrow(x, 0, 2, 1))
		want := []*ir.Node{
			op.Copy(x), op.Transpose(x, 1, 0), op.Narrow(x, 1, 4, int(width-4)), op.Narrow(x, 1, 16, int(width-16)),
			op.Concat(1, x, op.Narrow(x, 1, 0, 16)),
			op.Gather(x, idx, 0), op.Pad(x, []int{0, 3}, []int{1, 0}, 1), op.Pad(x, []int{2, 0}, []int{1, 0}, 1),
			op.Pad(x, []int{0, 16}, []int{1, 0}, 1), op.Cast(op.Cast(x, dtype.I32), d),
			op.Eq(x, op.Narrow(x, 1, 0, 1)),
			op.Expand(op.Narrow(x, 0, 1, 1), x.Type.Shape), op.Where(mask, x, op.Narrow(x, 1, 3, 1)),
			op.Where(mask, x, row), op.Where(x, row, x), op.Where(op.Narrow(mask, 0, 3, 1), x, row),
			op.Where(op.Narrow(op.Narrow(mask, 0, 1, 1), 1, 5, 1), x, row),
			// views
			op.Where(op.Narrow(mask, 0, 1, int(rows-1)), op.Narrow(x, 0, 1, int(rows-1)),
				op.Narrow(x, 0, 0, int(rows-1))),
		}
		if d != dtype.Bool {
			want = append(want, op.Neg(op.Abs(op.Max(x, op.Narrow(x, 0, 1, 1)))))
		}
		for k, y := range want {
			g.Return(fmt.Sprint("y", k), y)
		}
		p, _, err := sched.Build(g, sched.Options{Target: "cpu"})
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]*tensor.Array{"x": interp.Random(rng, x.Type, nil, ir.Range{Lo: -9, Hi: 9}),
			"idx": interp.Random(rng, idx.Type, nil, ir.Range{Lo: 0, Hi: float64(rows - 1)})}
		refs := map[*ir.Node]*tensor.Array{}
		out := onDevice(t, load(t, shared, p, nil), p, nil, in)
		for k, y := range want {
			eval(t, y, nil, in, refs)
			if got := out[fmt.Sprint("y", k)]; !slices.Equal(got.Floats, refs[y].Floats) ||
				!slices.Equal(got.Ints, refs[y].Ints) {
				t.Errorf("%v of %v differs", y, y.In[0].Type)
			}
		}
	}
}

// eval computes a node by the definitions of its ops.
func eval(t *testing.T, n *ir.Node, syms map[string]int64, in map[string]*tensor.Array,
	known map[*ir.Node]*tensor.Array) {
	if n.Op == op.InputDef {
		known[n] = in[n.Name]
	}
	if known[n] != nil {
		return
	}
	args := make([]*tensor.Array, len(n.In))
	for k, x := range n.Operands() {
		eval(t, x, syms, in, known)
		args[k] = known[x]
	}
	known[n] = tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(syms)...)
	if err := n.Op.Eval(n.Attrs, args, known[n]); err != nil {
		t.Fatal(err)
	}
}
