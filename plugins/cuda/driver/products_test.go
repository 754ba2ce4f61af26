package driver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cuda/matrix"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// product is a fused_matmul of inputs.
type product struct {
	batch, m, n, k int
	w              dtype.DType
	attrs          op.FusedMatMulAttrs
	bias, residual bool
	one            bool // the batch shares w
}

func (c product) String() string {
	return fmt.Sprintf("%dx%dx%dx%d %v %+v %v %v %v", c.batch, c.m, c.n, c.k, c.w, c.attrs, c.bias, c.residual, c.one)
}

func (c product) graph() *ir.Graph {
	typ := func(d dtype.DType, batch bool, rows, cols int, across bool) ir.Type {
		if across {
			rows, cols = cols, rows
		}
		if batch && c.batch > 1 {
			return ir.TypeOf(d, int64(c.batch), int64(rows), int64(cols))
		}
		return ir.TypeOf(d, int64(rows), int64(cols))
	}
	g := ir.NewGraph("product")
	x := op.Input(g, "x", typ(dtype.F32, true, c.m, c.k, c.attrs.TransA))
	w := op.Input(g, "w", typ(c.w, !c.one, c.n, c.k, !c.attrs.TransB))
	var bias, residual *ir.Node
	if c.bias {
		bias = op.Input(g, "bias", ir.TypeOf(dtype.F32, int64(c.n)))
	}
	if c.residual {
		residual = op.Input(g, "residual", typ(dtype.F32, true, c.m, c.n, false))
	}
	g.Return("y", op.FusedMatMul(x, w, bias, residual, c.attrs))
	return g
}

// halves are the precisions of 16 bits.
var halves = []string{"bf16", "f16"}

// rounded returns values rounded to the type of a precision, as the kernels do with operands.
func rounded(a *tensor.Array, precision string) *tensor.Array {
	d, _ := dtype.Parse(precision)
	if precision == "tf32" {
		out := tensor.NewArray(dtype.F32, a.Shape...)
		for i, v := range a.Floats {
			out.Floats[i] = v
			if bits := math.Float32bits(float32(v)); bits&0x7f800000 != 0x7f800000 {
				out.Floats[i] = float64(math.Float32frombits((bits + 0xfff + bits>>13&1) &^ 0x1fff))
			}
		}
		return out
	}
	out := tensor.NewArray(d, a.Shape...)
	for i, v := range a.Floats {
		out.Floats[i] = float64(float32(v))
	}
	out.Round()
	return out
}

// TestProducts compares products at bf16, f16 and tf32 with sums in float64 of the rounded operands. The bound is that
// of f32 sums in any order.
func TestProducts(t *testing.T) {
	nt := op.FusedMatMulAttrs{TransB: true}
	act := func(a op.FusedMatMulAttrs, name string) op.FusedMatMulAttrs {
		a.Act = name
		return a
	}
	list := []product{
		{1, 128, 128, 64, dtype.F32, nt, false, false, true},
		{1, 128, 128, 256, dtype.BF16, nt, false, false, true},
		{1, 512, 256, 8192, dtype.BF16, act(nt, "gelu"), true, true, true}, // large devices divide K
		{1, 256, 512, 1024, dtype.F32, act(nt, "gelu"), true, true, true},
		{1, 131, 197, 257, dtype.F32, act(nt, "gelu_tanh"), true, true, true},
		{1, 67, 133, 1029, dtype.BF16, act(nt, "silu"), true, false, true},
		{1, 300, 515, 96, dtype.F16, act(nt, "relu"), false, true, true},
		{1, 200, 130, 200, dtype.F32, op.FusedMatMulAttrs{}, true, false, true},
		{1, 129, 258, 130, dtype.F32, op.FusedMatMulAttrs{TransA: true}, false, true, true},
		{3, 140, 100, 75, dtype.F32, op.FusedMatMulAttrs{TransA: true, TransB: true, Act: "tanh"}, true, true, false},
		{5, 70, 66, 128, dtype.BF16, act(nt, "sigmoid"), false, false, false},
		{1, 96, 130, 128, dtype.BF16, act(nt, "clamp(max=6.0)"), true, true, true},
		{1, 70, 66, 128, dtype.F32, act(nt, "hardswish"), true, false, true},
		{1, 70, 66, 128, dtype.F32, act(nt, "hardsigmoid(alpha=0.2,beta=0.5)"), false, false, true},
		{4, 90, 160, 192, dtype.F32, op.FusedMatMulAttrs{TransA: true}, false, false, true},
		{7, 33, 50, 320, dtype.F32, op.FusedMatMulAttrs{}, true, true, false},
		{1, 2048, 1536, 768, dtype.F32, act(nt, "gelu"), true, true, true},
		{1, 1000, 2304, 768, dtype.BF16, nt, true, false, true},
	}
	for i, c := range list {
		for _, p := range matrix.Precisions() {
			t.Run(p+"/"+c.String(), func(t *testing.T) { c.testOn(t, shared, p, uint64(i)) })
		}
	}
}

