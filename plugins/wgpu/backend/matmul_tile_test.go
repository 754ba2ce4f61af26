//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
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

// tiledProduct is a matmul of inputs x, w and, as asked for, bias and residual.
type tiledProduct struct {
	name           string
	batch, m, n, k int
	attrs          fused
}

func (c tiledProduct) program(t testing.TB) *program.Program {
	t.Helper()
	typ := func(dims ...int) ir.Type {
		if c.batch > 1 {
			dims = append([]int{c.batch}, dims...)
		}
		d := make([]int64, len(dims))
		for i := range d {
			d[i] = int64(dims[i])
		}
		return ir.TypeOf(dtype.F32, d...)
	}
	order := func(across bool, rows, k int) ir.Type {
		if across {
			return typ(k, rows)
		}
		return typ(rows, k)
	}
	g := ir.NewGraph("product")
	x, w := op.Input(g, "x", order(c.attrs.TransA, c.m, c.k)), op.Input(g, "w", order(!c.attrs.TransB, c.n, c.k))
	var bias, residual *ir.Node
	if c.attrs.HasBias {
		bias = op.Input(g, "bias", ir.TypeOf(dtype.F32, int64(c.n)))
	}
	if c.attrs.HasResidual {
		residual = op.Input(g, "residual", typ(c.m, c.n))
	}
	g.Return("y", op.FusedMatMul(x, w, bias, residual, c.attrs.attrs()))
	p, _, err := sched.Build(g, sched.Options{Target: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// inputs are random.
func (c tiledProduct) inputs(p *program.Program) map[string]*tensor.Array {
	r := rand.New(rand.NewPCG(1, uint64(c.m)))
	in := map[string]*tensor.Array{}
	for _, n := range p.Graph.Inputs() {
		a := tensor.NewArray(dtype.F32, n.Type.Shape.Eval(nil)...)
		for i := range a.Floats {
			a.Floats[i] = float64(r.Float32() - 0.5)
		}
		in[n.Name] = a
	}
	return in
}

// want is an element of the result.
func (c tiledProduct) want(in map[string]*tensor.Array, b, row, col int) float64 {
	sum := 0.0
	for k := range c.k {
		x, w := (b*c.m+row)*c.k+k, (b*c.n+col)*c.k+k
		if c.attrs.TransA {
			x = (b*c.k+k)*c.m + row
		}
		if !c.attrs.TransB {
			w = (b*c.k+k)*c.n + col
		}
		sum += in["x"].Floats[x] * in["w"].Floats[w]
	}
	if c.attrs.HasBias {
		sum += in["bias"].Floats[col]
	}
	if c.attrs.Act == "gelu" {
		sum = 0.5 * sum * (1 + math.Erf(sum/math.Sqrt2))
	}
	if c.attrs.HasResidual {
		sum += in["residual"].Floats[(b*c.m+row)*c.n+col]
	}
	return sum
}

// TestTiles makes products with every tile, whatever their sizes would choose: sizes that all tiles divide, and sizes
// at which rows, columns and K end within one. A NaN and an Inf in the last row and the last column must stay there.
func TestTiles(t *testing.T) {
	tiles := kernels.Tiles()
	for _, i := range devicetest.Some(t, 1, uint64(len(tiles))) {
		tile := tiles[i]
		b := New(Options{Tile: &tile})
		for _, c := range []tiledProduct{
			{"whole", 1, 384, 384, 48, fused{TransB: true, HasBias: true, HasResidual: true, Act: "gelu"}},
			{"odd", 1, 131, 197, 52, fused{TransB: true, HasBias: true, HasResidual: true}},
			{"across", 3, 140, 100, 27, fused{TransA: true}},
		} {
			t.Run(tile.String()+"/"+c.name, func(t *testing.T) { c.test(t, b) })
		}
	}
}

// TestParts makes products of which workgroups sum up parts of K.
func TestParts(t *testing.T) {
	for i, c := range []tiledProduct{
		{"rows", 1, 131, 196, 400, fused{TransB: true, HasBias: true, HasResidual: true, Act: "gelu"}},
		{"across", 1, 140, 100, 112, fused{TransA: true}},
	} {
		tile := kernels.Tiles()[len(kernels.Tiles())-1-i]
		tile.Splits = 3
		t.Run(c.name, func(t *testing.T) { c.test(t, New(Options{Tile: &tile})) })
	}
}

// TestSharedTexts checks that products of a program share a shader if they differ only in their sizes and in their
// epilogues.
func TestSharedTexts(t *testing.T) {
	g := ir.NewGraph("mlp")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 128, 192))
	linear := fused{TransB: true, HasBias: true}
	gelu, residual := linear, linear
	gelu.Act, residual.HasResidual = "gelu", true
	layer := func(x, plus *ir.Node, name string, n, k int64, a fused) *ir.Node {
		return op.FusedMatMul(x, op.Input(g, name, ir.TypeOf(dtype.F32, n, k)),
			op.Input(g, name+"_bias", ir.TypeOf(dtype.F32, n)), plus, a.attrs())
	}
	y := layer(x, nil, "up", 384, 192, gelu)
	y = layer(y, x, "down", 192, 384, residual)
	g.Return("y", layer(y, nil, "out", 192, 192, linear))
	p, _, err := sched.Build(g, sched.Options{Target: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	e := load(t, New(Options{Tile: &kernels.Tiles()[len(kernels.Tiles())-1]}), p, nil)
	texts := map[string]bool{}
	for _, text := range gpu.Inspect(e).Texts() {
		texts[text] = true
	}
	if len(texts) != 1 {
		t.Errorf("%d shaders; want 1", len(texts))
	}
	in := tiledProduct{}.inputs(p)
	apply := func(x []float64, name string, k int) []float64 {
		w, bias := in[name].Floats, in[name+"_bias"].Floats
		y := make([]float64, len(x)/k*len(bias))
		for i := range y {
			row, col := i/len(bias), i%len(bias)
			y[i] = bias[col]
			for j := range k {
				y[i] += x[row*k+j] * w[col*k+j]
			}
		}
		return y
	}
	want := apply(in["x"].Floats, "up", 192)
	for i, v := range want {
		want[i] = 0.5 * v * (1 + math.Erf(v/math.Sqrt2))
	}
	want = apply(want, "down", 384)
	for i, v := range in["x"].Floats {
		want[i] += v
	}
	want = apply(want, "out", 192)
	for i, v := range onDevice(t, e, p, nil, in)["y"].Floats {
		if math.Abs(v-want[i]) > 1e-4 {
			t.Fatalf("y[%d] is %v; want %v", i, v, want[i])
		}
	}
}

// test compares a product with sums in float64.
func (c tiledProduct) test(t *testing.T, b device.Backend) {
	p := c.program(t)
	in := c.inputs(p)
	x, w := in["x"].Floats, in["w"].Floats
	x[len(x)-1] = math.NaN()  // the last row, at the last k
	w[len(w)-1] = math.Inf(1) // the last column, at the last k
	for i, v := range onDevice(t, load(t, b, p, nil), p, nil, in)["y"].Floats {
		row, col := i/c.n%c.m, i%c.n
		want := c.want(in, i/c.n/c.m, row, col)
		if math.IsNaN(want) && math.IsNaN(v) || v == want || math.Abs(v-want) < 1e-5 {
			continue
		}
		t.Fatalf("y[%d,%d,%d] is %v; want %v", i/c.n/c.m, row, col, v, want)
	}
}

// TestFewRows makes products with less than a tile of rows, with a NaN and an Inf that must stay in their row and
// column.
func TestFewRows(t *testing.T) {
	all := fused{TransB: true, HasBias: true, HasResidual: true, Act: "gelu"}
	for _, c := range []tiledProduct{
		{"short", 1, 7, 130, 36, all}, {"long", 1, 1, 5, 1036, all}, {"plain", 1, 69, 33, 256, fused{TransB: true}},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, shared) })
	}
}

