package driver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cuda/matrix"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// fewCase is products of few rows, whose number is known only at run time.
type fewCase struct {
	typ       dtype.DType
	n, k      int
	precision string
	splits    int  // 0 for the kernel's choice
	epilogue  bool // a bias, an activation and a residual
	counts    []int64
}

func (c fewCase) String() string {
	return fmt.Sprintf("%v/%dx%d/%s/%d/%t", c.typ, c.n, c.k, c.precision, c.splits, c.epilogue)
}

// fewCases have sizes for which tiles are not full, K is divided, and tiles have 128 rows on small devices.
var fewCases = func() (list []fewCase) {
	each := []int64{1, 2, 3, 5, 8, 9, 16, 17, 31, 33, 64, 65, 96}
	for i, typ := range []dtype.DType{dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q6_K, dtype.BF16} {
		for k, precision := range []string{"bf16", "f16", "f32"} {
			if typ == dtype.BF16 && precision == "f16" {
				continue
			}
			counts := []int64{each[(i+3*k)%5], each[5+(i+k)%4], each[9+(i+2*k)%4]}
			list = append(list, fewCase{typ: typ, n: 70 + k%2, k: 2048, precision: precision, counts: counts},
				fewCase{typ: typ, n: 36, k: 6144, precision: precision, splits: 3, epilogue: typ == dtype.BF16,
					counts: []int64{counts[1], 4, counts[2]}})
		}
		list = append(list, fewCase{typ: typ, n: 30, k: 2048, precision: "bf16", counts: []int64{4, 8, 13}})
		k := 256
		if typ == dtype.Q6_K {
			k = 2048 // rows begin at multiples of 16 bytes
		}
		list = append(list, fewCase{typ: typ, n: 901, k: k, precision: "bf16", epilogue: typ == dtype.BF16,
			counts: []int64{7, 23}})
	}
	return append(list,
		fewCase{typ: dtype.F16, n: 67, k: 2048, precision: "f16", epilogue: true, counts: []int64{7, 40}},
		fewCase{typ: dtype.Q5_1, n: 67, k: 2048, precision: "bf16", counts: []int64{7, 40}},
		fewCase{typ: dtype.Q6_K, n: 67, k: 2304, precision: "bf16", counts: []int64{7, 40}},
		fewCase{typ: dtype.Q8_0, n: 65, k: 2048, precision: "bf16", counts: []int64{130, 97, 96}})
}()

// TestInterpretedFew compares products of few rows with their definition, on the interpreter.
func TestInterpretedFew(t *testing.T) {
	for _, i := range third(t, len(fewCases)) {
		c := fewCases[i]
		t.Run(c.String(), func(t *testing.T) {
			d := withWGMMA
			d.Splits = c.splits
			c.test(t, interpreted(d, strings.Clone), i)
		})
	}
}

// TestFew is TestInterpretedFew on the device, with all numbers of rows.
func TestFew(t *testing.T) {
	for i, c := range fewCases {
		if c.splits > 0 {
			c.n = 256
		}
		c.counts = nil
		for m := range int64(130) {
			c.counts = append(c.counts, m+1)
		}
		t.Run(c.String(), func(t *testing.T) { c.test(t, shared, uint64(i)) })
	}
}

// fewRun is a program of products of few rows.
type fewRun struct {
	*graphRun
	c       fewCase
	x       *tensor.Array // of the largest number of rows
	weights *tensor.Array // their values
	in      map[string]*tensor.Array
	bytes   []byte
}