func (c product) testOn(t *testing.T, on device.Backend, precision string, seed uint64) {
	g := c.graph()
	r := loadOn(t, on, g, precision)
	rng := rand.New(rand.NewPCG(seed, 5))
	in := map[string]*tensor.Array{}
	for _, n := range r.program.Graph.Inputs() {
		a := tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(nil)...)
		for i := range a.Floats {
			a.Floats[i] = float64(float32(rng.NormFloat64()))
		}
		a.Round()
		in[n.Name] = a
	}
	x, w := in["x"], in["w"]
	x.Floats[len(x.Floats)-1] = math.NaN()  // the last row, at the last k
	w.Floats[len(w.Floats)-1] = math.Inf(1) // the last column, at the last k
	x.Floats[0], w.Floats[0] = 1e-40, 1e-39
	for name, a := range in {
		r.set(name, a)
	}
	in["x"], in["w"] = rounded(x, precision), rounded(w, precision)
	for round := range 3 { // the third is a graph
		y := r.run(t)
		wrong, most := c.compare(in, y)
		if wrong != "" {
			t.Fatalf("run %d: %s", round, wrong)
		}
		if round == 2 {
			t.Logf("largest error %.3g of the bound", most)
		}
	}
}

// compare returns the first wrong element, or the largest error as a part of what is allowed.
func (c product) compare(in map[string]*tensor.Array, y *tensor.Array) (wrong string, most float64) {
	x, w := in["x"].Floats, in["w"].Floats
	xs, ws := [2]int{c.k, 1}, [2]int{c.k, 1}
	if c.attrs.TransA {
		xs = [2]int{1, c.m}
	}
	if !c.attrs.TransB {
		ws = [2]int{1, c.n}
	}
	var mu sync.Mutex
	var wait sync.WaitGroup
	lanes := runtime.GOMAXPROCS(0)
	for lane := range lanes {
		wait.Go(func() {
			for row := lane; row < c.batch*c.m; row += lanes {
				b := row / c.m
				wb := b
				if c.one {
					wb = 0
				}
				for col := range c.n {
					sum, all := 0.0, 0.0
					for k := range c.k {
						v := x[b*c.m*c.k+row%c.m*xs[0]+k*xs[1]] * w[wb*c.n*c.k+col*ws[0]+k*ws[1]]
						sum, all = sum+v, all+math.Abs(v)
					}
					if c.bias {
						sum += in["bias"].Floats[col]
						all += math.Abs(in["bias"].Floats[col])
					}
					sum = activate(c.attrs.Act, sum)
					at := row*c.n + col
					if c.residual {
						sum += in["residual"].Floats[at]
						all += math.Abs(in["residual"].Floats[at])
					}
					got := y.Floats[at]
					if math.IsNaN(sum) && math.IsNaN(got) || sum == got {
						continue
					}
					part := math.Abs(got-sum) / (2e-6*all + 1e-6)
					mu.Lock()
					most = max(most, part)
					if !(part <= 1) && wrong == "" {
						wrong = fmt.Sprintf("y[%d, %d] is %v; want %v", row, col, got, sum)
					}
					mu.Unlock()
				}
			}
		})
	}
	wait.Wait()
	return wrong, most
}

func activate(name string, x float64) float64 {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	switch name {
	case "gelu":
		return 0.5 * x * (1 + math.Erf(x/math.Sqrt2))
	case "gelu_tanh":
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	case "silu":
		return x * sigmoid(x)
	case "sigmoid":
		return sigmoid(x)
	case "tanh":
		return math.Tanh(x)
	case "relu":
		return max(x, 0)
	case "clamp(max=6.0)":
		return min(max(x, 0), 6)
	case "hardswish":
		return x * min(max(x/6+0.5, 0), 1)
	case "hardsigmoid(alpha=0.2,beta=0.5)":
		return min(max(0.2*x+0.5, 0), 1)
	}
	return x
}

