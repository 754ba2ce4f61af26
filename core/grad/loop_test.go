package grad_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// cells are bodies of loops: with slices and a counter, with a loop in it, and for a loop whose values are many.
const cells = `
graph cell
sym N = 1..8
h = input : f64[N,3]
c = input : f64[N,3]
n = input : i32[]
w = input : f64[3,3]
idle = input : f64[2]
x = input : f64[N,3]
gate = input : f64[N]
i = const {value=1} : i32[]
k = add n, i : i32[]
nf = cast k {to=f64} : f64[]
scale = reciprocal nf : f64[]
p = matmul h, w : f64[N,3]
s = add p, x : f64[N,3]
t = tanh s : f64[N,3]
r = mul t, scale : f64[N,3]
g = reshape gate : f64[N,1]
cg = mul c, g : f64[N,3]
o = add cg, r : f64[N,3]
return h=r, c=o, n=k

graph inner
h = input : f64[4]
w = input : f64[4]
p = mul h, w : f64[4]
s = sin p : f64[4]
y = add s, w : f64[4]
return y=y

graph outer
h = input : f64[4]
w = input : f64[4]
x = input : f64[4]
a = loop h, w {body=@inner, carried=1, length=700, results=[0]} : f64[4]
y = mul a, x : f64[4]
return y=y

graph large
h = input : f64[40,40]
w = input : f64[40]
x = input : f64[40]
p = mul h, w : f64[40,40]
s = sin p : f64[40,40]
y = add s, x : f64[40,40]
return y=y

graph narrow
h = input : f16[3]
w = input : f16[3]
p = mul h, w : f16[3]
return y=p
`

// TestLoop compares the gradients of loops that stay loops with those of the same loops unrolled.
func TestLoop(t *testing.T) {
	const cell = "sym N = 1..8\nh = input : f64[N,3]\nc = input : f64[N,3]\nn = input : i32[]\nw = input : f64[3,3]\n" +
		"idle = input : f64[2]\nx = input : f64[300,N,3]\ngate = input : f64[300,N]\nflag = input : bool[]\n"
	for _, c := range []struct{ name, text, wrt string }{
		{"last", cell + "y = loop h, c, n, w, idle, x, gate {body=@cell, carried=3, steps=2, length=300, results=[1]} : f64[N,3]\n" +
			"q = mul y, y : f64[N,3]\nloss = reduce_sum q {axes=[0,1]} : f64[]", "h c w idle x gate"},
		{"all", cell + "a, b, d = loop h, c, n, w, idle, x, gate {body=@cell, carried=3, steps=2, length=300, results=[0,1,3]} : f64[N,3], f64[N,3], f64[300,N,3]\n" +
			"e = mul d, x : f64[300,N,3]\nf = reduce_sum e {axes=[0]} : f64[N,3]\nq = mul a, b : f64[N,3]\nr = add q, f : f64[N,3]\n" +
			"loss = reduce_sum r {axes=[0,1]} : f64[]", "h c w x gate"},
		{"some", cell + "y = loop h, c, n, w, idle, x, gate {body=@cell, carried=3, steps=2, length=300, results=[4]} : f64[300,N,3]\n" +
			"q = mul y, y : f64[300,N,3]\nloss = reduce_sum q {axes=[0,1,2]} : f64[]", "gate"},
		{"guarded", cell + "y, z = loop h, c, n, w, idle, x, gate, flag {body=@cell, carried=3, steps=2, length=300, guarded=true, results=[1,3]} : f64[N,3], f64[300,N,3]\n" +
			"u = mul y, y : f64[N,3]\nv = reduce_sum z {axes=[0]} : f64[N,3]\nq = add u, v : f64[N,3]\nloss = reduce_sum q {axes=[0,1]} : f64[]", "h c w x gate"},
		{"nested", "h = input : f64[4]\nw = input : f64[4]\nx = input : f64[5,4]\n" +
			"y = loop h, w, x {body=@outer, carried=1, steps=1, length=5, results=[0]} : f64[4]\nloss = reduce_sum y {axes=[0]} : f64[]", "h w x"},
		{"segments", "h = input : f64[40,40]\nw = input : f64[40]\nx = input : f64[683,40]\n" +
			"y, z = loop h, w, x {body=@large, carried=1, steps=1, length=683, results=[0,1]} : f64[40,40], f64[683,40,40]\n" +
			"u = mul y, y : f64[40,40]\nv = reduce_mean z {axes=[0]} : f64[40,40]\nq = add u, v : f64[40,40]\nloss = reduce_sum q {axes=[0,1]} : f64[]", "h w x"},
		{"f16", "h = input : f16[3]\nw = input : f16[3]\n" +
			"y = loop h, w {body=@narrow, carried=1, length=2100, results=[0]} : f16[3]\nloss = reduce_sum y {axes=[0]} : f16[]", "h w"},
	} {
		t.Run(c.name, func(t *testing.T) {
			used := ""
			for _, b := range strings.Split(cells, "graph ")[1:] {
				if name, _, _ := strings.Cut(b, "\n"); strings.Contains(c.text, "@"+name) || name == "inner" {
					used += "graph " + b
				}
			}
			if !strings.Contains(c.text, "@outer") {
				inner := used[strings.Index(used, "graph inner"):]
				used = strings.Replace(used, inner[:strings.Index(inner, "return y=y")+10], "", 1)
			}
			g := parse(t, used+"graph main\n"+c.text+"\nreturn loss=loss\n")
			plain, _, err := g.Expand(func(n *ir.Node) bool { return n.Op == op.LoopDef })
			if err != nil {
				t.Fatal(err)
			}
			wrt, syms := strings.Fields(c.wrt), map[string]int64{}
			if len(g.Syms) > 0 {
				syms["N"] = 2
			}
			differentiate(t, g, wrt...)
			differentiate(t, plain, wrt...)
			if again, err := ir.Parse(g.String()); err != nil || again.String() != g.String() {
				t.Errorf("%v:\n%s", err, g)
			}
			for flag := range 1 + strings.Count(c.name, "guarded") {
				rng := rand.New(rand.NewPCG(5, 5))
				in := map[string]*tensor.Array{}
				for _, n := range g.Inputs() {
					at := ir.Range{Lo: -1, Hi: 1}
					if !n.Type.DType.IsFloat() {
						at = ir.Range{Lo: float64(flag), Hi: float64(flag)}
					}
					if c.name == "f16" {
						at = ir.Range{Lo: 1, Hi: 1}
					}
					in[n.Name] = interp.Random(rng, n.Type, syms, at)
				}
				got, err := interp.Run(g, syms, in, nil)
				if err != nil {
					t.Fatal(err)
				}
				want, err := interp.Run(plain, syms, in, nil)
				if err != nil {
					t.Fatal(err)
				}
				for name := range want {
					if c.name == "f16" && name == "d.w" { // the sum of many, which is not rounded each time
						if v := got[name].Floats[0]; v != 2100 {
							t.Errorf("%v; want 2100", v)
						}
						continue
					}
					if err := interp.Compare(got[name], want[name], ir.Tolerance{Abs: 1e-12, Rel: 1e-12}); err != nil {
						t.Errorf("flag %d, %s: %v", flag, name, err)
					}
				}
			}
		})
	}
}