func (c fewCase) load(t testing.TB, on device.Backend, seed uint64) *fewRun {
	t.Helper()
	text := fmt.Sprintf("graph few\nsym S = 1..%d\nx = input : f32[S,%d]\nw = input : %v[%d,%d]\n",
		max(130, slices.Max(c.counts)), c.k, c.typ, c.n, c.k/max(1, c.typ.Values()))
	switch {
	case c.epilogue:
		text += fmt.Sprintf("b = input : f32[%d]\nr = input : f32[S,%[1]d]\n"+
			"y = fused_matmul x, w, bias=b, residual=r {act=\"silu\", trans_b=true} : f32[S,%[1]d]\n", c.n)
	case c.typ.IsPacked():
		text += fmt.Sprintf("y = dequant_matmul x, w {activations=\"f32\", scheme=\"packed\"} : f32[S,%d]\n", c.n)
	default:
		text += fmt.Sprintf("y = matmul x, w {trans_b=true} : f32[S,%d]\n", c.n)
	}
	g, err := ir.Parse(text + "return y=y\n")
	if err != nil {
		t.Fatal(err)
	}
	r := &fewRun{graphRun: loadOn(t, on, g, c.precision), c: c, in: map[string]*tensor.Array{}}
	rng := rand.New(rand.NewPCG(seed, 7))
	most := map[string]int64{"S": g.Syms[0].Max}
	for i, n := range r.program.Graph.Inputs() {
		if n.Name != "w" {
			a := normal(rng, n.Type.At(most))
			if n.Name == "x" {
				a.Floats[0], a.Floats[2*c.k+5] = 1e-40, math.NaN()
				if c.typ != dtype.Q4_K { // which subtracts infinite values
					a.Floats[c.k+3] = math.Inf(1)
				}
			}
			r.in[n.Name] = a
			continue
		}
		o := r.bound.Inputs[i]
		r.bytes = make([]byte, o.Bytes)
		if !c.typ.IsPacked() {
			r.weights = normal(rng, n.Type.At(most))
			r.weights.Store(r.bytes)
			continue
		}
		for i := range r.bytes { // no exponent of a scale has all bits set
			r.bytes[i] = byte(rng.Uint32())
			if i%2 == 1 {
				r.bytes[i] &= 0xbb
			}
		}
		r.weights = decoded(t, n.Type, r.bytes, c.n, c.k)
	}
	return r
}

