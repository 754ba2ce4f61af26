package grad_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/grad"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// layers is a transformer of 8 layers without positions, in text form. Its gradient keeps the result of each layer if
// checkpoints is set. tokens and width are sizes.
func layers(tokens, width int, checkpoints bool) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	row := fmt.Sprintf("f32[%d,%d]", tokens, width)
	wide := fmt.Sprintf("f32[%d,%d]", tokens, 4*width)
	line("graph layers\nx = input : %s\ngain = input : f32[%d]\nzero = const : f32[%d]", row, width, width)
	var wrt, types, keep []string
	weight := func(name string, n, k int) {
		line("%s = input : f32[%d,%d]", name, n, k)
		wrt, types = append(wrt, name), append(types, fmt.Sprintf("f32[%d,%d]", n, k))
	}
	at := "x"
	for i := range 8 {
		p := fmt.Sprint("l", i)
		weight(p+"q", width, width)
		weight(p+"up", 4*width, width)
		weight(p+"down", width, 4*width)
		line("%sn = rms_norm %s, gain, zero {eps=1e-6} : %s", p, at, row)
		line("%sk = matmul %sn, %sq {trans_b=true} : %s", p, p, p, row)
		line("%ss = matmul %sk, %sn {trans_b=true} : f32[%d,%d]", p, p, p, tokens, tokens)
		line("%sp = softmax %ss {axis=1} : f32[%d,%d]", p, p, tokens, tokens)
		line("%so = matmul %sp, %sn : %s", p, p, p, row)
		line("%sr = add %s, %so : %s", p, at, p, row)
		line("%su = matmul %sr, %sup {trans_b=true} : %s", p, p, p, wide)
		line("%sa = silu %su : %s", p, p, wide)
		line("%sd = matmul %sa, %sdown {trans_b=true} : %s", p, p, p, row)
		line("%sy = add %sr, %sd : %s", p, p, p, row)
		at = p + "y"
		keep = append(keep, at)
	}
	line("q = mul %s, %s : %s\nloss = reduce_mean q {axes=[0,1]} : f32[]", at, at, row)
	var results, returned []string
	for _, w := range wrt {
		results, returned = append(results, "d"+w), append(returned, "d"+w+"=d"+w)
	}
	if checkpoints {
		line("%s = grad(loss; %s) {checkpoints=%d} : %s", strings.Join(results, ", "),
			strings.Join(append(wrt, keep...), ", "), len(keep), strings.Join(types, ", "))
	} else {
		line("%s = grad(loss; %s) : %s", strings.Join(results, ", "), strings.Join(wrt, ", "),
			strings.Join(types, ", "))
	}
	line("return loss=loss, %s", strings.Join(returned, ", "))
	return b.String()
}

// TestCheckpoints checks that gradients with values computed again have the same bits, and that each segment is
// computed again once, but for the last.
func TestCheckpoints(t *testing.T) {
	var results []map[string]*tensor.Array
	count := func(g *ir.Graph, def *ir.OpDef) (n int) {
		for _, x := range g.Nodes {
			if x.Op == def {
				n++
			}
		}
		return n
	}
	var softmaxes []int
	for _, checkpoints := range []bool{false, true} {
		g := parse(t, layers(5, 8, checkpoints))
		low, err := g.LowerBlocks(nil)
		if err == nil {
			err = low.Verify()
		}
		if err != nil {
			t.Fatal(err)
		}
		softmaxes = append(softmaxes, count(low, op.SoftmaxDef))
		rng := rand.New(rand.NewPCG(4, 4))
		in := map[string]*tensor.Array{}
		for _, n := range g.Inputs() {
			in[n.Name] = interp.Random(rng, n.Type, nil, ir.Range{Lo: -1, Hi: 1})
		}
		out, err := interp.Run(g, nil, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, out)
	}
	if want := []int{8, 8 + 7}; fmt.Sprint(softmaxes) != fmt.Sprint(want) {
		t.Errorf("%v softmaxes; want %v", softmaxes, want)
	}
	for name, want := range results[0] {
		if err := interp.Compare(results[1][name], want, ir.Tolerance{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	g := parse(t, "x = input : f32[]\ny = mul x, x : f32[]\nreturn y=y")
	h := parse(t, "x = input : f32[]\ny = mul x, x : f32[]\nreturn y=y")
	if _, err := grad.Checkpointed(g.Nodes[1], h.Nodes[:1], g.Nodes[0]); err == nil {
		t.Error("a cut of another graph is taken")
	}
}
