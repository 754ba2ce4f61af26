package hir_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
)

// The formulas in this file are loops over rows, in float64.
type vec = []float64

// product returns x·wᵀ + b for x [rows,in] and w [out,in]. b may be nil.
func product(x, w, b vec, in int) vec {
	out := len(w) / in
	y := make(vec, len(x)/in*out)
	for i := range y {
		if b != nil {
			y[i] = b[i%out]
		}
		for k := range in {
			y[i] += x[i/out*in+k] * w[i%out*in+k]
		}
	}
	return y
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
func silu(x float64) float64    { return x * sigmoid(x) }

func swiglu(x, up, gate, down, bu, bg, bd vec, in, hidden int) vec {
	u, g := product(x, up, bu, in), product(x, gate, bg, in)
	for i := range u {
		u[i] *= silu(g[i])
	}
	return product(u, down, bd, hidden)
}

func rmsNorm(x, gamma, beta vec, eps float64) vec {
	n := len(gamma)
	y := make(vec, len(x))
	for r := 0; r < len(x); r += n {
		mean := 0.0
		for _, v := range x[r : r+n] {
			mean += v * v / float64(n)
		}
		for i := range n {
			y[r+i] = x[r+i]/math.Sqrt(mean+eps)*gamma[i] + beta[i]
		}
	}
	return y
}

func plus(x, y vec) vec {
	z := make(vec, len(x))
	for i := range x {
		z[i] = x[i] + y[i]
	}
	return z
}

func same(t *testing.T, what string, got *tensor.Array, want vec, tol float64) {
	t.Helper()
	if err := interp.Compare(got, &tensor.Array{DType: got.DType, Shape: got.Shape, Floats: want},
		ir.Tolerance{Abs: tol, Rel: tol}); err != nil || len(want) != got.Len() {
		t.Errorf("%s: %v", what, err)
	}
}

// TestLinearBlocks compares blocks of linear layers with their formulas.
func TestLinearBlocks(t *testing.T) {
	build := func(types []ir.Type, f func(n []*ir.Node) *ir.Node) (in map[string]*tensor.Array, y *tensor.Array) {
		t.Helper()
		g := ir.NewGraph("g")
		g.Return("y", f(inputs(g, types...)))
		return run(t, g)
	}
	x := f32(2, 3, 4)
	in, y := build([]ir.Type{x, f32(5, 4), f32(5)}, func(n []*ir.Node) *ir.Node {
		return hir.LinearFused(n[0], n[1], n[2], "silu")
	})
	want := product(in["a"].Floats, in["b"].Floats, in["c"].Floats, 4)
	for i, v := range want {
		want[i] = silu(v)
	}
	same(t, "linear_fused", y, want, 1e-12)
	in, y = build([]ir.Type{x, f32(5, 4)}, func(n []*ir.Node) *ir.Node { return hir.LinearFused(n[0], n[1], nil, "") })
	same(t, "linear_fused without a bias", y, product(in["a"].Floats, in["b"].Floats, nil, 4), 1e-12)

	for _, part := range []int{0, 1} {
		in, y = build([]ir.Type{x, f32(5, 4), f32(3, 4), f32(5), f32(3)}, func(n []*ir.Node) *ir.Node {
			y0, y1 := hir.SharedLinearPair(n[0], hir.Projection{Weight: n[1], Bias: n[3]},
				hir.Projection{Weight: n[2], Bias: n[4]})
			return []*ir.Node{y0, y1}[part]
		})
		same(t, fmt.Sprint("shared_linear_pair, part ", part), y,
			product(in["a"].Floats, in[[]string{"b", "c"}[part]].Floats, in[[]string{"d", "e"}[part]].Floats, 4), 1e-12)
	}

	in, y = build([]ir.Type{x, f32(7, 4), f32(7, 4), f32(5, 7), f32(7), f32(7), f32(5)}, func(n []*ir.Node) *ir.Node {
		return hir.SwiGLU(n[0], hir.Projection{Weight: n[1], Bias: n[4]}, hir.Projection{Weight: n[2], Bias: n[5]},
			hir.Projection{Weight: n[3], Bias: n[6]})
	})
	same(
		t, "swiglu", y, swiglu(in["a"].Floats, in["b"].Floats, in["c"].Floats, in["d"].Floats, in["e"].Floats,
			in["f"].Floats, in["g"].Floats, 4, 7),
		1e-12)
	in, y = build([]ir.Type{x, f32(7, 4), f32(7, 4), f32(5, 7)}, func(n []*ir.Node) *ir.Node {
		return hir.SwiGLU(n[0], hir.Projection{Weight: n[1]}, hir.Projection{Weight: n[2]},
			hir.Projection{Weight: n[3]})
	})
	same(t, "swiglu without biases", y, swiglu(in["a"].Floats, in["b"].Floats, in["c"].Floats, in["d"].Floats, nil, nil,
		nil, 4, 7), 1e-12)

	in, y = build([]ir.Type{x, x, f32(4), f32(4)}, func(n []*ir.Node) *ir.Node {
		return hir.ResidualRmsNorm(n[0], n[1], n[2], n[3], 1e-3)
	})
	sum := plus(in["a"].Floats, in["b"].Floats)
	for i, v := range sum {
		sum[i] = float64(float32(v)) // as the op rounds it
	}
	same(t, "residual_rms_norm", y, rmsNorm(sum, in["c"].Floats, in["d"].Floats, 1e-3), 1e-12)
}

// TestCausalDepthwiseConv tests the convolution with a pad and with zeros before the first token. The second result is
// the pad for the tokens that follow.
func TestCausalDepthwiseConv(t *testing.T) {
	const batch, tokens, channels, taps = 2, 3, 5, 4
	for _, pad := range []bool{true, false} {
		for part := range 2 {
			g := ir.NewGraph("g")
			types := []ir.Type{f32(batch, tokens, channels), f32(channels, 1, 1, taps), f32(batch, taps-1, channels)}
			n := inputs(g, types[:map[bool]int{true: 3, false: 2}[pad]]...)
			n = append(n, nil)
			y, next := hir.CausalDepthwiseConv(n[0], n[1], n[2], true)
			g.Return("y", []*ir.Node{y, next}[part])
			in, got := run(t, g)
			z := func(b, i, c int) float64 { // the input of the convolution, with the pad first
				switch {
				case i >= taps-1:
					return in["a"].Floats[(b*tokens+i-taps+1)*channels+c]
				case pad:
					return in["c"].Floats[(b*(taps-1)+i)*channels+c]
				}
				return 0
			}
			var want vec
			for b := range batch {
				for i := range []int{tokens, taps - 1}[part] {
					for c := range channels {
						if part == 1 {
							want = append(want, z(b, tokens+i, c))
							continue
						}
						sum := 0.0
						for k := range taps {
							sum += z(b, i+k, c) * in["b"].Floats[c*taps+k]
						}
						want = append(want, silu(sum))
					}
				}
			}
			same(t, fmt.Sprintf("pad %v, result %d", pad, part), got, want, 1e-12)
		}
	}
}

// TestGatedDeltaRule compares both results with the recurrence.
func TestGatedDeltaRule(t *testing.T) {
	const tokens, groups, heads, n, m, eps = 4, 1, 2, 3, 5, 1e-2
	for part := range 2 {
		g := ir.NewGraph("g")
		x := inputs(g, f32(1, tokens, groups, n), f32(1, tokens, groups, n), f32(1, tokens, heads, m),
			f32(1, tokens, heads), f32(1, tokens, heads), f32(heads), f32(heads), f32(1, heads, n, m))
		o, final := hir.GatedDeltaRule(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], eps)
		g.Return("y", []*ir.Node{o, final}[part])
		in, got := run(t, g)
		read := make(vec, tokens*heads*m)
		state := append(vec{}, in["h"].Floats...)
		unit := func(x vec) vec {
			sum, y := eps, make(vec, n)
			for _, v := range x {
				sum += v * v
			}
			for i, v := range x {
				y[i] = v / math.Sqrt(sum)
			}
			return y
		}
		for i := range tokens {
			q, k := unit(in["a"].Floats[i*n:][:n]), unit(in["b"].Floats[i*n:][:n])
			for h := range heads {
				at, s := i*heads+h, state[h*n*m:][:n*m]
				decay := math.Exp(
					-math.Exp(in["f"].Floats[h]) * math.Log1p(math.Exp(in["d"].Floats[at]+in["g"].Floats[h])))
				for j := range m {
					have := 0.0
					for r := range n {
						s[r*m+j] *= decay
						have += s[r*m+j] * k[r]
					}
					step := sigmoid(in["e"].Floats[at]) * (in["c"].Floats[at*m+j] - have)
					for r := range n {
						s[r*m+j] += k[r] * step
						read[at*m+j] += s[r*m+j] * q[r] / math.Sqrt(n)
					}
				}
			}
		}
		same(t, fmt.Sprint("result ", part), got, []vec{read, state}[part], 1e-6) // the gain 1/√N is rounded to f32
	}
}

