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

// exactAttention is an attention at f32: one of the two.
type exactAttention struct {
	plain attentionCase
	grid  gridCase
	// values, and so results, have exponents that are spread over so many powers of two to both sides
	spread  int
	special bool // there are NaN and infinities
}

func (c exactAttention) String() string {
	if c.grid.heads > 0 {
		return fmt.Sprintf("grid %+v %d %t", c.grid, c.spread, c.special)
	}
	return fmt.Sprintf("%+v %d %t", c.plain, c.spread, c.special)
}

func (c exactAttention) graph() (*ir.Graph, *ir.Node) {
	if c.grid.heads > 0 {
		return c.grid.graph()
	}
	return c.plain.graph()
}

// inputs returns the values of inputs by name.
func (c exactAttention) inputs(r *graphRun) map[string]*tensor.Array {
	rng := rand.New(rand.NewPCG(uint64(c.spread), 3))
	in := map[string]*tensor.Array{}
	for _, n := range r.program.Graph.Inputs() {
		if n.Type.DType == dtype.I32 {
			a := tensor.NewArray(dtype.I32, n.Type.Shape.Eval(nil)...)
			for i, p := range c.plain.position {
				a.Ints[i] = int64(p)
			}
			in[n.Name] = a
			continue
		}
		a := normal(rng, n.Type)
		for i := range a.Floats {
			switch {
			case c.isValue(n.Name, i):
				a.Floats[i] = math.Ldexp(a.Floats[i], rng.IntN(2*c.spread+1)-c.spread)
			case n.Name == "rh" || n.Name == "rw":
				a.Floats[i] = float64(float32(0.1 * a.Floats[i]))
			}
		}
		if c.special {
			row := a.Shape[len(a.Shape)-1]
			set := func(token, column int, v float64) {
				if at := token*row + column; token >= 0 && at < len(a.Floats) {
					a.Floats[at] = v
				}
			}
			switch {
			case n.Name == "q" || n.Name == "qkv": // of queries that the first ones do not see
				set(2, 0, math.NaN())
				set(5, 1, math.Inf(-1))
				set(9, 1, math.Inf(1))
			case n.Name == "v":
				set(11, 3, math.Inf(1))
				set(12, 4, math.Inf(-1))
				set(13, 5, math.NaN())
			case n.Name == "rh":
				set(0, 3, math.Inf(1))
			}
			if n.Name == "qkv" && c.grid.heads > 0 {
				set(len(a.Floats)/row-1, row-2, math.Inf(1)) // of v
			}
		}
		a.Round()
		in[n.Name] = a
	}
	return in
}

// isValue reports whether an element of an input is one of v.
func (c exactAttention) isValue(name string, i int) bool {
	if c.grid.heads > 0 {
		width := 3 * c.grid.heads * c.grid.d
		return (name == "qkv" || name == "pad") && i%width >= width/3*2
	}
	p := c.plain
	if p.packed {
		return i%((p.heads+2*p.kv)*p.d) >= (p.heads+p.kv)*p.d
	}
	return name == "v"
}

// exactErrors are a result's largest error and the root of the mean square, as parts of the sum of the magnitudes of
// weighted values. wrong describes the first element that should be finite and is not, or the other way round.
type exactErrors struct {
	largest, mean float64
	wrong         string
}

