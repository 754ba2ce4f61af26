package grad_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/grad"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

func parse(t *testing.T, text string) *ir.Graph {
	t.Helper()
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func named(t *testing.T, g *ir.Graph, name string) *ir.Node {
	t.Helper()
	n, ok := g.Find(name)
	if !ok {
		t.Fatalf("no %s", name)
	}
	return n
}

// differentiate returns the gradients of g's value "loss" as outputs d.NAME.
func differentiate(t *testing.T, g *ir.Graph, wrt ...string) *ir.Graph {
	t.Helper()
	var nodes []*ir.Node
	for _, w := range wrt {
		nodes = append(nodes, named(t, g, w))
	}
	d, err := grad.Of(named(t, g, "loss"), nodes...)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range d {
		if !n.Type.Equal(nodes[i].Type) {
			t.Errorf("gradient of %s is %v; want %v", wrt[i], n.Type, nodes[i].Type)
		}
		g.Return("d."+wrt[i], n)
	}
	if err := g.Verify(); err != nil {
		t.Fatal(err)
	}
	return g
}

const mlp = `
x = input : f32[16,3]
want = input : f32[16,2]
w1 = input : f32[8,3]
b1 = input : f32[8]
w2 = input : f32[2,8]
b2 = input : f32[2]
h = matmul x, w1 {trans_b=true} : f32[16,8]
h2 = add h, b1 : f32[16,8]
a = silu h2 : f32[16,8]
o = matmul a, w2 {trans_b=true} : f32[16,2]
o2 = add o, b2 : f32[16,2]
e = sub o2, want : f32[16,2]
q = mul e, e : f32[16,2]
loss = reduce_mean q {axes=[0,1]} : f32[]
return loss=loss`

// TestTrains trains a small network by gradient descent: the loss must fall to almost 0.
func TestTrains(t *testing.T) {
	params := []string{"w1", "b1", "w2", "b2"}
	g := differentiate(t, parse(t, mlp), params...)
	rng := rand.New(rand.NewPCG(1, 2))
	in := map[string]*tensor.Array{}
	for _, n := range g.Inputs() {
		in[n.Name] = interp.Random(rng, n.Type, nil, ir.Range{Lo: -1, Hi: 1})
	}
	for r := range 16 { // a function to learn
		x := in["x"].Floats[3*r:]
		in["want"].Floats[2*r], in["want"].Floats[2*r+1] = math.Tanh(x[0]-x[1]), 0.5*x[2]
	}
	var first, last float64
	for i := range 400 {
		out, err := interp.Run(g, nil, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		last = out["loss"].Floats[0]
		if i == 0 {
			first = last
		}
		for _, p := range params {
			for j, d := range out["d."+p].Floats {
				in[p].Floats[j] -= 0.3 * d
			}
		}
	}
	if last > 0.004 || last > first/50 {
		t.Errorf("the loss fell from %v to %v", first, last)
	}
}

// TestPaths tests where gradients go: values with several readers, values that depend on each other, and paths that
// integers, bools and constants stop.
func TestPaths(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       map[string]float64
	}{
		{"fan-out", `
x = input : f32[]
y = mul x, x : f32[]
z = mul y, x : f32[]
loss = add z, y : f32[]
return loss=loss`, map[string]float64{"x": 3*4 + 2*2, "y": 2 + 1, "z": 1, "loss": 1}},
		{"stopped", `
x = input : f32[]
i = cast x {to=i32} : i32[]
y = cast i {to=f32} : f32[]
c = ge x, y : bool[]
z = mul y, x : f32[]
loss = where c, z, y : f32[]
return loss=loss`, map[string]float64{"x": 2, "y": 2}},
		{"unused", `
x = input : f32[]
y = mul x, x : f32[]
loss = const {value=3} : f32[]
return loss=loss`, map[string]float64{"x": 0, "y": 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name := range c.want {
				g := differentiate(t, parse(t, c.text), name)
				out, err := interp.Run(g, nil, map[string]*tensor.Array{"x": scalar(2)}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := out["d."+name].Floats[0]; got != c.want[name] {
					t.Errorf("d %s = %v; want %v", name, got, c.want[name])
				}
			}
		})
	}
}

func scalar(v float64) *tensor.Array {
	a := tensor.NewArray(dtype.F32)
	a.Floats[0] = v
	return a
}

// TestErrors tests the text of errors. One of a missing rule names the path to the loss.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		text string
		code diag.Code
		want string
	}{
		{"x = input : f32[3]\nloss = neg x : f32[3]\nreturn loss=loss", code.Gradient, "loss loss is f32[3]; want a float of rank 0"},
		{"x = input : i32[]\nloss = cast x {to=f32} : f32[]\nreturn loss=loss", code.Gradient, "x is i32[]; want a float type"},
		{"x = input : f32[4]\nr = welch_peaks x {nperseg=4, overlap=2, top=1, fs=1} : f32[2]\nloss = reduce_sum r {axes=[0]} : f32[]\n" +
			"return loss=loss", code.NoGradient, ""},
	} {
		g, err := ir.Parse(c.text)
		if err != nil {
			t.Log(err)
			continue
		}
		_, err = grad.Of(named(t, g, "loss"), named(t, g, "x"))
		if !errorsIs(err, c.code) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %s with %q", err, c.code, c.want)
		}
	}
	g := ir.NewGraph("g")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32))
	other := op.Input(ir.NewGraph("h"), "x", ir.TypeOf(dtype.F32))
	if _, err := grad.Of(x, other); !errorsIs(err, code.Gradient) {
		t.Error(err)
	}
}

func errorsIs(err error, c diag.Code) bool {
	got, ok := diag.CodeOf(err)
	return ok && got == c
}