// TestUnalignedBias checks that a bias that is a view from the second element on cannot be read in fours.
func TestUnalignedBias(t *testing.T) {
	g := ir.NewGraph("unaligned")
	x, w, b := op.Input(g, "x", ir.TypeOf(dtype.F32, 100, 8)), op.Input(g, "w", ir.TypeOf(dtype.F32, 8, 8)),
		op.Input(g, "b", ir.TypeOf(dtype.F32, 9))
	g.Return("y", op.FusedMatMul(x, w, op.Narrow(b, 0, 1, 8), nil, op.FusedMatMulAttrs{}))
	p, _, err := sched.Build(g, sched.Options{Target: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]*tensor.Array{"x": tensor.NewArray(dtype.F32, 100, 8), "w": tensor.NewArray(dtype.F32, 8, 8),
		"b": tensor.NewArray(dtype.F32, 9)}
	for i := range in["b"].Floats {
		in["b"].Floats[i] = float64(i)
	}
	for i, v := range onDevice(t, load(t, shared, p, nil), p, nil, in)["y"].Floats {
		if v != float64(i%8+1) {
			t.Fatalf("y[%d] is %v; want %d", i, v, i%8+1)
		}
	}
}

// BenchmarkTiles times products of SAM's ViT-B, of SAM 3 and of a language model of 1B parameters (a prompt of 512
// tokens) with every tile, with and without splitting K. "chosen" is the tile that the kernel chooses.
func BenchmarkTiles(b *testing.B) {
	linear, plain := fused{TransB: true, HasBias: true}, fused{TransB: true}
	gelu, residual := linear, linear
	gelu.Act, residual.HasResidual = "gelu", true
	var tile kernels.Tile
	// a process can open only a few dozen devices
	free, fixed := withClock(b, Options{}), withClock(b, Options{Tile: &tile})
	for _, c := range []tiledProduct{
		{"b.qkv", 1, 4096, 2304, 768, linear}, {"b.proj", 1, 4096, 768, 768, residual},
		{"b.lin1", 1, 4096, 3072, 768, gelu}, {"b.lin2", 1, 4096, 768, 3072, residual},
		{"sam3.qkv", 1, 5184, 3072, 1024, linear}, {"sam3.proj", 1, 5184, 1024, 1024, residual},
		{"sam3.lin1", 1, 5184, 4736, 1024, gelu}, {"sam3.lin2", 1, 5184, 1024, 4736, residual},
		{"llama.q", 1, 512, 2048, 2048, plain}, {"llama.k", 1, 512, 512, 2048, plain},
		{"llama.gate", 1, 512, 8192, 2048, plain}, {"llama.down", 1, 512, 2048, 8192, plain},
		{"square", 1, 4096, 4096, 4096, plain}, {"square_nt", 1, 4096, 4096, 4096, fused{}},
	} {
		run := func(name string, back device.Backend) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				flop := 2 * float64(c.m) * float64(c.n) * float64(c.k)
				b.ReportMetric(flop/deviceTime(b, back, c.program(b))/1e9, "GFLOP/s")
				b.ReportMetric(0, "ns/op")
			})
		}
		run("chosen", free)
		for _, tile = range kernels.Tiles() {
			for _, tile.Splits = range []int{0, 2, 3, 4, 6, 8} {
				if tile.Splits < 2 || c.m < c.k {
					run(fmt.Sprintf("%v/%d", tile, tile.Splits), fixed)
				}
			}
		}
	}
}