// decoded returns the values of packed weights.
func decoded(t testing.TB, typ ir.Type, bytes []byte, n, k int) *tensor.Array {
	g := ir.NewGraph("decode")
	out, rows := tensor.NewArray(dtype.F32, n, k), tensor.NewArray(dtype.I32, n)
	for i := range rows.Ints {
		rows.Ints[i] = int64(i)
	}
	packed := tensor.Tensor{DType: typ.DType, Shape: typ.Shape.Eval(nil), Data: bytes}.Array()
	decode := op.DequantRows(op.Input(g, "w", typ), op.Input(g, "rows", ir.TypeOf(dtype.I32, int64(n))))
	if err := decode.Op.Eval(decode.Attrs, []*tensor.Array{packed, rows}, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// run returns the result for the first m rows of x.
func (r *fewRun) run(t testing.TB, m int64) []float64 {
	t.Helper()
	syms := map[string]int64{"S": m}
	b, err := program.NewBinder(r.program).Bind(syms)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range r.program.Graph.Inputs() {
		o := b.Inputs[i]
		to := r.io[o.Offset : o.Offset+o.Bytes]
		if n.Name == "w" {
			copy(to, r.bytes)
			continue
		}
		of := tensor.NewArray(dtype.F32, o.Shape...)
		copy(of.Floats, r.in[n.Name].Floats)
		of.Store(to)
	}
	if _, err := r.exe.Run(t.Context(), device.Run{IO: r.io, Syms: syms}); err != nil {
		t.Fatal(err)
	}
	o := b.Outputs[0]
	y := tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: r.io[o.Offset : o.Offset+o.Bytes]}
	return slices.Clone(y.Array().Floats)
}

// test compares results with sums in float64. From nine rows on x is rounded, and from 97 on weights are, too. The
// results of a row must not depend on the number of rows between the bounds of text.Batch.
func (c fewCase) test(t *testing.T, on device.Backend, seed uint64) {
	r := c.load(t, on, seed)
	direct := c.typ != dtype.Q5_1 && (!c.typ.IsPacked() || c.k/c.typ.Values()*c.typ.Size()%16 == 0)
	of, wants := map[int][]float64{}, map[[2]bool][][2]float64{}
	for _, m := range c.counts {
		y, bound := r.run(t, m), 0
		for _, b := range []int{1, 8, 64, 96} {
			if int(m) > b {
				bound = b
			}
		}
		if first := of[bound]; len(first) < len(y) {
			of[bound] = y
		}
		same := func(a, b float64) bool { return a == b || a != a && b != b }
		if k := min(len(of[bound]), len(y)); !slices.EqualFunc(of[bound][:k], y[:k], same) {
			t.Errorf("%d rows: the first rows are others than with %d rows", m, len(of[bound])/c.n)
		}
		rounds := bound >= 8 && c.precision != "f32"
		kind := [2]bool{rounds, rounds && (m > 96 || !direct)}
		if wants[kind] == nil {
			wants[kind] = r.want(int(slices.Max(c.counts)), kind[0], kind[1])
		}
		wrong := 0
		for i, got := range y {
			want, most := wants[kind][i][0], 2e-6*wants[kind][i][1]
			if (!(math.Abs(got-want) <= most) || math.IsInf(want, 0)) && !same(got, want) && wrong < 3 {
				wrong++
				t.Errorf("%d rows: y[%d, %d] is %v; want %v, with an error of at most %v", m, i/c.n, i%c.n, got, want,
					most)
			}
		}
	}
}

// want returns the results of so many rows, and the sums of magnitudes. x and weights may be rounded first.
func (r *fewRun) want(rows int, rounds, both bool) (out [][2]float64) {
	c, x, weights := r.c, r.in["x"], r.weights
	if rounds {
		x = rounded(x, c.precision)
	}
	if both {
		weights = rounded(weights, c.precision)
	}
	for row := range rows {
		for column := range c.n {
			want, all := 0.0, 0.0
			a, b := x.Floats[row*c.k:][:c.k], weights.Floats[column*c.k:][:c.k]
			for k, v := range a {
				want, all = want+v*b[k], all+math.Abs(v*b[k])
			}
			if c.epilogue {
				bias, plus := r.in["b"].Floats[column], r.in["r"].Floats[row*c.n+column]
				want = activate("silu", want+bias) + plus
				all += math.Abs(bias) + math.Abs(plus)
			}
			out = append(out, [2]float64{want, all})
		}
	}
	return out
}

// BenchmarkFew times products of few rows by the device's clock, with rounding x. Each repetition reads other weights,
// so that they do not stay in the L2 cache. At "before", few rows have no kernels of their own.
func BenchmarkFew(b *testing.B) {
	for _, old := range []string{"", "before/"} {
		for _, typ := range []dtype.DType{dtype.Q8_0, dtype.BF16, dtype.Q4_0, dtype.Q4_K, dtype.Q6_K} {
			for _, s := range [][2]int{{512, 2048}, {2048, 2048}, {8192, 2048}, {2048, 8192}, {128256, 2048}} {
				b.Run(fmt.Sprintf("%s%v/%dx%d", old, typ, s[0], s[1]), func(b *testing.B) {
					benchmarkFew(b, typ, s, old != "")
				})
			}
		}
	}
}

func benchmarkFew(b *testing.B, typ dtype.DType, s [2]int, old bool) {
	bytes := s[0] * s[1] * typ.Size() / max(1, typ.Values())
	count := max(1, min(64, 120<<20/bytes))
	text := fmt.Sprintf("graph few\nsym S = 1..512\nx = input : f32[S,%d]\n", s[1])
	var results []string
	for i := range count {
		text += fmt.Sprintf("w%d = param : %v[%d,%d]\n", i, typ, s[0], s[1]/max(1, typ.Values()))
		if typ.IsPacked() {
			text += fmt.Sprintf(
				"y%d = dequant_matmul x, w%[1]d {activations=\"f32\", scheme=\"packed\"} : f32[S,%d]\n", i, s[0])
		} else {
			text += fmt.Sprintf("y%d = matmul x, w%[1]d {trans_b=true} : f32[S,%d]\n", i, s[0])
		}
		results = append(results, fmt.Sprintf("y%d=y%[1]d", i))
	}
	g, err := ir.Parse(text + "return " + strings.Join(results, ", ") + "\n")
	if err != nil {
		b.Fatal(err)
	}
	a := newAPI(openLibrary, cacheFolder())
	if old {
		list, err := a.Adapters()
		if err != nil {
			b.Skip(err)
		}
		d := list[0].(*adapter).matrix
		d.NoFew = true
		a.change = func(l *gpu.Limits) { l.Kernels.Own = matrix.Kernels(d) }
	}
	p, _, err := sched.Build(g, sched.Options{Target: "cpu", Weights: func(name string) (int64, bool) {
		i, err := strconv.Atoi(name[1:])
		return int64(i * bytes), err == nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	weights, io := tensor.AlignedBytes(count*bytes), tensor.AlignedBytes(int(p.IOSize))
	rng := rand.New(rand.NewPCG(1, 2))
	some := make([]byte, 1<<20)
	for i := range some {
		some[i] = byte(rng.Uint32()) & 0x3f
	}
	for _, to := range [][]byte{weights, io} {
		for at := 0; at < len(to); {
			at += copy(to[at:], some)
		}
	}
	exe, err := gpu.New(a).Load(b.Context(), device.Load{Program: p, Weights: weights, Precision: "bf16"})
	if err != nil {
		b.Skip(err)
	}
	defer exe.Close()
	for _, m := range []int64{1, 4, 8, 16, 32, 64, 96, 128} {
		b.Run(fmt.Sprint(m), func(b *testing.B) {
			if _, err := exe.Run(b.Context(), device.Run{IO: io, Syms: map[string]int64{"S": m}}); err != nil {
				b.Fatal(err)
			}
			took := fastest(b, exe) / float64(count)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(1e6*took, "us")
			b.ReportMetric(float64(bytes)/took/1e9, "GB/s")
		})
	}
}
