package driver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// termsCase is a product at f32. The exponents of its operands are spread over so many powers of two to both sides.
type termsCase struct {
	product
	spread int
}

var (
	rowsAlongK = op.FusedMatMulAttrs{TransB: true}
	termsCases = []termsCase{
		{product{1, 65, 9, 130, dtype.F32, rowsAlongK, true, true, true}, 0},
		{product{1, 30, 70, 65, dtype.F32, op.FusedMatMulAttrs{}, false, false, true}, 60},
		{product{2, 9, 12, 64, dtype.F16, rowsAlongK, false, false, false}, 0},
		{product{1, 33, 20, 128, dtype.BF16, rowsAlongK, false, true, true}, 60},
	}
)

// TestInterpretedTerms runs products at f32 on the interpreter, with the largest tile and the smallest.
func TestInterpretedTerms(t *testing.T) {
	d := withWGMMA
	d.Small = true
	for _, tile := range d.TermTiles() {
		for i, c := range termsCases {
			if i > 0 && tile.M*tile.N > 64*64 || i == 0 && tile.N == 128 {
				continue
			}
			d.Tile, d.Splits = &tile, btoi(i == 3)*2
			on := interpreted(d, strings.Clone)
			t.Run(fmt.Sprintf("%v/%v/%d", tile, c.product, c.spread), func(t *testing.T) { c.test(t, on) })
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// inputs returns operands. Without a spread they have special values: NaN in the last row, infinities in another row
// and in the last column, and rows of denormals, of zeros, and with the largest value.
func (c termsCase) inputs(r *graphRun, seed uint64) map[string]*tensor.Array {
	rng := rand.New(rand.NewPCG(seed, uint64(c.k)))
	in := map[string]*tensor.Array{}
	for _, n := range r.program.Graph.Inputs() {
		a := normal(rng, n.Type)
		if c.spread > 0 && n.Name != "bias" && n.Name != "residual" {
			for i := range a.Floats {
				a.Floats[i] = math.Ldexp(a.Floats[i], rng.IntN(2*c.spread+1)-c.spread)
			}
		}
		in[n.Name] = a
	}
	x, w := in["x"], in["w"]
	if c.spread == 0 {
		x.Floats[len(x.Floats)-1] = math.NaN()
		w.Floats[len(w.Floats)-1] = math.Inf(1)
		x.Floats[2*c.k+1] = math.Inf(-1)
		for k := range c.k {
			x.Floats[3*c.k+k] = math.Ldexp(x.Floats[3*c.k+k], -135)
			x.Floats[4*c.k+k] = 0
		}
		x.Floats[5*c.k] = math.MaxFloat32
		for at := 0; at < len(w.Floats); at += c.k {
			w.Floats[at] = 0.5
		}
	}
	for _, a := range in {
		for i, v := range a.Floats {
			a.Floats[i] = float64(float32(v))
		}
		a.Round()
	}
	return in
}

// test compares with sums in float64. Errors are bounded by two units of the last place of the sum of the products'
// magnitudes, of which fma allows K.
func (c termsCase) test(t *testing.T, on device.Backend) {
	r := loadOn(t, on, c.graph(), "f32")
	in := c.inputs(r, 7)
	for name, a := range in {
		r.set(name, a)
	}
	worst := 0.0
	for range 2 { // the second finds what the first left in memory
		y := r.run(t)
		c.each(in, func(at int, want, all float64) {
			got := y.Floats[at]
			if math.IsNaN(want) && math.IsNaN(got) || got == want || float64(float32(want)) == got {
				return
			}
			part := math.Abs(got-want) / (all*0x1p-22 + float64(c.k)*0x1p-149)
			worst = max(worst, part)
			if !(part <= 1) && !t.Failed() {
				t.Errorf("y[%d, %d] is %v; want %v, with an error of at most %v", at/c.n, at%c.n, got, want,
					all*0x1p-22)
			}
		})
	}
	t.Logf("largest error %.3g of the bound", worst)
}

// each calls f for all elements of the result with their value in float64 and the sum of magnitudes.
func (c product) each(in map[string]*tensor.Array, f func(at int, want, all float64)) {
	xs, ws := [2]int{c.k, 1}, [2]int{c.k, 1}
	if c.attrs.TransA {
		xs = [2]int{1, c.m}
	}
	if !c.attrs.TransB {
		ws = [2]int{1, c.n}
	}
	for row := range c.batch * c.m {
		b := row / c.m
		x, w := in["x"].Floats[b*c.m*c.k:], in["w"].Floats
		if !c.one {
			w = w[b*c.n*c.k:]
		}
		for col := range c.n {
			sum, all := 0.0, 0.0
			for k := range c.k {
				v := x[row%c.m*xs[0]+k*xs[1]] * w[col*ws[0]+k*ws[1]]
				sum, all = sum+v, all+math.Abs(v)
			}
			at := row*c.n + col
			for name, i := range map[string]int{"bias": col, "residual": at} {
				if a := in[name]; a != nil {
					sum, all = sum+a.Floats[i], all+math.Abs(a.Floats[i])
				}
			}
			f(at, sum, all)
		}
	}
}

// deviceTerms are cases for devices.
var deviceTerms = append([]termsCase{
	{product{1, 700, 1030, 1600, dtype.F32, rowsAlongK, true, true, true}, 0},
	{product{1, 512, 1024, 4096, dtype.BF16, rowsAlongK, false, false, true}, 0},
}, termsCases...)

// TestTerms runs products at f32 on the device.
func TestTerms(t *testing.T) {
	for _, c := range deviceTerms {
		t.Run(fmt.Sprintf("%v/%d", c.product, c.spread), func(t *testing.T) { c.test(t, shared) })
	}
}

// TestTermsBesideFMA: the largest error of products of terms is not larger than that of the kernels with fma, as a part
// of the sum of the products' magnitudes.
func TestTermsBesideFMA(t *testing.T) {
	fma := newAPI(openLibrary, cacheFolder())
	fma.change = withoutMatrix
	for _, s := range [][4]int{{512, 512, 768, 0}, {512, 512, 4096, 0}, {384, 768, 3072, 0}, {512, 512, 1024, 20},
		{512, 512, 1024, 60}, {1024, 1024, 512, 60}} {
		c := termsCase{product{1, s[0], s[1], s[2], dtype.F32, rowsAlongK, false, false, true}, s[3]}
		t.Run(fmt.Sprintf("%v/%d", c.product, c.spread), func(t *testing.T) {
			var worst, mean [2]float64
			for i, on := range []device.Backend{shared, gpu.New(fma)} {
				r := loadOn(t, on, c.graph(), "f32")
				in := c.inputs(r, 7)
				for name, a := range in {
					r.set(name, a)
				}
				y := r.run(t)
				c.each(in, func(at int, want, all float64) {
					if got := y.Floats[at]; all > 0 && all < math.MaxFloat32 {
						worst[i] = max(worst[i], math.Abs(got-want)/all)
						mean[i] += math.Abs(got-want) / all / float64(c.m*c.n)
					}
				})
			}
			t.Logf("largest error %.3g, mean %.3g; with fma %.3g, %.3g", worst[0], mean[0], worst[1], mean[1])
			if worst[0] > worst[1] {
				t.Errorf("the largest error is %.3g of the magnitudes; with fma it is %.3g", worst[0], worst[1])
			}
		})
	}
}