// TestLlamaDecoderBlock compares the layer with its formula. Heads are grouped; attention has a mask, or is causal,
// with or without a window.
func TestLlamaDecoderBlock(t *testing.T) {
	const tokens, heads, kvHeads, d, hidden, eps = 4, 4, 2, 6, 9, 1e-3
	const width, kv = 8, kvHeads * d
	for mask, window := range map[string]int{op.MaskCausal: tokens, op.MaskSliding: 1, op.MaskBias: tokens} {
		g := ir.NewGraph("g")
		types := []ir.Type{f32(1, tokens, width), f32(width), f32(width), f32(heads*d, width), f32(kv, width),
			f32(kv, width), f32(width, heads*d), f32(width), f32(width), f32(hidden, width), f32(hidden, width),
			f32(width, hidden), f32(tokens+2, d/2), f32(tokens+2, d/2), f32(1, 1, tokens, tokens)}
		attrs := hir.LlamaDecoderBlockAttrs{Heads: heads, KVHeads: kvHeads, Eps: eps, Mask: mask}
		if mask == op.MaskSliding {
			attrs.Window = window
		}
		if mask != op.MaskBias {
			types = types[:14]
		}
		g.Return("y", hir.LlamaDecoderBlock(attrs, inputs(g, types...)...))
		in, got := run(t, g)
		v := func(i int) vec { return in[string(rune('a'+i))].Floats }
		turn := func(x vec, n int) vec {
			y := append(vec{}, x...)
			for r := 0; r < len(x); r += d {
				for i := range d / 2 {
					c, s := v(12)[r/d/n*d/2+i], v(13)[r/d/n*d/2+i]
					y[r+i], y[r+i+d/2] = x[r+i]*c-x[r+i+d/2]*s, x[r+i+d/2]*c+x[r+i]*s
				}
			}
			return y
		}
		a := rmsNorm(v(0), v(1), v(2), eps)
		q, k, value := turn(product(a, v(3), nil, width), heads), turn(product(a, v(4), nil, width), kvHeads),
			product(a, v(5), nil, width)
		o := make(vec, tokens*heads*d)
		for i := range tokens {
			for h := range heads {
				total := 0.0
				for j := range tokens {
					if mask != op.MaskBias && (j > i || j < i-window) {
						continue
					}
					s, at := 0.0, (j*kvHeads+h*kvHeads/heads)*d
					for e := range d {
						s += q[(i*heads+h)*d+e] * k[at+e] / math.Sqrt(d)
					}
					if mask == op.MaskBias {
						s += v(14)[i*tokens+j]
					}
					total += math.Exp(s)
					for e := range d {
						o[(i*heads+h)*d+e] += math.Exp(s) * value[at+e]
					}
				}
				for e := range d {
					o[(i*heads+h)*d+e] /= total
				}
			}
		}
		x := plus(v(0), product(o, v(6), nil, heads*d))
		x = plus(x, swiglu(rmsNorm(x, v(7), v(8), eps), v(10), v(9), v(11), nil, nil, nil, width, hidden))
		same(t, mask, got, x, 1e-9)
	}
}

