package hir_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

func f32(dims ...int64) ir.Type { return ir.TypeOf(dtype.F32, dims...) }

// run evaluates a graph with random values for its inputs a, b, c, .... It returns the inputs and the output y.
func run(t *testing.T, g *ir.Graph) (in map[string]*tensor.Array, y *tensor.Array) {
	t.Helper()
	if err := g.Err(); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	in = map[string]*tensor.Array{}
	for _, n := range g.Inputs() {
		in[n.Name] = interp.Random(rng, n.Type, nil, ir.Range{Lo: -1, Hi: 1})
	}
	out, err := interp.Run(g, nil, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return in, out["y"]
}

func inputs(g *ir.Graph, types ...ir.Type) []*ir.Node {
	var out []*ir.Node
	for i, t := range types {
		out = append(out, op.Input(g, string(rune('a'+i)), t))
	}
	return out
}

// TestSAMAttention compares the block with its formula, which is written as loops over windows, padding tokens and
// relative positions.
func TestSAMAttention(t *testing.T) {
	const gh, gw, heads, d = 5, 4, 2, 3
	const c = heads * d
	for _, window := range []int{0, 2, 3, 4, 7} {
		wh, ww := gh, gw
		if window > 0 {
			wh, ww = window, window
		}
		g := ir.NewGraph("g")
		n := inputs(g, f32(1, gh, gw, c), f32(3*c, c), f32(3*c), f32(int64(2*wh-1), d), f32(int64(2*ww-1), d),
			f32(c, c), f32(c))
		g.Return(
			"y", hir.SAMAttention(n[0], n[1], n[2], n[3], n[4], n[5], n[6],
				hir.SAMAttentionAttrs{Heads: heads, Window: window}))
		in, y := run(t, g)
		x, wqkv, bqkv, rh, rw, wp, bp := in["a"].Floats, in["b"].Floats, in["c"].Floats, in["d"].Floats, in["e"].Floats,
			in["f"].Floats, in["g"].Floats
		qkv := func(yy, xx, j int) float64 { // of a token or of padding
			sum := bqkv[j]
			if yy < gh && xx < gw {
				for k := range c {
					sum += x[(yy*gw+xx)*c+k] * wqkv[j*c+k]
				}
			}
			return sum
		}
		for qy := range gh {
			for qx := range gw {
				oy, ox := qy/wh*wh, qx/ww*ww // the origin of the window
				var attended [c]float64
				for h := range heads {
					var total float64
					var acc [d]float64
					for ky := oy; ky < oy+wh; ky++ {
						for kx := ox; kx < ox+ww; kx++ {
							var s float64
							for k := range d {
								q := qkv(qy, qx, h*d+k)
								s += q*qkv(ky, kx, c+h*d+k)/math.Sqrt(d) + q*rh[(qy-ky+wh-1)*d+k] +
									q*rw[(qx-kx+ww-1)*d+k]
							}
							p := math.Exp(s)
							total += p
							for k := range d {
								acc[k] += p * qkv(ky, kx, 2*c+h*d+k)
							}
						}
					}
					for k := range d {
						attended[h*d+k] = acc[k] / total
					}
				}
				for j := range c {
					want := bp[j]
					for k := range c {
						want += attended[k] * wp[j*c+k]
					}
					// The scale 1/√D is a constant of the graph and is rounded to f32.
					if got := y.Floats[(qy*gw+qx)*c+j]; math.Abs(got-want) > 1e-7 {
						t.Fatalf("window %d, token (%d,%d), channel %d: %v, want %v", window, qy, qx, j, got, want)
					}
				}
			}
		}
	}
}

// TestPatchEmbed compares the block with the convolution that it replaces.
func TestPatchEmbed(t *testing.T) {
	g := ir.NewGraph("g")
	n := inputs(g, f32(2, 3, 12, 8), f32(5, 3, 4, 4), f32(5))
	g.Return("y", hir.PatchEmbed(n[0], n[1], n[2]))
	in, y := run(t, g)

	ref := ir.NewGraph("g")
	n = inputs(ref, f32(2, 3, 12, 8), f32(5, 3, 4, 4), f32(5))
	ref.Return(
		"y", op.Transpose(op.Conv2D(n[0], n[1], n[2], op.ConvAttrs{Stride: []int{4, 4}, Layout: op.NCHW}), 0, 2, 3, 1))
	want, err := interp.Run(ref, nil, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := interp.Compare(y, want["y"], ir.Tolerance{Abs: 1e-12}); err != nil {
		t.Error(err)
	}
}

// TestLayerNorm2d compares both layouts with the definition.
func TestLayerNorm2d(t *testing.T) {
	for _, layout := range []string{"nchw", "nhwc"} {
		shape, at := []int64{2, 5, 3, 4}, func(b, c, p int) int { return (b*5+c)*12 + p }
		if layout == "nhwc" {
			shape, at = []int64{2, 3, 4, 5}, func(b, c, p int) int { return (b*12+p)*5 + c }
		}
		g := ir.NewGraph("g")
		n := inputs(g, f32(shape...), f32(5), f32(5))
		g.Return("y", hir.LayerNorm2d(n[0], n[1], n[2], 1e-3, layout))
		in, y := run(t, g)
		x := in["a"].Floats
		for b := range 2 {
			for p := range 12 {
				var mean, variance float64
				for c := range 5 {
					mean += x[at(b, c, p)] / 5
				}
				for c := range 5 {
					variance += (x[at(b, c, p)] - mean) * (x[at(b, c, p)] - mean) / 5
				}
				for c := range 5 {
					want := (x[at(b, c, p)]-mean)/math.Sqrt(variance+1e-3)*in["b"].Floats[c] + in["c"].Floats[c]
					if got := y.Floats[at(b, c, p)]; math.Abs(got-want) > 1e-12 {
						t.Fatalf("%s at %d,%d,%d: %v, want %v", layout, b, c, p, got, want)
					}
				}
			}
		}
	}
}

// TestErrors checks that a block whose operands do not fit reports what it found and what it needs.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		want  string
		build func(g *ir.Graph)
	}{
		{"linear: w is f32[4,7]; want a float matrix [out, 8]", func(g *ir.Graph) {
			n := inputs(g, f32(2, 8), f32(4, 7))
			hir.Linear(n[0], n[1], nil, "")
		}},
		{"linear: w is f32[4,7]; want", func(g *ir.Graph) { // a scalar has no last axis
			n := inputs(g, f32(), f32(4, 7))
			hir.Linear(n[0], n[1], nil, "")
		}},
		{`linear: act is "swish"`, func(g *ir.Graph) {
			n := inputs(g, f32(2, 8), f32(4, 8))
			hir.Linear(n[0], n[1], nil, "swish")
		}},
		{"mlp: b1 is f32[9]; want a float vector of 4", func(g *ir.Graph) {
			n := inputs(g, f32(2, 8), f32(4, 8), f32(9), f32(8, 4), f32(8))
			hir.MLP(n[0], n[1], n[2], n[3], n[4], "gelu")
		}},
		{"patch_embed: patches of 5 do not tile f32[1,3,12,12]", func(g *ir.Graph) {
			n := inputs(g, f32(1, 3, 12, 12), f32(4, 3, 5, 5), f32(4))
			hir.PatchEmbed(n[0], n[1], n[2])
		}},
		{"sam_attention: rel_h is f32[4,2]; want floats of [5,2]", func(g *ir.Graph) {
			n := inputs(g, f32(1, 3, 3, 4), f32(12, 4), f32(12), f32(4, 2), f32(5, 2), f32(4, 4), f32(4))
			hir.SAMAttention(n[0], n[1], n[2], n[3], n[4], n[5], n[6], hir.SAMAttentionAttrs{Heads: 2})
		}},
		{"sam_attention: 3 heads over 4 channels", func(g *ir.Graph) {
			n := inputs(g, f32(1, 3, 3, 4), f32(12, 4), f32(12), f32(5, 2), f32(5, 2), f32(4, 4), f32(4))
			hir.SAMAttention(n[0], n[1], n[2], n[3], n[4], n[5], n[6], hir.SAMAttentionAttrs{Heads: 3})
		}},
		{"multihead_attention: 3 heads do not divide the inner width 4", func(g *ir.Graph) {
			n := inputs(g, f32(1, 5, 8), f32(4, 8), f32(4), f32(8, 4), f32(8))
			p := hir.Projection{Weight: n[1], Bias: n[2]}
			hir.MultiheadAttention(n[0], n[0], n[0], 3, p, p, p, hir.Projection{Weight: n[3], Bias: n[4]})
		}},
	} {
		g := ir.NewGraph("g")
		c.build(g)
		if g.Err() == nil || !strings.Contains(g.Err().Error(), c.want) {
			t.Errorf("error %v; want %q", g.Err(), c.want)
		}
	}
}