// errors returns the errors of devices.
func (c exactAttention) errors(t *testing.T, on ...device.Backend) (out []exactErrors) {
	t.Helper()
	g, y := c.graph()
	var in map[string]*tensor.Array
	var results []*tensor.Array
	for _, b := range on {
		r := loadOn(t, b, g, "f32")
		in = c.inputs(r)
		for name, a := range in {
			r.set(name, a)
		}
		results = append(results, r.run(t))
	}
	operands, magnitudes := make([]*tensor.Array, len(y.In)), make([]*tensor.Array, len(y.In))
	for k, x := range y.In {
		if x == nil {
			continue
		}
		a := *in[x.Name]
		operands[k], a.Floats = in[x.Name], slices.Clone(a.Floats)
		for i, v := range a.Floats {
			if c.isValue(x.Name, i) {
				a.Floats[i] = math.Abs(v)
			}
		}
		magnitudes[k] = &a
	}
	shape := y.Type.Shape.Eval(nil)
	want, all := tensor.NewArray(dtype.F32, shape...), tensor.NewArray(dtype.F32, shape...)
	for _, err := range []error{y.Op.Eval(y.Attrs, operands, want), y.Op.Eval(y.Attrs, magnitudes, all)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	finite := func(x float64) bool { return x-x == 0 }
	for _, result := range results {
		var e exactErrors
		for i, got := range result.Floats {
			w := want.Floats[i]
			if !finite(w) || !finite(got) || all.Floats[i] == 0 {
				if got != w && !(math.IsNaN(got) && math.IsNaN(w)) && e.wrong == "" {
					e.wrong = fmt.Sprintf("y[%d] is %v; want %v", i, got, w)
				}
				continue
			}
			part := math.Abs(got-w) / all.Floats[i]
			e.largest, e.mean = max(e.largest, part), e.mean+part*part
		}
		e.mean = math.Sqrt(e.mean / float64(len(want.Floats)))
		out = append(out, e)
	}
	return out
}

// test compares with the definition in float64.
func (c exactAttention) test(t *testing.T, on device.Backend) {
	e := c.errors(t, on)[0]
	t.Logf("largest error %.3g, mean %.3g", e.largest, e.mean)
	if e.wrong != "" {
		t.Error(e.wrong)
	}
	if e.largest > 0x1p-18 || e.mean > 0x1p-22 {
		t.Errorf("the largest error is %.3g of the magnitudes, and %.3g in the mean; want at most 2^-18 and 2^-22",
			e.largest, e.mean)
	}
}

var exactAttentions = []exactAttention{
	{plain: attentionCases[0], special: true},
	{plain: attentionCases[1], spread: 30},
	{plain: attentionCases[2]},
	{plain: attentionCases[4], special: true},
	{plain: attentionCase{1, 70, 90, 2, 1, 16, op.BSE, op.MaskCausal, 0, 0, dtype.F32, []int{-5}, false}},
	{plain: attentionCase{1, 40, 130, 2, 1, 80, op.BSHD, op.MaskSliding, 20, 0, dtype.F32, nil, false}, special: true},
	{grid: gridCase{1, 11, 10, 0, 1, 16, true}, special: true},
	{grid: gridCase{1, 12, 16, 8, 1, 32, false}, special: true},
	{grid: gridCase{1, 6, 40, 0, 1, 16, true}, spread: 30},
	{grid: gridCase{2, 16, 17, 14, 1, 16, true}},
}

// TestInterpretedExactAttention runs attention at f32 on the interpreter.
func TestInterpretedExactAttention(t *testing.T) {
	for _, d := range []matrix.Device{withMMA, withWGMMA} {
		d.Small = true
		for _, i := range third(t, len(exactAttentions)) {
			c, used := exactAttentions[i], false
			on := interpreted(d, func(text string) string {
				used = used || strings.Contains(text, "mma")
				return text
			})
			t.Run(fmt.Sprint(d.Capability, c), func(t *testing.T) {
				if c.test(t, on); !used {
					t.Error("no kernel for matrix units was used")
				}
			})
		}
	}
}

// TestExactAttention runs attention at f32 on the device. Without special values, errors are not larger than those of
// the kernels with fma.
func TestExactAttention(t *testing.T) {
	fma, small := newAPI(openLibrary, cacheFolder()), newAPI(openLibrary, cacheFolder())
	fma.change = withoutMatrix
	small.small = true
	for _, c := range append([]exactAttention{
		{plain: attentionCase{1, 700, 900, 4, 2, 64, op.BSE, op.MaskCausal, 0, 0, dtype.F32, []int{200}, false}},
		{plain: attentionCase{1, 1100, 1100, 2, 2, 96, op.BSHD, op.MaskNone, 0, 0, dtype.BF16, nil, false}, spread: 40},
		{grid: gridCase{1, 40, 64, 0, 1, 64, true}},
		{grid: gridCase{1, 40, 37, 14, 3, 64, true}, special: true},
		{grid: gridCase{1, 40, 37, 14, 2, 80, true}, spread: 40},
	}, exactAttentions...) {
		t.Run(c.String(), func(t *testing.T) {
			list := c.errors(t, gpu.New(small), gpu.New(fma))
			e, before := list[0], list[1]
			if e.wrong != "" {
				t.Error(e.wrong)
			}
			t.Logf("largest error %.3g, mean %.3g; with fma %.3g, %.3g", e.largest, e.mean, before.largest, before.mean)
			if e.largest > before.largest && !c.special {
				t.Errorf("the largest error is %.3g of the magnitudes; with fma it is %.3g", e.largest, before.largest)
			}
		})
	}
}
