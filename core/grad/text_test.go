package grad_test

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	_ "github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestText tests gradients in text graphs: both ways to write them, gradients of gradients, and gradients through
// blocks and control flow.
func TestText(t *testing.T) {
	const double = "graph double\nc = input : f32[]\nd = add c, c : f32[]\nreturn d=d\n" +
		"graph square\nc = input : f32[]\nd = mul c, c : f32[]\nreturn d=d\n" +
		"graph small\nc = input : f32[]\nl = const {value=20} : f32[]\nd = lt c, l : bool[]\nreturn d=d\n"
	for _, c := range []struct {
		name, text string
		want       float64 // of output y, for x = 3
	}{
		{"call", "loss = mul x, x : f32[]\ny = grad(loss; x) : f32[]", 6},
		{"plain", "loss = mul x, x : f32[]\ny = grad loss, x : f32[]", 6},
		{"second", "a = mul x, x : f32[]\nb = mul a, x : f32[]\nc = grad(b; x) : f32[]\ny = grad(c; x) : f32[]", 18},
		{"several", "a = mul x, x : f32[]\nb = mul a, x : f32[]\nc, d = grad(b; x, a) : f32[], f32[]\ny = add c, d : f32[]", 27 + 3},
		{"if", "z = const {value=0} : f32[]\np = gt x, z : bool[]\na = if p, x {then=@square, else=@double} : f32[]\ny = grad(a; x) : f32[]", 6},
		{"else", "z = const {value=0} : f32[]\np = lt x, z : bool[]\na = if p, x {then=@square, else=@double} : f32[]\ny = grad(a; x) : f32[]", 2},
		{"while", "a = while x {cond=@small, body=@square, max_iterations=3} : f32[]\ny = grad(a; x) : f32[]", 4 * 27},
		{"scan", "a = scan x {body=@square, length=3} : f32[]\ny = grad(a; x) : f32[]", 8 * 2187},
	} {
		t.Run(c.name, func(t *testing.T) {
			used := ""
			for _, b := range strings.Split(double, "graph ")[1:] {
				if name, _, _ := strings.Cut(b, "\n"); strings.Contains(c.text, "@"+name) {
					used += "graph " + b
				}
			}
			g := parse(t, used+"graph main\nx = input : f32[]\n"+c.text+"\nreturn y=y\n")
			again, err := ir.Parse(g.String())
			if err != nil || again.String() != g.String() {
				t.Errorf("%v:\n%s", err, g)
			}
			low, err := g.LowerBlocks(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range []*ir.Graph{g, low} {
				out, err := interp.Run(g, nil, map[string]*tensor.Array{"x": scalar(3)}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := out["y"].Floats[0]; got != c.want {
					t.Errorf("%v; want %v", got, c.want)
				}
			}
		})
	}
	for text, want := range map[string]string{
		"x = input : f32[2]\nd = grad(x; x) : f32[2]\nreturn d=d":                  "loss is f32[2]; want a float of rank 0",
		"x = input : f32[]\ni = input : i32[]\nd = grad(x; i) : i32[]\nreturn d=d": "wrt[0] is i32[]; want a float type",
		"x = input : f32[]\nd = grad(x) : f32[]\nreturn d=d":                       `unknown op "grad(x)"`,
		"x = input : f32[]\nd = grad(x; x; x) : f32[]\nreturn d=d":                 "unknown op",
		"x = input : f32[]\nd = grad(x; ) : f32[]\nreturn d=d":                     "unknown operand",
		"x = input : f32[]\nd = add(x; x) : f32[]\nreturn d=d":                     "unknown op",
		"x = input : f32[]\nd, e = grad(x; x) : f32[], f32[]\nreturn d=d":          "1 results",
	} {
		if _, err := ir.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

// FuzzText checks that differentiating a graph in text form never panics, and gives a valid graph or a typed error.
func FuzzText(f *testing.F) {
	f.Add("x = input : f32[]\nloss = mul x, x : f32[]\ny = grad(loss; x) : f32[]\nreturn y=y")
	f.Add(strings.TrimSpace(mlp))
	f.Add("x = input : f32[3]\nv, i = top_k x {k=2} : f32[2], i32[2]\nloss = reduce_sum v {axes=[0]} : f32[]\ny = grad loss, x : f32[3]\nreturn y=y")
	f.Add("sym N = 1..9\nx = input : f32[N]\np = narrow x {axis=0, start=0, len=1} : f32[1]\nloss = reduce_prod p {axes=[0]} : f32[]\n" +
		"y = grad(loss; x) : f32[N]\nreturn y=y")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ir.Parse(text)
		if err != nil || g.Verify() != nil {
			return
		}
		low, err := g.LowerBlocks(nil)
		if err == nil {
			err = low.Verify()
		}
		if err != nil && strings.Contains(err.Error(), "BUG") {
			t.Error(err)
		}
	})
}

// TestMissingRule tests the error of an op without a rule: it has the op, the node and the path to the loss.
func TestMissingRule(t *testing.T) {
	g := parse(t, `
s = state : f32[4]
x = input : f32[2]
at = const : i32[]
k = kv_append s, x, at : f32[4]
q = mul k, k : f32[4]
loss = reduce_sum q {axes=[0]} : f32[]
d = grad(loss; x) : f32[2]
return d=d`)
	_, err := g.LowerBlocks(nil)
	for _, want := range []string{"kv_append", "k (kv_append) -> q (mul) -> loss (reduce_sum)"} {
		if err == nil || !strings.Contains(err.Error(), want) || !errorsIs(err, code.NoGradient) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
