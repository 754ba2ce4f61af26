package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// GridAttentionAttrs are the attributes of grid_attention.
type GridAttentionAttrs struct {
	Heads  int     `attr:"heads"`  // H
	Window int     `attr:"window"` // side of the square windows; 0 means one window, the whole grid
	Scale  float64 `attr:"scale"`  // 0 means 1/sqrt(D)
}

// Optional operands of grid_attention: the relative positions.
const (
	GridAttentionRH = 2 + iota
	GridAttentionRW
)

// GridShape has the sizes of a grid attention.
type GridShape struct {
	B          ir.Dim
	GH, GW     int64 // the grid
	WH, WW     int64 // a window
	NH, NW     int64 // windows per axis; the last ones may extend beyond the edge
	Heads, D   int64
	Positional bool // rh and rw are given
}

// GridAttentionDef defines self-attention inside windows of a grid.
var GridAttentionDef = ir.Define(ir.Def[GridAttentionAttrs]{
	Name: "grid_attention",
	Doc: "Self-attention of tokens on a grid inside square windows, with decomposed relative positions (Li et al. 2021; the image " +
		"encoder of SAM). qkv [B,gh,gw,3*H*D] holds q, k and v one after another, head h at h*D of each; the result is " +
		"[B,gh,gw,H*D]. The grid is cut into ceil(gh/w) x ceil(gw/w) windows of w x w tokens, window 0 into one of gh x gw. " +
		"Tokens past the edge are padding whose q, k and v are the row pad [3*H*D]; they are keys like any other, and their own " +
		"results are dropped. score[q,k] = scale * q.k + q.rh[qy,ky] + q.rw[qx,kx], with rh [wh,wh,D] and rw [ww,ww,D] if " +
		"given; softmax over all keys of the window; result = sum of weight * v. A key whose score is -Inf has weight 0, and a query without other keys gives zeros, as in attention, but " +
		"its v is multiplied nevertheless, so that an Inf or NaN there gives NaN. Scores need not be stored.",
	Operands: "qkv, pad, rh?, rw?",
	Infer: func(s ir.Sig[GridAttentionAttrs]) (ir.Type, error) {
		g, err := s.Attrs.Sizes(s.In)
		if err != nil {
			return ir.Type{}, err
		}
		qkv := s.In[0]
		shape := ir.Shape{g.B, ir.Static(g.GH), ir.Static(g.GW), ir.Static(g.Heads * g.D)}
		return ir.Type{DType: qkv.DType, Shape: shape}, nil
	},
	Eval: evalGridAttention,
	FLOPs: func(a GridAttentionAttrs, in []ir.Type, _ ir.Type) int64 {
		g, err := a.Sizes(in)
		if err != nil {
			return 0
		}
		tokens := g.WH * g.WW
		perQuery := tokens * (4*g.D + 7)
		if g.Positional {
			perQuery += 2*g.D*(g.WH+g.WW) + 2*tokens
		}
		return g.B.Const * g.GH * g.GW * g.Heads * perQuery
	},
	Memory: func(s ir.Sig[GridAttentionAttrs], _ ir.Type) int64 {
		g, err := s.Attrs.Sizes(s.In)
		if err != nil {
			panic("BUG: op: " + err.Error()) // the types were checked by Infer
		}
		return 8 * g.WH * g.WW
	},
	Tol: func(_ GridAttentionAttrs, _ []ir.Type, out ir.Type) ir.Tolerance {
		return forDType(out.DType, 1e-5, 1e-5)
	},
	Cases: func() []ir.Case[GridAttentionAttrs] {
		c := func(heads, window int, b, gh, gw, d int64, positional bool,
			t func(...int64) ir.Type) ir.Case[GridAttentionAttrs] {
			e := 3 * int64(heads) * d
			in := []ir.Type{t(b, gh, gw, e), t(e)}
			if wh, ww := int64(window), int64(window); positional {
				if window == 0 {
					wh, ww = gh, gw
				}
				in = append(in, t(wh, wh, d), t(ww, ww, d))
			}
			return ir.Case[GridAttentionAttrs]{Attrs: GridAttentionAttrs{Heads: heads, Window: window}, In: in}
		}
		scaled := c(2, 3, 1, 6, 6, 4, true, f32)
		scaled.Attrs.Scale = 0.2
		return []ir.Case[GridAttentionAttrs]{
			c(1, 0, 1, 1, 1, 1, false, f32), c(2, 0, 1, 3, 4, 5, false, f32), c(2, 0, 2, 3, 4, 5, true, f32),
			c(3, 2, 1, 4, 6, 4, true, f32),
			c(2, 3, 2, 5, 7, 4, true, f32), // padding below and to the right
			c(2, 3, 1, 5, 7, 4, false, f32), c(2, 5, 1, 3, 2, 8, true, f32), c(1, 2, 0, 4, 4, 2, true, f32),
			c(1, 7, 1, 16, 9, 20, true, f32),
			c(2, 2, 1, 3, 3, 4, true, f16), scaled,
		}
	},
})