// TestQwen35MTPHead compares the head with Transformers, for one sequence and for two that need different rows.
func TestQwen35MTPHead(t *testing.T) {
	const dir = "../../testdata/goldens/qwen35_mtp/"
	weights := map[string]*tensor.Array{}
	es, err := synth.ReadManifest(filepath.Join(dir, "manifest_bias.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		a := tensortest.F32(e.Shape, synth.Tensor(e.Name, e.Shape, e.Scale, e.Shift))
		if strings.HasPrefix(e.Name, "mtp") && len(e.Shape) == 1 && strings.HasSuffix(e.Name, "weight") {
			for i := range a.Floats {
				a.Floats[i]++ // gains are stored minus 1
			}
		}
		weights[e.Name] = a
	}
	order := []string{"model.language_model.embed_tokens.weight"}
	add := func(names ...string) {
		for _, n := range names {
			order = append(order, "mtp."+n)
		}
	}
	norm := func(n string) { add(n+".weight", n+".bias") }
	norm("pre_fc_norm_hidden")
	norm("pre_fc_norm_embedding")
	add("fc.weight")
	norm("layers.0.input_layernorm")
	add("layers.0.self_attn.q_proj.weight", "layers.0.self_attn.k_proj.weight", "layers.0.self_attn.v_proj.weight")
	norm("layers.0.self_attn.q_norm")
	norm("layers.0.self_attn.k_norm")
	add("layers.0.self_attn.o_proj.weight")
	norm("layers.0.post_attention_layernorm")
	add("layers.0.mlp.gate_proj.weight", "layers.0.mlp.up_proj.weight", "layers.0.mlp.down_proj.weight")
	norm("norm")
	order = append(order, "lm_head.weight")

	for _, c := range []struct {
		name       string
		batch, seq int
	}{{"a.", 1, 5}, {"b.", 2, 4}} {
		golden := func(name string) *tensor.Array {
			return tensortest.Golden(t, dir+"golden.safetensors:"+c.name+name)
		}
		shape := []int{c.batch, c.seq, 48}
		operands := []*tensor.Array{tensortest.F32(shape, synth.Tensor("qwen35_mtp."+c.name+"hidden", shape, 1.7, 0)),
			golden("input_ids"), golden("cos"), golden("sin"), golden("last_token_idx")}
		for _, n := range order {
			operands = append(operands, weights[n])
		}
		g := ir.NewGraph("g")
		var nodes []*ir.Node
		in := map[string]*tensor.Array{}
		for i, a := range operands {
			name := fmt.Sprint("x", i)
			nodes, in[name] = append(nodes, op.Input(g, name, interp.TypeOf(a))), a
		}
		g.Return("y", hir.Qwen35MTPHead(hir.Qwen35MTPHeadAttrs{Heads: 4, KVHeads: 2, Rotated: 8, Eps: 1e-6}, nodes...))
		out, err := interp.Run(g, nil, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		tensortest.Near(t, c.name, out["y"], golden("bias.logits"), 1e-6)
	}
}

// doubled is a block that another package might define. It has a name and a lowering.
var doubled = ir.Define(ir.Def[op.NoAttrs]{
	Name: "test_doubled", Operands: "x", Block: true, Doc: "2x",
	Infer: func(s ir.Sig[op.NoAttrs]) (ir.Type, error) {
		if !s.In[0].DType.IsFloat() {
			return ir.Type{}, fmt.Errorf("x is %v; want floats", s.In[0])
		}
		return s.In[0], nil
	},
})

var _ = ir.Lower(doubled, func(_ *ir.Graph, _ *ir.Node, in []*ir.Node) *ir.Node { return op.Add(in[0], in[0]) })

// TestExtension checks that a block defined elsewhere can be found by its name, is evaluated by its lowering, and
// checks its operands.
func TestExtension(t *testing.T) {
	g, err := ir.Parse("graph g\na = input : f32[3]\ny = test_doubled a : f32[3]\nreturn y=y\n")
	if err != nil {
		t.Fatal(err)
	}
	in, y := run(t, g)
	same(t, "doubled", y, plus(in["a"].Floats, in["a"].Floats), 0)
	if _, err := ir.Parse("graph g\na = input : i32[3]\ny = test_doubled a : i32[3]\nreturn y=y\n"); err == nil ||
		!strings.Contains(err.Error(), "test_doubled: x is i32[3]; want floats") {
		t.Errorf("error %v", err)
	}
}

// TestBlockErrors checks that errors name the block and the operand, and say what was found and what is allowed.
func TestBlockErrors(t *testing.T) {
	decoder := func(change func(types []ir.Type)) func(g *ir.Graph) {
		return func(g *ir.Graph) {
			types := []ir.Type{f32(1, 3, 8), f32(8), f32(8), f32(12, 8), f32(6, 8), f32(6, 8), f32(8, 12), f32(8),
				f32(8), f32(9, 8), f32(9, 8), f32(8, 9), f32(5, 3), f32(5, 3)}
			change(types)
			hir.LlamaDecoderBlock(hir.LlamaDecoderBlockAttrs{Heads: 2, KVHeads: 1, Mask: op.MaskCausal},
				inputs(g, types...)...)
		}
	}
	window := func(a hir.LlamaDecoderBlockAttrs) func(g *ir.Graph) {
		return func(g *ir.Graph) {
			a.Heads, a.KVHeads = 2, 1
			hir.LlamaDecoderBlock(a, inputs(g, f32(1, 3, 8), f32(8), f32(8), f32(12, 8), f32(6, 8), f32(6, 8),
				f32(8, 12), f32(8), f32(8), f32(9, 8), f32(9, 8), f32(8, 9), f32(5, 3), f32(5, 3))...)
		}
	}
	for _, c := range []struct {
		want  string
		build func(g *ir.Graph)
	}{
		{`llama_decoder_block: window is 2 with mask "causal"; want 0 or more, and 0 unless the mask is sliding`,
			window(hir.LlamaDecoderBlockAttrs{Mask: op.MaskCausal, Window: 2})},
		{`llama_decoder_block: window is -1 with mask "sliding"; want 0 or more`,
			window(hir.LlamaDecoderBlockAttrs{Mask: op.MaskSliding, Window: -1})},
		{`llama_decoder_block: mask is "bias"; want none, causal or sliding without the operand mask`,
			window(hir.LlamaDecoderBlockAttrs{Mask: op.MaskBias})},
		{"linear_fused: w is f32[4,7]; want a float matrix [out, 8]", func(g *ir.Graph) {
			n := inputs(g, f32(2, 8), f32(4, 7))
			hir.LinearFused(n[0], n[1], nil, "")
		}},
		{"shared_linear_pair: w1 is f32[4,7]; want a float matrix [out, 8]", func(g *ir.Graph) {
			n := inputs(g, f32(2, 8), f32(4, 8), f32(4, 7))
			hir.SharedLinearPair(n[0], hir.Projection{Weight: n[1]}, hir.Projection{Weight: n[2]})
		}},
		{"swiglu: up_w is f32[4,8] and gate_w f32[5,8]; want as many rows", func(g *ir.Graph) {
			n := inputs(g, f32(2, 8), f32(4, 8), f32(5, 8), f32(8, 4))
			hir.SwiGLU(n[0], hir.Projection{Weight: n[1]}, hir.Projection{Weight: n[2]}, hir.Projection{Weight: n[3]})
		}},
		{"residual_rms_norm: res is f32[3,8]; want floats of [2,8]", func(g *ir.Graph) {
			n := inputs(g, f32(2, 8), f32(3, 8), f32(8), f32(8))
			hir.ResidualRmsNorm(n[0], n[1], n[2], n[3], 0)
		}},
		{"causal_depthwise_conv: w is f32[4,2,3]; want floats of [4,1,K]", func(g *ir.Graph) {
			n := inputs(g, f32(1, 2, 4), f32(4, 2, 3))
			hir.CausalDepthwiseConv(n[0], n[1], nil, false)
		}},
		{"gated_delta_rule: bias is f32[3]; want floats of [2]", func(g *ir.Graph) {
			n := inputs(g, f32(1, 3, 1, 4), f32(1, 3, 1, 4), f32(1, 3, 2, 5), f32(1, 3, 2), f32(1, 3, 2), f32(2),
				f32(3))
			hir.GatedDeltaRule(n[0], n[1], n[2], n[3], n[4], n[5], n[6], nil, 0)
		}},
		{"llama_decoder_block: wk is f32[7,8]; want floats of [6,8]",
			decoder(func(types []ir.Type) { types[4] = f32(7, 8) })},
		{"llama_decoder_block: sin is f32[5,4]; want floats of [5,3]",
			decoder(func(types []ir.Type) { types[13] = f32(5, 4) })},
		{"llama_decoder_block: wq is f32[10,8]; want floats with 4 rows, or a multiple of them",
			decoder(func(types []ir.Type) { types[3] = f32(10, 8) })},
		{"qwen35_mtp_head: ids is f32[1,3]; want integers of [1,3]", func(g *ir.Graph) {
			types := []ir.Type{f32(1, 3, 8), f32(1, 3)}
			for len(types) < 29 {
				types = append(types, f32(8))
			}
			var n []*ir.Node
			for i, typ := range types {
				n = append(n, op.Input(g, fmt.Sprint("x", i), typ))
			}
			hir.Qwen35MTPHead(hir.Qwen35MTPHeadAttrs{Heads: 2, KVHeads: 1, Rotated: 2}, n...)
		}},
	} {
		g := ir.NewGraph("g")
		_ = g.Build(func() { c.build(g) })
		if g.Err() == nil || !strings.Contains(g.Err().Error(), c.want) {
			t.Errorf("error %v; want %q", g.Err(), c.want)
		}
	}
}
