package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// regression is a graph that some implementation of its ops got wrong. in has values of inputs and params, want those
// of outputs. Inputs and params that in lacks are random. Every step is also compared with its op's definition.
type regression struct {
	name     string
	text     string
	in, want map[string][]float64
}

// numbers are elements by the name of an input, param or output.
type numbers = map[string][]float64

var (
	inf  = math.Inf(1)
	zero = math.Copysign(0, -1)
)

// weighted returns the mean of v, weighted by the softmax of scores.
func weighted(scores, v []float64) float64 {
	var sum, all float64
	for i, s := range scores {
		sum += math.Exp(s) * v[i]
		all += math.Exp(s)
	}
	return sum / all
}

// belowMax has two rows of numbers, less the largest of their row.
var belowMax = [2][4]float64{{0, -1, -4, -10}, {0, -1, -8, -990000}}

// largeSums are the sums of the exponentials of belowMax.
var largeSums = [2]float64{1 + math.Exp(-1) + math.Exp(-4) + math.Exp(-10), 1 + math.Exp(-1) + math.Exp(-8)}

// largeRows applies f to each number of belowMax and the sum of its row.
func largeRows(f func(x, sum float64) float64) (out []float64) {
	for i, row := range belowMax {
		for _, x := range row {
			out = append(out, f(x, largeSums[i]))
		}
	}
	return out
}

// lowest is the least float32, by which exporters hide keys.
const lowest = -math.MaxFloat32

// hidden returns biases of three keys for n queries. For every other query all keys are hidden, for the others all but
// the first.
func hidden(n int) (out []float64) {
	for i := range n {
		out = append(out, lowest*float64(1-i%2), lowest, lowest)
	}
	return out
}

var geluOf = []float64{0.841344746, -0.158655254, 2.995950306}

