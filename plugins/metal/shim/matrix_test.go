//go:build linux

package shim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// fused has the attributes of a product and says which operands its epilogue has.
type fused struct {
	TransA, TransB, HasBias, HasResidual bool
	Act                                  string
}

func (f fused) attrs() op.FusedMatMulAttrs {
	return op.FusedMatMulAttrs{TransA: f.TransA, TransB: f.TransB, Act: f.Act}
}

// matrixKernel is the beginning of a kernel of two simdgroups. It copies 384 words of x to workgroup memory and
// declares matrices a, b and c. The variable block is the number of the simdgroup.
const matrixKernel = `
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> words: array<vec4<f32>, 96>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) local: u32) {
  for (var i = local; i < 96u; i = i + 64u) {
    words[i] = vec4<f32>(x[4u * i], x[4u * i + 1u], x[4u * i + 2u], x[4u * i + 3u]);
  }
  workgroupBarrier();
  let block = local / 32u;
  var a: rlx_matrix8x8;
  var b: rlx_matrix8x8;
  var c: rlx_matrix8x8;
`

// TestMatrices checks that the matrix functions do what package kernels specifies, and that a run fails if the threads
// of a simdgroup do not all call the same function with the same arguments.
func TestMatrices(t *testing.T) {
	// Simdgroup n computes 2 A^T B, where A is the matrix at word 96 n and B the one at word 192 + 96 n, both in rows
	// of 12 words, and stores it at word 96 n.
	product := matrixKernel + `
  rlx_matrix_load(&a, &words, 96u * block, 12u, true);
  rlx_matrix_load(&b, &words, 192u + 96u * block, 12u, false);
  rlx_matrix_multiply_add(&c, &a, &b);
  rlx_matrix_multiply_add(&c, &a, &b);
  rlx_matrix_store(&c, &words, 96u * block, 12u);
  workgroupBarrier();
  for (var i = local; i < 96u; i = i + 64u) {
    y[4u * i] = words[i].x;
    y[4u * i + 1u] = words[i].y;
    y[4u * i + 2u] = words[i].z;
    y[4u * i + 3u] = words[i].w;
  }
}
`
	differ := matrixKernel + "  rlx_matrix_load(&a, &words, local % 4u, 12u, false);\n}\n"
	some := matrixKernel + "  if (local != 40u) {\n    rlx_matrix_load(&a, &words, 0u, 12u, false);\n  }\n}\n"
	others := matrixKernel +
		"  if (local < 16u) {\n    rlx_matrix_multiply_add(&c, &a, &b);\n  } else {\n    rlx_matrix_load(&a, &words, 0u, 12u, false);\n  }\n}\n"
	waiting := matrixKernel +
		"  if (local < 8u) {\n    workgroupBarrier();\n  } else {\n    rlx_matrix_load(&a, &words, 0u, 12u, false);\n  }\n  workgroupBarrier();\n}\n"
	one := matrixKernel +
		"  if (local < 32u) {\n    rlx_matrix_load(&a, &words, 0u, 12u, false);\n  }\n  workgroupBarrier();\n  y[local] = 1.0;\n}\n"
	d := start(t, 1<<12, product, differ, some, others, waiting, one)
	word := func(i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(d.memory[4*i:])) }
	r := rand.New(rand.NewPCG(1, 2))
	var x [384]float32
	for i := range x {
		x[i] = float32(r.IntN(64) - 32) // products and sums are exact
		binary.LittleEndian.PutUint32(d.memory[4*i:], math.Float32bits(x[i]))
	}
	if err := d.run(0, 1, 1, 0, 4*384, 2048, 4*384); err != nil {
		t.Fatal(err)
	}
	for i := range x {
		want := x[i]
		if block, row, column := i/96, i%96/12, i%12; block < 2 && column < 8 {
			want = 0
			for k := range 8 {
				want += 2 * x[96*block+12*k+row] * x[192+96*block+12*k+column]
			}
		}
		if got := word(512 + i); got != want {
			t.Errorf("word %d is %v; want %v", i, got, want)
		}
	}
	for k, say := range []string{"simdgroup call simdgroup_load and simdgroup_load, or with different arguments",
		"wait for others that have ended",
		"call simdgroup_multiply_accumulate and simdgroup_load", "some threads of a group wait at a barrier"} {
		if err := d.run(1+k, 1, 1, 0, 4*384, 2048, 4*384); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("kernel %d: %v; want %q", 1+k, err, say)
		}
	}
	if err := d.run(5, 1, 1, 0, 4*384, 2048, 4*384); err != nil || word(512+63) != 1 {
		t.Errorf("a matrix function that only one simdgroup calls: %v", err)
	}
}