// GridAttention adds windowed self-attention on a grid. rh and rw are either both nil or both given.
func GridAttention(qkv, pad, rh, rw *ir.Node, attrs GridAttentionAttrs) *ir.Node {
	return qkv.Graph.Add(GridAttentionDef, attrs, qkv, pad, rh, rw)
}

// EffectiveScale returns the factor of q·k.
func (a GridAttentionAttrs) EffectiveScale(headDim int64) float64 {
	return AttentionAttrs{Scale: a.Scale}.EffectiveScale(headDim)
}

// Sizes checks the operands' types and returns the sizes.
func (a GridAttentionAttrs) Sizes(in []ir.Type) (GridShape, error) {
	qkv, rh, rw := in[0], in[GridAttentionRH], in[GridAttentionRW]
	g := GridShape{Heads: int64(a.Heads), Positional: rh.Present()}
	if err := isFloat("qkv", qkv); err != nil {
		return g, err
	}
	if err := sameDType(in); err != nil {
		return g, err
	}
	if a.Heads < 1 || a.Heads > 1<<20 || a.Window < 0 || a.Window > maxWindow ||
		!(math.Abs(a.Scale) <= math.MaxFloat32) {
		return g,
			fmt.Errorf(
				"heads is %d, window %d and scale %v; want heads of 1 or more, a window of 0 to %d, a finite scale",
				a.Heads, a.Window, a.Scale, maxWindow)
	}
	if rh.Present() != rw.Present() {
		return g, fmt.Errorf("has one of the operands rh and rw; want both or neither")
	}
	if qkv.Rank() != 4 || !qkv.Shape[1:].IsStatic() {
		return g, fmt.Errorf("qkv is %v; want rank 4 with a static grid", qkv)
	}
	d, ok := qkv.Shape[3].Div(ir.Static(3 * g.Heads))
	g.B, g.GH, g.GW, g.D = qkv.Shape[0], qkv.Shape[1].Const, qkv.Shape[2].Const, d.Const
	if !ok || d.Const < 1 || g.GH < 1 || g.GW < 1 || g.GH > maxWindow || g.GW > maxWindow {
		return g, fmt.Errorf("qkv is %v; want [B,gh,gw,3*%d*D] with no empty axis but B", qkv, g.Heads)
	}
	g.WH, g.WW = int64(a.Window), int64(a.Window)
	if a.Window == 0 {
		g.WH, g.WW = g.GH, g.GW
	}
	g.NH, g.NW = (g.GH+g.WH-1)/g.WH, (g.GW+g.WW-1)/g.WW
	if err := vectorOf("pad", in[1], qkv.DType, qkv.Shape[3]); err != nil {
		return g, err
	}
	if g.Positional {
		for i, side := range []int64{g.WH, g.WW} {
			got := in[GridAttentionRH+i]
			if want := ir.TypeOf(qkv.DType, side, side, g.D); !got.Equal(want) {
				return g, ir.TypesDiffer(got, want, "%s is %v; want %v", [...]string{"rh", "rw"}[i], got, want)
			}
		}
	}
	return g, nil
}

func evalGridAttention(a GridAttentionAttrs, in []*tensor.Array, out *tensor.Array) error {
	types := make([]ir.Type, len(in))
	for i, x := range in {
		if x != nil {
			types[i] = ir.TypeOf(x.DType, sizes(x)...)
		}
	}
	s, err := a.Sizes(types)
	if err != nil {
		return err
	}
	gh, gw, wh, ww, d := int(s.GH), int(s.GW), int(s.WH), int(s.WW), int(s.D)
	e, scale := a.Heads*d, a.EffectiveScale(s.D)
	// part is q, k or v (0, 1, 2) of a head at a token, which may be padding.
	part := func(b, y, x, which, head int) []float64 {
		row := in[1].Floats
		if y < gh && x < gw {
			row = in[0].Floats[((b*gh+y)*gw+x)*3*e:]
		}
		return row[which*e+head*d:]
	}
	score := make([]float64, wh*ww)
	for b := range out.Shape[0] {
		for y := range gh {
			for x := range gw {
				y0, x0 := y/wh*wh, x/ww*ww // the window's corner
				for h := range a.Heads {
					q := part(b, y, x, 0, h)
					for j := range score {
						ky, kx := j/ww, j%ww
						score[j] = scale * dot(q, part(b, y0+ky, x0+kx, 1, h), d)
						if s.Positional {
							score[j] += dot(q, in[GridAttentionRH].Floats[((y-y0)*wh+ky)*d:], d) +
								dot(q, in[GridAttentionRW].Floats[((x-x0)*ww+kx)*d:], d)
						}
					}
					weigh(score, math.Inf(-1))
					o := out.Floats[((b*gh+y)*gw+x)*e+h*d:]
					for j, p := range score {
						addScaled(o, p, part(b, y0+j/ww, x0+j%ww, 2, h), d)
					}
				}
			}
		}
	}
	return nil
}