var regressions = []regression{
	{"gelu alone and as an epilogue", `
x = input : f32[1,3]
w = param : f32[3,3]
alone = gelu x : f32[1,3]
after = fused_matmul x, w {act="gelu"} : f32[1,3]
region = elementwise_region x {expr="v0=gelu(i0)"} : f32[1,3]
return alone=alone, after=after, region=region`,
		numbers{"x": {1, -1, 3}, "w": {1, 0, 0, 0, 1, 0, 0, 0, 1}},
		numbers{"alone": geluOf, "after": geluOf, "region": geluOf}},
	{"the last elements of many", `
x = input : f32[1048653]
a = silu x : f32[1048653]
return a=a`, nil, nil},
	{"round to even", `
x = input : f32[6]
y = round x : f32[6]
return y=y`, numbers{"x": {0.5, 1.5, 2.5, -0.5, -1.5, 3.5}}, numbers{"y": {0, 2, 2, zero, -2, 4}}},
	{"beta of rms_norm", `
x = input : f32[1,2]
g = param : f32[2]
b = param : f32[2]
y = rms_norm x, g, b {eps=1e-12} : f32[1,2]
return y=y`, numbers{"x": {3, 4}, "g": {1, 2}, "b": {10, 20}},
		numbers{"y": {10 + 3/math.Sqrt(12.5), 20 + 8/math.Sqrt(12.5)}}},
	{"causal attention with fewer queries than keys", `
q = input : f32[1,1,2,1]
k = input : f32[1,1,4,1]
v = input : f32[1,1,4,1]
y = attention q, k, v {heads=1, layout="bhsd", mask="causal"} : f32[1,1,2,1]
return y=y`, numbers{"q": {0, 0}, "v": {1, 2, 3, 4}}, numbers{"y": {2, 2.5}}},
	{"a bias below 0 is not a mask", `
q = input : f32[1,1,1,1]
k = input : f32[1,1,3,1]
v = input : f32[1,1,3,1]
bias = input : f32[1,1,1,3]
y = attention q, k, v, mask=bias {heads=1, layout="bhsd", mask="bias"} : f32[1,1,1,1]
return y=y`, numbers{"q": {0}, "v": {1, 2, 3}, "bias": {-1, 0, -2}},
		numbers{"y": {weighted([]float64{-1, 0, -2}, []float64{1, 2, 3})}}},
	{"all keys with the least bias are seen alike", `
q = input : f32[1,1,40,1]
k = input : f32[1,1,3,1]
v = input : f32[1,1,3,1]
bias = input : f32[1,1,40,3]
one = input : f32[1,1,1,1]
least = input : f32[1,1,1,3]
y = attention q, k, v, mask=bias {heads=1, layout="bhsd", mask="bias"} : f32[1,1,40,1]
z = attention one, k, v, mask=least {heads=1, layout="bhsd", mask="bias"} : f32[1,1,1,1]
return y=y, z=z`, numbers{"k": {1, -1, 2}, "v": {1, 2, 3}, "bias": hidden(40), "least": {lowest, lowest, lowest}},
		numbers{"y": slices.Repeat([]float64{2, 1}, 20), "z": {2}}},
	{"integers of 64 bits", `
a = input : i64[2,8]
b = input : i64[8]
f = input : f32[16]
sum = add a, b : i64[2,8]
difference = sub a, b : i64[2,8]
product = mul a, b : i64[2,8]
large = max a, b : i64[2,8]
small = min a, b : i64[2,8]
below = lt a, b : bool[2,8]
least = le a, b : bool[2,8]
same = eq a, b : bool[2,8]
one = where below, a, b : i64[2,8]
size = abs difference : i64[2,8]
sign = sign product : i64[2,8]
single = cast product {to=f32} : f32[2,8]
half = cast sum {to=bf16} : bf16[2,8]
word = cast sum {to=i32} : i32[2,8]
flag = cast a {to=bool} : bool[2,8]
whole = cast f {to=i64} : i64[16]
back = cast word {to=i64} : i64[2,8]
turned = transpose difference {perm=[1,0]} : i64[8,2]
total = reduce_sum a {axes=[1]} : i64[2]
most = reduce_max product {axes=[0]} : i64[8]
return one=one, size=size, sign=sign, single=single, half=half, flag=flag, whole=whole, back=back, turned=turned, total=total, most=most, large=large, small=small, least=least, same=same`,
		numbers{"a": {1<<40 + 3, -(1 << 40) - 3, 1 << 32, -1, 1 << 31, -(1 << 31) - 1, 0, 1<<53 - 1,
			1<<32 - 1, 1 << 33, 7, -1 << 52, 1, -1 << 32, 1<<32 + 1, 16777217 << 20},
			"b": {5, 1 << 33, -1 << 32, 1<<32 - 1, 1<<31 - 1, -1 << 31, 0, -1},
			"f": {0.99, -1.5, 1 << 40, -1 << 62, 9.3e18, -9.3e18, inf, -inf, 16777216, 3e9, -3e9, 1 << 55, 1e-40, zero,
				math.NaN(), 1 << 31}}, nil},
	{"scale and softcap", `
q = input : f32[1,1,1,1]
k = input : f32[1,1,2,1]
v = input : f32[1,1,2,1]
y = attention q, k, v {heads=1, layout="bhsd", mask="none", scale=0.5, softcap=2.0} : f32[1,1,1,1]
return y=y`, numbers{"q": {2}, "k": {1, 3}, "v": {1, 2}},
		numbers{"y": {weighted([]float64{2 * math.Tanh(0.5), 2 * math.Tanh(1.5)}, []float64{1, 2})}}},
	{"as many heads as tokens in bshd", `
q = input : f32[1,2,2,1]
k = input : f32[1,2,2,1]
v = input : f32[1,2,2,1]
y = attention q, k, v {heads=2, layout="bshd", mask="none"} : f32[1,2,2,1]
return y=y`, numbers{"q": {0, 0, 0, 0}, "v": {1, 10, 3, 30}}, numbers{"y": {2, 20, 2, 20}}},
	{"heads of 129 and more than 512 keys", `
q = input : f32[1,2,3,129]
k = input : f32[1,2,515,129]
v = input : f32[1,2,515,129]
y = attention q, k, v {heads=2, layout="bhsd", mask="causal"} : f32[1,2,3,129]
return y=y`, nil, nil},
	{"rope of a part of a head", `
x = input : f32[1,1,2,4]
y = rope x {base=10000.0, head_dim=4, layout="bhsd", n_rot=2, style="neox"} : f32[1,1,2,4]
return y=y`, numbers{"x": {1, 2, 3, 4, 1, 2, 3, 4}},
		numbers{"y": {1, 2, 3, 4, math.Cos(1) - 2*math.Sin(1), 2*math.Cos(1) + math.Sin(1), 3, 4}}},
	{"matmul with broadcast batches", `
a = input : f32[2,1,1,2]
b = input : f32[3,2,1]
y = matmul a, b : f32[2,3,1,1]
return y=y`, numbers{"a": {1, 2, 3, 4}, "b": {1, 1, 2, 0, 0, 1}}, numbers{"y": {3, 2, 2, 7, 6, 4}}},
	{"a column beside a matrix", `
x = input : f32[3,2]
c = input : f32[3,1]
y = add x, c : f32[3,2]
z = relu y : f32[3,2]
return z=z`, numbers{"x": {1, 2, 3, 4, 5, 6}, "c": {10, 20, -30}}, numbers{"z": {11, 12, 23, 24, 0, 0}}},
	{"softmax on a middle axis", `
x = input : f32[1,2,2]
y = softmax x {axis=1} : f32[1,2,2]
return y=y`, numbers{"x": {0, 0, math.Log(3), 0}}, numbers{"y": {0.25, 0.5, 0.75, 0.5}}},
	{"softmax of rows of large numbers", `
x = input : f32[2,4]
p = softmax x {axis=1} : f32[2,4]
l = log_softmax x {axis=1} : f32[2,4]
s = logsumexp x {axes=[1]} : f32[2]
return p=p, l=l, s=s`, numbers{"x": {200, 199, 196, 190, -1e4, -10001, -10008, -1e6}},
		numbers{"p": largeRows(func(x, sum float64) float64 { return math.Exp(x) / sum }),
			"l": largeRows(func(x, sum float64) float64 { return x - math.Log(sum) }),
			"s": {200 + math.Log(largeSums[0]), -1e4 + math.Log(largeSums[1])}}},
	{"reduction of axes 0 and 2", `
x = input : f32[2,3,2]
y = reduce_sum x {axes=[0,2]} : f32[3]
return y=y`, numbers{"x": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}, numbers{"y": {14, 22, 30}}},
	{"reductions of nothing", `
x = input : f32[2,0]
sum = reduce_sum x {axes=[1]} : f32[2]
prod = reduce_prod x {axes=[1]} : f32[2]
max = reduce_max x {axes=[1]} : f32[2]
min = reduce_min x {axes=[1]} : f32[2]
return sum=sum, prod=prod, max=max, min=min`, nil,
		numbers{"sum": {0, 0}, "prod": {1, 1}, "max": {-inf, -inf}, "min": {inf, inf}}},
	{"cast from f32 to i32", `
x = input : f32[5]
y = cast x {to=i32} : i32[5]
return y=y`, numbers{"x": {1.9, -1.9, 3e9, -3e9, math.NaN()}}, numbers{"y": {1, -1, math.MaxInt32, math.MinInt32, 0}}},
	{"a constant as the index of gather", `
t = input : f32[4,2]
i = const {value=2.0} : i32[3]
y = gather t, i : f32[3,2]
return y=y`, numbers{"t": {0, 1, 2, 3, 4, 5, 6, 7}}, numbers{"y": {4, 5, 4, 5, 4, 5}}},
	{"gather on axis 1", `
t = input : f32[2,3,2]
i = input : i32[2]
y = gather t, i {axis=1} : f32[2,2,2]
return y=y`, numbers{"t": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, "i": {2, 0}},
		numbers{"y": {4, 5, 0, 1, 10, 11, 6, 7}}},
	{"a value in the middle is an output too", `
x = input : f32[2,2]
r = input : f32[2,2]
g = param : f32[2]
b = param : f32[2]
s = add x, r : f32[2,2]
early = relu s : f32[2,2]
n = layer_norm s, g, b {eps=1e-05} : f32[2,2]
return s=s, early=early, n=n`, numbers{"x": {1, 2, 3, 4}, "r": {-2, -2, -2, -2}},
		numbers{"s": {-1, 0, 1, 2}, "early": {0, 0, 1, 2}}},
	{"a weight without elements alone", `
p = param : f32[0,4]
return p=p`, nil, numbers{"p": {}}},
	{"operands without elements", `
x = input : f32[2,4]
none = input : f32[0,4]
p = param : f32[0,4]
c = const {value=0.0} : f32[0,4]
y = concat x, p, none, c {axis=0} : f32[2,4]
z = add p, none : f32[0,4]
w = concat c, p {axis=0} : f32[0,4]
return y=y, z=z, w=w`, numbers{"x": {1, 2, 3, 4, 5, 6, 7, 8}},
		numbers{"y": {1, 2, 3, 4, 5, 6, 7, 8}, "z": {}, "w": {}}},
	{"products over nothing", `
x = input : f32[2,0]
p = param : f32[3,0]
w = param : f32[0,4]
y = matmul x, p {trans_b=true} : f32[2,3]
z = matmul x, w : f32[2,4]
n = matmul w, x {trans_a=true, trans_b=true} : f32[4,2]
return y=y, z=z, n=n`, nil, numbers{"y": make([]float64, 6), "z": make([]float64, 8), "n": make([]float64, 8)}},
	{"integers and bools without elements", `
i = param : i32[0,2]
b = param : bool[3,0]
j = input : i32[0,2]
sum = add i, j : i32[0,2]
return i=i, b=b, sum=sum`, nil, numbers{"i": {}, "b": {}, "sum": {}}},
	{"a state without elements", `
rows = input : f32[2,0]
pos = const {value=0.0} : i32[]
old = state : f32[2,0]
new = kv_append old, rows, pos : f32[2,0]
return new=new`, nil, numbers{"new": {}}},
	{"params stay where sizes change", `
sym N = 1..5
x = input : f32[N,3]
w = param : f32[3,2]
y = matmul x, w : f32[N,2]
return y=y`, nil, nil},
}

