package grad_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestSymbols tests rules whose shapes are known only at run time, beside central differences.
func TestSymbols(t *testing.T) {
	for _, text := range []string{
		"y = narrow x {axis=0, start=1, len=2} : f32[2,3]\nz = mul y, y : f32[2,3]\nloss = reduce_sum z {axes=[0,1]} : f32[]",
		"y = concat x, w, x {axis=0} : f32[2*N+2,3]\nz = mul y, y : f32[2*N+2,3]\nloss = reduce_mean z {axes=[0,1]} : f32[]",
		"y = pad x {before=[2,0], after=[1,1]} : f32[N+3,4]\nz = exp y : f32[N+3,4]\nloss = reduce_sum z {axes=[0,1]} : f32[]",
		"y = matmul x, w {trans_b=true} : f32[N,2]\nz = softmax y {axis=0} : f32[N,2]\nq = mul z, y : f32[N,2]\nloss = reduce_mean q {axes=[0,1]} : f32[]",
		"i = const {value=1} : i32[]\ny = dynamic_slice x, i {axis=0, len=2} : f32[2,3]\nz = mul y, w : f32[2,3]\nloss = reduce_sum z {axes=[0,1]} : f32[]",
		"y = reduce_prod x {axes=[0,1]} : f32[]\nz = reduce_max x {axes=[0,1]} : f32[]\nloss = mul y, z : f32[]",
		"y, i = sort x {axis=0} : f32[N,3], i32[N,3]\nz = narrow y {axis=0, len=1} : f32[1,3]\nloss = reduce_sum z {axes=[0,1]} : f32[]",
		"i = argmax x {axis=1, keep_dims=true} : i32[N,1]\ny = gather_batched x, i {batch_dims=1} : f32[N,1]\nz = mul y, y : f32[N,1]\n" +
			"loss = reduce_sum z {axes=[0,1]} : f32[]",
		"y = cumprod x {axis=0} : f32[N,3]\nz = cumprod x {axis=0, exclusive=true, reverse=true} : f32[N,3]\nv = mul y, z : f32[N,3]\n" +
			"loss = reduce_sum v {axes=[0,1]} : f32[]",
		"y = cummax x {axis=0, reverse=true} : f32[N,3]\nz = mul x, y : f32[N,3]\nloss = reduce_sum z {axes=[0,1]} : f32[]",
		"p = const : f32[1,2,3]\nk = const {value=0.5} : f32[3,3]\nb = reshape x : f32[1,N,3]\n" +
			"y, n = causal_conv1d b, k, pad=p {silu=true} : f32[1,N,3], f32[1,2,3]\nz = mul n, n : f32[1,2,3]\nu = reduce_sum z {axes=[0,1,2]} : f32[]\n" +
			"v = reduce_sum y {axes=[0,1,2]} : f32[]\nloss = add u, v : f32[]",
	} {
		g := parse(t, "graph g\nsym N = 3..9\nx = input : f32[N,3]\nw = input : f32[2,3]\n"+text+
			"\ndx, dw = grad(loss; x, w) : f32[N,3], f32[2,3]\nreturn loss=loss, dx=dx, dw=dw")
		low, err := g.LowerBlocks(nil)
		if err == nil {
			err = low.Verify()
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		syms := map[string]int64{"N": 5}
		rng := rand.New(rand.NewPCG(1, 1))
		in := map[string]*tensor.Array{}
		for _, n := range g.Inputs() {
			in[n.Name] = interp.Random(rng, n.Type, syms, ir.Range{Lo: 0.5, Hi: 1.5})
		}
		run := func() map[string]*tensor.Array {
			out, err := interp.Run(low, syms, in, nil)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			return out
		}
		got := run()
		for name, v := range in {
			for i, x := range v.Floats {
				v.Floats[i] = x + step
				high := run()["loss"].Floats[0]
				v.Floats[i] = x - step
				low := run()["loss"].Floats[0]
				v.Floats[i] = x
				want, d := (high-low)/(2*step), got["d"+name].Floats[i]
				if !(math.Abs(want-d) <= 1e-6*(1+math.Abs(high))) {
					t.Errorf("%s: d%s[%d] is %v; central differences give %v", text, name, i, d, want)
					break
				}
			}
		}
	}
}
