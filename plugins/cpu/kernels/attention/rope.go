package attention

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// RopeArgs describes rotary position embedding. In each head of Dim elements, the first 2*Half are rotated in pairs: i
// with i+Half or, if Adjacent is set, 2i with 2i+1. The other elements are copied.
type RopeArgs struct {
	B, S, Heads, Dim, Half int
	Adjacent               bool

	// If Kind is f32, X and Out are set; if it is f16 or bf16, XBits and OutBits.
	Kind            dtype.DType
	X, Out          []float32
	XBits, OutBits  []uint16
	XStride, Stride Strides

	// Angles returns the Half cosines and sines of token s of batch element b. It may store them in buf, which has
	// 2*Half floats. They depend only on Position.
	Angles   func(b, s int, buf []float32) (cos, sin []float32)
	Position func(b, s int) int64
}

// Rope computes rotary position embedding.
func Rope(p *pool.Pool, g *RopeArgs) {
	if g.B*g.S*g.Heads == 0 {
		return
	}
	if last := (g.B-1)*g.XStride.Batch + (g.S-1)*g.XStride.Seq + (g.Heads-1)*g.XStride.Head +
		g.Dim; max(len(g.X), len(g.XBits)) < last ||
		max(len(g.Out), len(g.OutBits)) < g.B*g.S*g.Heads*g.Dim || 2*g.Half > g.Dim {
		panic("BUG: Rope: a slice is short")
	}
	pool.Split(p, g.B*g.S, 1+pool.Grain/(g.Heads*g.Dim), roping{*g, p})
}

// RopeScratchSize returns what Rope needs.
func RopeScratchSize(g *RopeArgs) pool.Size {
	return pool.Size{Worker: pool.FloatBytes(2*g.Half, g.Dim, g.Dim)}
}

type roping struct {
	RopeArgs
	p *pool.Pool
}

func (g *roping) Do(lo, hi, worker int) {
	sc := g.p.Scratch(worker)
	buf := sc.Floats(2 * g.Half)
	var wide, turned []float32 // a head in f32 and its result, for f16 and bf16
	narrow := dtype.F32ToBF16
	if g.Kind != dtype.F32 {
		wide, turned = sc.Floats(g.Dim), sc.Floats(g.Dim)
	}
	if g.Kind == dtype.F16 {
		narrow = dtype.F32ToF16
	}
	bits := stored.Values{Halves: g.XBits, Kind: g.Kind}
	var cos, sin []float32
	var position int64
	for t := lo; t < hi; t++ {
		// one token of all batch elements after another: mostly their positions are equal
		b, s := t%g.B, t/g.B
		if at := g.Position(b, s); t == lo || at != position {
			cos, sin = g.Angles(b, s, buf)
			position = at
		}
		for h := range g.Heads {
			from := b*g.XStride.Batch + s*g.XStride.Seq + h*g.XStride.Head
			to := b*g.Stride.Batch + s*g.Stride.Seq + h*g.Stride.Head
			if g.Kind == dtype.F32 {
				g.turn(g.Out[to:to+g.Dim], g.X[from:from+g.Dim], cos, sin)
				continue
			}
			g.turn(turned, bits.Row(g.p.Set, from, g.Dim, wide), cos, sin)
			for i, v := range turned[:2*g.Half] {
				g.OutBits[to+i] = narrow(v)
			}
			copy(g.OutBits[to+2*g.Half:to+g.Dim], g.XBits[from+2*g.Half:])
		}
	}
}

// turn computes one head.
func (g *RopeArgs) turn(y, x, cos, sin []float32) {
	h := g.Half
	cos, sin = cos[:h], sin[:h]
	if g.Adjacent {
		for i, c := range cos {
			s, pair, to := sin[i], x[2*i:2*i+2], y[2*i:2*i+2]
			to[0], to[1] = pair[0]*c-pair[1]*s, pair[1]*c+pair[0]*s
		}
	} else {
		x0, x1, y0, y1 := x[:h], x[h:2*h], y[:h], y[h:2*h]
		for i, c := range cos {
			a, b, s := x0[i], x1[i], sin[i]
			y0[i], y1[i] = a*c-b*s, b*c+a*s
		}
	}
	copy(y[2*h:], x[2*h:])
}