// TestLoopMemory checks that a long loop keeps the carried values of some iterations only.
func TestLoopMemory(t *testing.T) {
	for _, length := range []int{16, 100, 1000} {
		body := cells[strings.Index(cells, "graph large"):strings.Index(cells, "graph narrow")]
		text := fmt.Sprintf(body+"graph main\nh = input : f64[40,40]\nw = input : f64[40]\nx = input : f64[%[1]d,40]\n"+
			"y = loop h, w, x {body=@large, carried=1, steps=1, length=%[1]d, results=[0]} : f64[40,40]\n"+
			"loss = reduce_sum y {axes=[0,1]} : f64[]\nreturn loss=loss", length)
		g := parse(t, text)
		differentiate(t, g, "h", "w", "x")
		for _, list := range append(g.Bodies(), g) {
			for _, n := range list.Nodes {
				if s := n.Type.Shape; len(s) == 3 && s[0].Const > 33 {
					t.Errorf("length %d: %s of %s is %v", length, n, list.Name, n.Type)
				}
			}
		}
	}
}

// TestLoopErrors tests the errors of loops that have no gradient as loops and are too long to be unrolled.
func TestLoopErrors(t *testing.T) {
	for text, want := range map[string]string{
		"graph body\nx = input : f32[]\ny = sin x : f32[]\nreturn y=y\n\ngraph more\nx = input : f32[]\nz = const : f32[]\n" +
			"c = gt x, z : bool[]\nreturn c=c\n\ngraph main\nx = input : f32[]\n" +
			"loss = while x {cond=@more, body=@body, max_iterations=100000} : f32[]\nd = grad(loss; x) : f32[]\nreturn d=d": "ends by a condition",
		"graph body\nx = input : f32[]\nw = param : f32[]\ny = mul x, w : f32[]\nreturn y=y\n\ngraph main\nx = input : f32[]\n" +
			"w = param : f32[]\nloss = scan x {body=@body, length=100000} : f32[]\nd = grad(loss; w) : f32[]\nreturn d=d": "reads the weight w",
	} {
		_, err := parse(t, text).LowerBlocks(nil)
		if !errorsIs(err, code.NoGradient) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestLoopWeight checks that the gradient of a weight that a loop's body reads by its name is not lost.
func TestLoopWeight(t *testing.T) {
	g := parse(t, "graph body\nx = input : f64[2]\nw = param : f64[2]\ny = mul x, w : f64[2]\nreturn y=y\n\ngraph main\nx = input : f64[2]\n"+
		"w = param : f64[2]\ny = scan x {body=@body, length=3} : f64[2]\nloss = reduce_sum y {axes=[0]} : f64[]\n"+
		"d = grad(loss; w) : f64[2]\nreturn d=d")
	array := func(a, b float64) *tensor.Array {
		x := tensor.NewArray(g.Inputs()[0].Type.DType, 2)
		copy(x.Floats, []float64{a, b})
		return x
	}
	out, err := interp.Run(g, nil, map[string]*tensor.Array{"x": array(1, -1)},
		func(string) (*tensor.Array, error) { return array(2, 3), nil })
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(out["d"].Floats); got != "[12 -27]" { // 3 x w²
		t.Errorf("%v", got)
	}
}