// BenchmarkProducts times products by the device's clock: all, and without rounding the operands or dividing them into
// terms. At f32, weights are in f32, too.
func BenchmarkProducts(b *testing.B) {
	for _, precision := range []string{"bf16", "f32", "fma"} {
		for _, s := range [][3]int{{4096, 4096, 4096}, {8192, 8192, 8192}, {4096, 2304, 768}, {4096, 768, 768},
			{4096, 3072, 768}, {4096, 768, 3072}, {4900, 2304, 768}, {512, 8192, 2048}, {512, 2048, 8192},
			{512, 2048, 2048}} {
			b.Run(fmt.Sprintf("%s/%dx%dx%d", precision, s[0], s[1], s[2]), func(b *testing.B) {
				api := func() *api {
					a := newAPI(openLibrary, cacheFolder())
					if precision == "fma" {
						a.change = withoutMatrix
					}
					return a
				}
				first := 0.0
				all, shaders := seconds(b, api(), s, 0, precision), map[string]int{"bf16": 1, "f32": 2}[precision]
				if shaders > 0 {
					first = seconds(b, api(), s, shaders, precision)
				}
				work := 2 * float64(s[0]) * float64(s[1]) * float64(s[2])
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(work/all/1e12, "TFLOP/s-all")
				b.ReportMetric(work/(all-first)/1e12, "TFLOP/s-product")
				b.ReportMetric(first*1e6, "us-rounding")
			})
		}
	}
}

// withoutMatrix takes the kernels for matrix units from a device.
func withoutMatrix(l *gpu.Limits) { l.Kernels.Own = nil }

// BenchmarkEncoders times products of ViT-B and of SAM 3's trunk with the tile that is chosen and with every large one,
// by the device's clock and without rounding the left operand: alone, as cuBLAS computes them, and with what follows
// them in the models.
func BenchmarkEncoders(b *testing.B) {
	nt := op.FusedMatMulAttrs{TransB: true}
	gelu := op.FusedMatMulAttrs{TransB: true, Act: "gelu"}
	type row struct {
		product
		narrow bool // the next product reads the result in 16 bits, and nothing in f32
	}
	var rows []row
	for _, s := range [][3]int{{4096, 4096, 4096}, {4096, 2304, 768}, {4096, 768, 768}, {4096, 3072, 768},
		{4096, 768, 3072}, {5184, 3072, 1024}, {5184, 1024, 1024}, {5184, 4736, 1024}, {5184, 1024, 4736}} {
		rows = append(rows, row{product{1, s[0], s[1], s[2], dtype.BF16, nt, false, false, true}, true})
	}
	for _, c := range append(rows, []row{
		{product{1, 4096, 2304, 768, dtype.BF16, nt, true, false, true}, true},
		{product{1, 4096, 2304, 768, dtype.BF16, nt, true, false, true}, false},
		{product{1, 4096, 768, 768, dtype.BF16, nt, true, true, true}, false},
		{product{1, 4096, 3072, 768, dtype.BF16, gelu, true, false, true}, true},
		{product{1, 4096, 768, 3072, dtype.BF16, nt, true, true, true}, false},
		{product{1, 5184, 3072, 1024, dtype.BF16, nt, true, false, true}, true},
		{product{1, 5184, 1024, 1024, dtype.BF16, nt, true, true, true}, false},
		{product{1, 5184, 4736, 1024, dtype.BF16, gelu, true, false, true}, true},
		{product{1, 5184, 1024, 4736, dtype.BF16, nt, true, true, true}, false},
	}...) {
		apis := map[string]func() *api{"chosen": func() *api { return newAPI(openLibrary, cacheFolder()) }}
		names := []string{"chosen"}
		for _, tile := range tilesOf(b) {
			if tile.M*tile.N >= 128*128 && tile.Warpgroup {
				names = append(names, tile.String())
				apis[tile.String()] = func() *api { return withTile(tile) }
			}
		}
		for _, name := range names {
			out := map[bool]string{false: "f32", true: "bf16"}[c.narrow]
			if !c.bias {
				out = "alone"
			}
			b.Run(fmt.Sprintf("%dx%dx%d-%s/%s", c.m, c.n, c.k, out, name), func(b *testing.B) {
				g, shaders := c.graph, 0
				if c.narrow {
					g, shaders = c.followed, 2 // the next product has only one
				}
				all := secondsOf(b, apis[name](), g(), shaders, "bf16")
				first := secondsOf(b, apis[name](), g(), 1, "bf16")
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(2e-12*float64(c.m)*float64(c.n)*float64(c.k)/(all-first), "TFLOP/s-product")
				b.ReportMetric(1e6*(all-first), "us")
			})
		}
	}
}