// TestMatrixTiles checks products with every tile shape that uses matrices: with sizes that are multiples of the tile,
// with rows, columns and K that end within a tile, and with K split into parts. A NaN and an Inf in the inputs must
// affect only the last row and the last column of the result.
func TestMatrixTiles(t *testing.T) {
	for _, tile := range kernels.MatrixTiles() {
		for _, c := range []struct {
			name              string
			batch, m, n, k, s int64
			attrs             fused
		}{
			{"whole", 1, 128, 128, 48, 0, fused{TransB: true, HasBias: true, HasResidual: true, Act: "gelu"}},
			{"odd", 1, 67, 99, 52, 0, fused{TransB: true, HasBias: true, HasResidual: true}},
			{"across", 3, 76, 68, 27, 0, fused{TransA: true}},
			{"parts", 1, 67, 68, 112, 3, fused{TransB: true, HasBias: true}},
		} {
			t.Run(tile.String()+"/"+c.name, func(t *testing.T) {
				tile := tile
				tile.Splits = int(c.s)
				typ := func(across bool, rows int64) ir.Type {
					dims := []int64{rows, c.k}
					if across {
						dims = []int64{c.k, rows}
					}
					if c.batch > 1 {
						dims = append([]int64{c.batch}, dims...)
					}
					return ir.TypeOf(dtype.F32, dims...)
				}
				g := ir.NewGraph("product")
				x, w := op.Input(g, "x", typ(c.attrs.TransA, c.m)), op.Input(g, "w", typ(!c.attrs.TransB, c.n))
				var bias, residual *ir.Node
				if c.attrs.HasBias {
					bias = op.Input(g, "bias", ir.TypeOf(dtype.F32, c.n))
				}
				if c.attrs.HasResidual {
					residual = op.Input(g, "residual", ir.TypeOf(dtype.F32, c.m, c.n))
				}
				g.Return("y", op.FusedMatMul(x, w, bias, residual, c.attrs.attrs()))
				p, _, err := sched.Build(g, sched.Options{Target: "metal"})
				if err != nil {
					t.Fatal(err)
				}
				in, r := map[string]*tensor.Array{}, rand.New(rand.NewPCG(1, uint64(c.m)))
				for _, n := range p.Graph.Inputs() {
					a := tensor.NewArray(dtype.F32, n.Type.Shape.Eval(nil)...)
					for i := range a.Floats {
						a.Floats[i] = float64(r.Float32() - 0.5)
					}
					in[n.Name] = a
				}
				in["x"].Floats[len(in["x"].Floats)-1], in["w"].Floats[len(in["w"].Floats)-1] = math.NaN(), math.Inf(1)
				want, err := interp.RunProgram(p, nil, in, nil)
				if err != nil {
					t.Fatal(err)
				}
				b := New(Options{Cache: dir, Level: "-O0", Tile: &tile})
				e, err := b.Load(t.Context(), device.Load{Program: p})
				if errors.Is(err, ErrNoCompiler) && os.Getenv("RLX_REQUIRE_CXX") == "" {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				if text := fmt.Sprint(gpu.Inspect(e).Texts()); !strings.Contains(text, "rlx_matrix_multiply_add") {
					t.Error("the kernel does not use matrices")
				}
				for i, got := range devicetest.Once(t, e, p, nil, in)["y"].Floats {
					if w := want["y"].Floats[i]; !(math.IsNaN(w) && math.IsNaN(got)) && got != w &&
						!(math.Abs(got-w) < 1e-5) {
						t.Fatalf("element %d of %v is %v; want %v", i, want["y"].Shape, got, w)
					}
				}
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestHalfMatrices checks products of f16 by f16, whose elements are multiplied as halves and summed in f32. The sizes
// are not multiples of the tile. A NaN in the last row of x and an Inf in the last column of w must affect only the
// last row and the last column of the result.
func TestHalfMatrices(t *testing.T) {
	typ := func(dims ...int64) ir.Type { return ir.TypeOf(dtype.F16, dims...) }
	cases := []struct {
		name  string
		x, w  ir.Type
		attrs fused
	}{
		{"rows by columns", typ(67, 52), typ(52, 84), fused{}},
		{"rows by rows", typ(67, 52), typ(84, 52), fused{TransB: true, HasBias: true, HasResidual: true, Act: "relu"}},
		{"columns by columns", typ(27, 68), typ(27, 84), fused{TransA: true}},
		{"columns by rows", typ(28, 68), typ(84, 28), fused{TransA: true, TransB: true}},
		{"batch", typ(2, 1, 20, 12), typ(3, 12, 16), fused{}},
		{"no sums", typ(3, 0), typ(0, 8), fused{}},
	}
	var loads []load
	for _, c := range cases {
		g := ir.NewGraph("product")
		x, w := op.Input(g, "x", c.x), op.Input(g, "w", c.w)
		var bias, residual *ir.Node
		if c.attrs.HasBias {
			bias, residual = op.Input(g, "bias", typ(84)), op.Input(g, "residual", typ(67, 84))
		}
		g.Return("y", op.FusedMatMul(x, w, bias, residual, c.attrs.attrs()))
		p, _, err := sched.Build(g, sched.Options{Target: "metal"})
		if err != nil {
			t.Fatal(err)
		}
		loads = append(loads, load{p, Options{Cache: dir, Level: "-O0"}})
	}
	prepare(t, loads)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, in, r := loads[i].program, map[string]*tensor.Array{}, rand.New(rand.NewPCG(1, 3))
			for _, n := range p.Graph.Inputs() {
				in[n.Name] = interp.Random(r, n.Type, nil, ir.Range{Lo: -1, Hi: 1})
			}
			if n := len(in["x"].Floats); n > 0 {
				in["x"].Floats[n-1], in["w"].Floats[len(in["w"].Floats)-1] = math.NaN(), math.Inf(1)
			}
			want, err := interp.RunProgram(p, nil, in, nil)
			if err != nil {
				t.Fatal(err)
			}
			e, err := New(loads[i].opts).Load(t.Context(), device.Load{Program: p})
			if err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprint(gpu.Inspect(e).Texts()); len(in["x"].Floats) > 0 &&
				!strings.Contains(text, "rlx_half8x8") {
				t.Error("the kernel has no matrices of halves")
			}
			for i, got := range devicetest.Once(t, e, p, nil, in)["y"].Floats {
				if w := want["y"].Floats[i]; !(math.IsNaN(w) && math.IsNaN(got)) && got != w &&
					!(math.Abs(got-w) <= 1e-3*max(1, math.Abs(w))) {
					t.Fatalf("element %d of %v is %v; want %v", i, want["y"].Shape, got, w)
				}
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