// regressionChecks returns one check per regression.
func (s *suite) regressionChecks() (checks []check) {
	for i, r := range regressions {
		name := "regression/" + strings.ReplaceAll(r.name, " ", "-")
		checks = append(checks, check{name: name, run: func() error { return s.checkRegression(r, uint64(i)) }})
	}
	return checks
}

func (s *suite) checkRegression(r regression, seed uint64) error {
	g, err := ir.Parse("graph regression\n" + r.text)
	if err != nil {
		return fmt.Errorf("BUG: devicetest: %w", err)
	}
	rng := rand.New(rand.NewPCG(seed, 21))
	params := values{}
	for _, n := range g.Params() {
		params[n.Name] = r.value(n, nil, rng)
	}
	p, err := build(g, params)
	if err != nil {
		return fmt.Errorf("BUG: devicetest: %w", err)
	}
	return s.withRig(p, params, device.Load{Threads: 2}, func(rig *rig) error {
		for _, syms := range points(g.Syms) {
			in := values{}
			for _, n := range g.Inputs() {
				in[n.Name] = r.value(n, syms, rng)
			}
			got, err := rig.stepwise(syms, in, params)
			if err != nil {
				return fmt.Errorf("sizes %v: %w", syms, err)
			}
			for name, v := range r.want {
				x := got[name].Array()
				want := filled(x, v)
				if err := compare(x, want, ir.Tolerance{Abs: 1e-5, Rel: 1e-5}); err != nil {
					return fmt.Errorf("output %s: %w", name, err)
				}
			}
		}
		return nil
	})
}

// value returns the value that r gives for an input or a param, or a random one.
func (r regression) value(n *ir.Node, syms map[string]int64, rng *rand.Rand) *tensor.Array {
	x := operand(rng, n.Type, syms, false)
	if v := r.in[n.Name]; v != nil {
		return filled(x, v)
	}
	return x
}

// filled returns an array of x's type and shape with the elements v.
func filled(x *tensor.Array, v []float64) *tensor.Array {
	out := tensor.NewArray(x.DType, x.Shape...)
	if out.Len() != len(v) {
		panic(fmt.Sprintf("BUG: devicetest: %d values for %v%v", len(v), x.DType, x.Shape))
	}
	for i, e := range v {
		if out.Floats != nil {
			out.Floats[i] = e
		} else {
			out.Ints[i] = int64(e)
		}
	}
	return out
}
