package grad_test

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// steep rounds, and has a gradient of its own: that of the identity, times an attribute.
const steep = `op acme.steep
attr slope = 1.0

graph expansion
sym N = 1..64
x = input : f32[N]
y = round x : f32[N]
return y=y

graph gradient
sym N = 1..64
x = input : f32[N]
dy = input : f32[N]
s = const {value=$slope} : f32[]
dx = mul dy, s : f32[N]
return dx=dx
`

// TestCustomGradient tests the gradient rule of a custom op, and that one without a rule is differentiated through its
// expansion.
func TestCustomGradient(t *testing.T) {
	for _, c := range []struct {
		definition, node string
		want             float64
	}{
		{steep, "acme.steep x", 1}, {steep, "acme.steep x {slope=3.0}", 3},
		{strings.Replace(steep, "return dx=dx", "return dx=dy", 1), "acme.steep x {slope=3.0}", 1},
		{steep[:strings.Index(steep, "graph gradient")], "acme.steep x", 0},
	} {
		var l custom.Library
		if err := l.Parse("steep.rlxop", c.definition); err != nil {
			t.Fatal(err)
		}
		list, err := ir.ParseAll("graph main\nx = input : f32[3]\ny = "+c.node+" : f32[3]\n"+
			"loss = reduce_sum y {axes=[0]} : f32[]\nd = grad(loss; x) : f32[3]\nreturn d=d", ir.Limits{Unknown: l.Resolve})
		if err != nil {
			t.Fatal(err)
		}
		g := list[0]
		if again, err := ir.Parse(g.String()); err != nil || again.String() != g.String() {
			t.Errorf("%v\n%s", err, g)
		}
		x := tensor.NewArray(g.Inputs()[0].Type.DType, 3)
		copy(x.Floats, []float64{0.25, 1.75, -3})
		out, err := interp.Run(g, nil, map[string]*tensor.Array{"x": x}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range out["d"].Floats {
			if got != c.want {
				t.Errorf("%s: %v; want %v", c.node, out["d"].Floats, c.want)
				break
			}
		}
	}
	for _, c := range []struct{ old, new, want string }{
		{"dx = mul dy, s : f32[N]", "z = mul dy, s : f32[N]\ndx = cast z {to=f16} : f16[N]", "line 10: custom: acme.steep: gradient: output dx is f16[1]; want f32[1]"},
		{"dy = input : f32[N]\n", "dy = input : f32[N]\nmore = input : f32[N]\n", "gradient: "},
		{"return dx=dx", "return dx=dx, more=dx", "has 2 outputs; want 1"},
		{"graph gradient", "graph gradient\nsym N = 1..64\nx = input : f32[N]\nreturn x=x\n\ngraph gradient", "has two gradients"},
	} {
		var l custom.Library
		err := l.Parse("steep.rlxop", strings.Replace(steep, c.old, c.new, 1))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v; want %q", c.new, err, c.want)
		}
	}
}