// followed returns a graph in which another product reads the result of c.
func (c product) followed() *ir.Graph {
	g := c.graph()
	y := g.Outputs[0].Node
	g.Outputs = nil
	w := op.Input(g, "after", ir.TypeOf(dtype.BF16, 64, int64(c.n)))
	g.Return("y", op.FusedMatMul(y, w, nil, nil, op.FusedMatMulAttrs{TransB: true}))
	return g
}

// seconds times a product, of whose shaders only few run if that is not 0. The weights are in bf16, or at other
// precisions in f32.
func seconds(b *testing.B, a *api, s [3]int, few int, precision string) float64 {
	typ := dtype.BF16
	if precision != "bf16" {
		typ, precision = dtype.F32, "f32"
	}
	c := product{1, s[0], s[1], s[2], typ, op.FusedMatMulAttrs{TransB: true}, false, false, true}
	return c.seconds(b, a, few, precision)
}

func (c product) seconds(b *testing.B, a *api, few int, precision string) float64 {
	return secondsOf(b, a, c.graph(), few, precision)
}

func secondsOf(b *testing.B, a *api, g *ir.Graph, few int, precision string) float64 {
	a.few = few
	r := loadOn(b, gpu.New(a), g, precision)
	defer r.exe.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range r.program.Graph.Inputs() {
		a := tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(nil)...)
		for i := range a.Floats {
			a.Floats[i] = rng.Float64() - 0.5
		}
		r.set(n.Name, a)
	}
	r.run(b)
	return fastest(b, r.exe)
}

// fastest returns the least time of a repetition of a program that has run, by the device's clock.
func fastest(b *testing.B, exe device.Executable) float64 {
	best := math.Inf(1)
	for range 5 {
		d, err := gpu.Repeat(exe, 20)
		if err != nil {
			b.Fatal(err)
		}
		best = min(best, d.Seconds())
	}
	return best
}

// tilesOf returns the tiles that the device can use.
func tilesOf(t testing.TB) []matrix.Tile {
	t.Helper()
	list, err := newAPI(openLibrary, "").Adapters()
	if err != nil {
		t.Skip(err)
	}
	return list[0].(*adapter).matrix.Tiles()
}

func withTile(tile matrix.Tile) *api {
	a := newAPI(openLibrary, cacheFolder())
	a.tile = &tile
	return a
}

// TestTiles makes products with every tile, whatever their sizes would choose.
func TestTiles(t *testing.T) {
	for _, tile := range tilesOf(t) {
		for i, c := range []product{
			{1, 384, 512, 320, dtype.F32, op.FusedMatMulAttrs{TransB: true, Act: "gelu"}, true, true, true},
			{3, 131, 197, 700, dtype.F32, op.FusedMatMulAttrs{}, true, true, false},
			{1, 2305, 3076, 128, dtype.BF16, op.FusedMatMulAttrs{TransB: true, Act: "gelu"}, true, true, true},
		} {
			if i == 2 && !tile.PingPong { // it gives a block of a large device several tiles
				continue
			}
			t.Run(fmt.Sprintf("%v %v/%d", tile, tile.Warpgroup, i), func(t *testing.T) {
				c.testOn(t, gpu.New(withTile(tile)), "bf16", uint64(i))
			})
		}
	}
}

// BenchmarkTiles times every tile by the device's clock, without rounding the operands.
func BenchmarkTiles(b *testing.B) {
	for _, s := range [][3]int{{4096, 4096, 4096}, {4096, 2304, 768}, {4096, 768, 3072}, {512, 8192, 2048},
		{512, 2048, 2048}} {
		for _, tile := range tilesOf(b) {
			b.Run(fmt.Sprintf("%dx%dx%d/%v/%v", s[0], s[1], s[2], tile, tile.Warpgroup), func(b *testing.B) {
				all, first := seconds(b, withTile(tile), s, 0, "bf16"), seconds(b, withTile(tile), s, 1, "bf16")
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(2e-12*float64(s[0])*float64(s[1])*float64(s[2])/(all-first), "TFLOP/s-product")
			})
		}
	}
}