// BenchmarkMatMul times square products in f32, with the weight stored either way, by the device's clock. The small
// ones take less time than the host's clock varies by.
func BenchmarkMatMul(b *testing.B) {
	for _, n := range []int{1024, 4096} {
		for _, trans := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d/trans_b=%v", n, trans), func(b *testing.B) {
				back := withClock(b, Options{})
				c := tiledProduct{batch: 1, m: n, n: n, k: n, attrs: fused{TransB: trans}}
				b.ReportMetric(2*float64(n)*float64(n)*float64(n)/deviceTime(b, back, c.program(b))/1e9, "GFLOP/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// withClock returns a backend of its own. It skips the benchmark if the device has no clock.
func withClock(b *testing.B, opts Options) device.Backend {
	back := New(opts)
	info, err := back.Info(b.Context())
	if err != nil {
		b.Skip(err)
	}
	if d := info.Devices[0]; !slices.Contains(d.Features, "clock") {
		b.Skip("no clock on " + d.Name)
	}
	return back
}

// deviceTime is the median time of a program's shaders in seconds.
func deviceTime(b *testing.B, back device.Backend, p *program.Program) float64 {
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	e, err := back.Load(context.Background(), device.Load{Program: p})
	must(err)
	defer e.Close()
	io := tensor.AlignedBytes(int(p.IOSize))
	for i, v := 0, tensor.View[float32](io); i < len(v); i++ {
		v[i] = float32(i*2654435761>>8&0xffff)/65536 - 0.5 // numbers of many digits: zeros draw less power
	}
	_, err = e.Run(context.Background(), device.Run{IO: io})
	must(err)
	const times, rounds, warmup = 20, 5, 120 * time.Millisecond // an idle device needs a while to reach its clock rate
	for begin := time.Now(); time.Since(begin) < warmup; {
		_, err := Repeat(e, times)
		must(err)
	}
	var took []float64
	for range rounds {
		t, err := Repeat(e, times)
		must(err)
		took = append(took, t.Seconds())
	}
	slices.Sort(took)
	return took[rounds/2]
}
