package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Styles of rope: the pairs of elements of a head that rotate together. h is half the number of elements that rotate.
const (
	NeoX = "neox" // i and i+h
	GPTJ = "gptj" // 2i and 2i+1
)

// Optional operands of rope. The angles come from tables, from frequencies, or from the attribute base.
const (
	RopeCos = 1 + iota // table with a row for each position, as is the next
	RopeSin
	RopeFrequencies // radians per position, by pair
	RopePositions
)

// RopeOperands are the optional operands of a rope: Cos and Sin, or Frequencies, or neither, and Position, which may be
// nil.
type RopeOperands struct{ Cos, Sin, Frequencies, Position *ir.Node }

// RopeAttrs are the attributes of rope.
type RopeAttrs struct {
	HeadDim int     `attr:"head_dim"` // D, the number of elements of a head
	Rot     int     `attr:"n_rot"`    // number of elements that rotate, the first ones of a head; 0 means all
	Style   string  `attr:"style"`    // neox or gptj
	Layout  string  `attr:"layout"`   // bse, bhsd or bshd
	Base    float64 `attr:"base"`     // without tables and frequencies: f[i] is base^(-2i/n_rot)
	Factor  float64 `attr:"factor"`   // factor of cos and sin if they are not from tables; 0 means 1
	// with layout bse: number of heads to read from rows that may be longer; 0 means that rows have nothing but heads
	Heads int `attr:"heads"`
	Start int `attr:"start"` // with heads: the element of a row at which the first head begins
}

// RopeDef defines rotary position embedding.
var RopeDef = ir.Define(ir.Def[RopeAttrs]{
	Name: "rope",
	Doc: "Rotary position embedding (Su et al. 2021) of x. In each head the first n_rot elements turn in pairs, with h = n_rot/2: " +
		"neox pairs i with i+h, gptj 2i with 2i+1. Pair i of a token at position p becomes (a*c - b*s, b*c + a*s), c and s being factor times the cosine and sine of " +
		"p*f[i]; the other elements stay. cos and sin, if given, are c and s as tables [S_max,w], of f32 or x's type, w = head_dim/2 or n_rot/2, of which row p is read; " +
		"a position outside 0 to S_max-1 is a run error. frequencies, if given instead, is f, f32 or f64 of shape [h]; linear, Llama 3 and YaRN scalings are such a vector and a factor. " +
		"Without these, f[i] = base^(-2i/n_rot) in float64. The angle is the exact product, reduced before it is rounded. position is i32: of shape [] or [B] the position of token 0, of " +
		"[B,S] that of each token; without it token 0 is at 0. x is [B,S,E] (bse), [B,H,S,D] or [B,S,H,D]; with heads, rows of bse have these from element start on, and other " +
		"values around them, which are not read: the result is [B,S,heads*D].",
	Operands: "x, cos?, sin?, frequencies?, position?",
	Checked:  []ir.Checked{{Operand: 4, Safe: 0}},
	Infer:    func(s ir.Sig[RopeAttrs]) (ir.Type, error) { return s.Attrs.infer(s.In) },
	Eval:     evalRope,
	FLOPs:    perElement[RopeAttrs](3),
	Tol:      rounded[RopeAttrs],
	Cases:    ropeCases,
})

// Rope adds rotary position embedding of x. An empty a.Style means NeoX.
func Rope(x *ir.Node, o RopeOperands, a RopeAttrs) *ir.Node {
	if a.Style == "" {
		a.Style = NeoX
	}
	return x.Graph.Add(RopeDef, a, x, o.Cos, o.Sin, o.Frequencies, o.Position)
}

// Rotated returns the number of elements of a head that rotate.
func (a RopeAttrs) Rotated() int {
	if a.Rot == 0 {
		return a.HeadDim
	}
	return a.Rot
}

// EffectiveFactor returns the factor of cos and sin.
func (a RopeAttrs) EffectiveFactor() float64 {
	if a.Factor == 0 {
		return 1
	}
	return a.Factor
}

// Frequencies returns the frequencies that follow from a.Base, in radians per position, one for each pair.
func (a RopeAttrs) Frequencies() []float64 {
	f := make([]float64, a.Rotated()/2)
	for i := range f {
		f[i] = math.Pow(a.Base, -2*float64(i)/float64(a.Rotated()))
	}
	return f
}

// RopeGeometry says where the values of a rope are, for known sizes.
type RopeGeometry struct {
	B, S, H, D int
	X, Out     HeadStrides
	Start      int // index of the first element of x that is read
}

// Geometry computes where values are, from the shape of x, which must have passed type inference. It allocates nothing.
func (a RopeAttrs) Geometry(x []int) RopeGeometry {
	g := RopeGeometry{B: x[0], D: a.HeadDim, H: a.Heads, Start: a.Start}
	switch a.Layout {
	case BSE:
		if g.H == 0 {
			g.H = x[2] / g.D
		}
	case BSHD:
		g.H = x[2]
	default:
		g.H = x[1]
	}
	g.S, g.X = headStrides(a.Layout, x, g.D)
	g.Out = g.X
	if a.Layout == BSE {
		g.Out = HeadStrides{g.S * g.H * g.D, g.H * g.D, g.D}
	}
	return g
}

func (a RopeAttrs) infer(in []ir.Type) (ir.Type, error) {
	if err := isFloat("x", in[0]); err != nil {
		return ir.Type{}, err
	}
	if err := a.checkAttrs(in[RopeCos].Present()); err != nil {
		return ir.Type{}, err
	}
	out, err := a.resultOf(in[0])
	if err != nil {
		return ir.Type{}, err
	}
	if err := a.checkAngles(in); err != nil {
		return ir.Type{}, err
	}
	return out, a.checkPosition(in)
}

// ropeRanks has the rank of x by layout.
var ropeRanks = map[string]int{BSE: 3, BHSD: 4, BSHD: 4}

// checkAttrs checks the attributes but for base. tables says whether the operands cos and sin are given.
func (a RopeAttrs) checkAttrs(tables bool) error {
	switch {
	case ropeRanks[a.Layout] == 0:
		return fmt.Errorf("layout is %q; want %q, %q or %q", a.Layout, BSE, BHSD, BSHD)
	case a.Style != NeoX && a.Style != GPTJ:
		return fmt.Errorf("style is %q; want %q or %q", a.Style, NeoX, GPTJ)
	case a.HeadDim < 1 || a.HeadDim > maxHeadDim:
		return fmt.Errorf("head_dim is %d; want 1 to %d", a.HeadDim, maxHeadDim)
	case a.Rotated()%2 != 0 || a.Rot < 0 || a.Rot > a.HeadDim:
		return fmt.Errorf("n_rot is %d with head_dim %d; want an even number of 2 to head_dim, or 0 for an even head_dim",
			a.Rot, a.HeadDim)
	case !(math.Abs(a.Factor) <= math.MaxFloat32):
		return fmt.Errorf("factor is %v; want a finite number", a.Factor)
	case tables && a.Factor != 0:
		return fmt.Errorf("factor is %v and cos is given; want 0: the tables contain it", a.Factor)
	case a.Heads < 0 || a.Start < 0 || a.Heads > 1<<20 || int64(a.Start) > ir.MaxDim ||
		(a.Heads > 0 && a.Layout != BSE) || (a.Heads == 0 && a.Start > 0):
		return fmt.Errorf(
			"heads is %d and start %d with layout %q; want 0 or more, start with heads only, and heads with layout %q only",
			a.Heads, a.Start, a.Layout, BSE)
	}
	return nil
}

// resultOf returns the type of the result: that of x, or of the heads that are taken from x.
func (a RopeAttrs) resultOf(x ir.Type) (ir.Type, error) {
	rank := ropeRanks[a.Layout]
	if x.Rank() != rank {
		return x, fmt.Errorf("x is %v; want rank %d for layout %q", x, rank, a.Layout)
	}
	last, d := x.Shape[rank-1], int64(a.HeadDim)
	switch {
	case a.Heads > 0:
		width := int64(a.Heads) * d
		if end := int64(a.Start) + width; !last.IsStatic() || end > last.Const {
			return x, fmt.Errorf("x is %v; want a static last axis of %d or more: %d heads of %d from %d on", x, end,
				a.Heads, d, a.Start)
		}
		return ir.Type{DType: x.DType, Shape: ir.Shape{x.Shape[0], x.Shape[1], ir.Static(width)}}, nil
	case a.Layout == BSE && (!last.IsStatic() || last.Const%d != 0):
		return x, fmt.Errorf("x is %v; want a static last axis that head_dim, %d, divides", x, d)
	case a.Layout != BSE && !last.Is(d):
		return x, ir.Differ(last, ir.Static(d), "x is %v; want a last axis of head_dim, %d", x, d)
	}
	return x, nil
}

// maxHeadDim keeps sums and products of sizes small.
const maxHeadDim = 1 << 16

func (a RopeAttrs) checkAngles(in []ir.Type) error {
	c, s, f := in[RopeCos], in[RopeSin], in[RopeFrequencies]
	half := int64(a.Rotated() / 2)
	switch {
	case c.Present() != s.Present():
		return fmt.Errorf("has one of the operands cos and sin; want both or neither")
	case c.Present() && f.Present() || (c.Present() || f.Present()) && a.Base != 0:
		return fmt.Errorf(
			"base is %v, and cos, sin or frequencies are given; want cos and sin, or frequencies, or base", a.Base)
	case c.Present():
		if c.DType != dtype.F32 && c.DType != in[0].DType || c.Rank() != 2 || !c.Shape[1].Is(half) &&
			!(a.HeadDim%2 == 0 && c.Shape[1].Is(int64(a.HeadDim/2))) {
			return fmt.Errorf("cos is %v; want a table [S_max,%d] or [S_max,%d] of f32 or the type of x, %v", c, half,
				a.HeadDim/2, in[0].DType)
		}
		if !s.Equal(c) {
			return ir.TypesDiffer(s, c, "sin is %v; want %v, the type of cos", s, c)
		}
	case f.Present():
		if f.DType != dtype.F32 && f.DType != dtype.F64 || f.Rank() != 1 || !f.Shape[0].Is(half) {
			return fmt.Errorf("frequencies are %v; want f32[%d] or f64[%d], one for each pair of %d elements", f, half,
				half, a.Rotated())
		}
	case !(a.Base >= 1 && a.Base <= math.MaxFloat32):
		return fmt.Errorf("base is %v; want a number of 1 or more, or the operands cos and sin, or frequencies", a.Base)
	}
	return nil
}

func (a RopeAttrs) checkPosition(in []ir.Type) error {
	p, x := in[RopePositions], in[0]
	if !p.Present() {
		return nil
	}
	seq := x.Shape[1]
	if a.Layout == BHSD {
		seq = x.Shape[2]
	}
	full := ir.Shape{x.Shape[0], seq}
	if p.DType != dtype.I32 || p.Rank() > 2 {
		return fmt.Errorf("position is %v; want i32[], i32[%v] or i32%v", p, x.Shape[0], full)
	}
	for i, d := range p.Shape {
		if d != full[i] {
			return ir.Differ(d, full[i], "position is %v; want i32[], i32[%v] or i32%v", p, x.Shape[0], full)
		}
	}
	return nil
}

// headStrides returns the sequence length and the strides of shape s in a layout. d is the head dim.
func headStrides(layout string, s []int, d int) (seq int, st HeadStrides) {
	switch layout {
	case BSE:
		return s[1], HeadStrides{s[1] * s[2], s[2], d}
	case BSHD:
		return s[1], HeadStrides{s[1] * s[2] * s[3], s[2] * s[3], s[3]}
	}
	return s[2], HeadStrides{s[1] * s[2] * s[3], s[3], s[2] * s[3]}
}

// RopePosition returns the position of token s of batch element b. pos has the elements of the operand with positions,
// of the given rank, and is nil without the operand. tokens is the sequence length.
func RopePosition[T int32 | int64](pos []T, rank, tokens, b, s int) int64 {
	switch {
	case pos == nil:
		return int64(s)
	case rank == 0:
		return int64(pos[0]) + int64(s)
	case rank == 1:
		return int64(pos[b]) + int64(s)
	}
	return int64(pos[b*tokens+s])
}

// CheckRopePosition returns an error if tables with the given number of rows have no row for position p of token s of
// batch element b.
func CheckRopePosition(p int64, rows, b, s int) error {
	if p < 0 || p >= int64(rows) {
		return fmt.Errorf("position %d of token %d in batch element %d is out of range 0 to %d of the tables", p, s, b,
			rows-1)
	}
	return nil
}

// Turn returns the cosine and sine of the angle p*f in radians, to the precision of float64. The rounded product is not
// that precise for large p, so Turn adds its rounding error as a second angle.
func Turn(p int64, f float64) (cos, sin float64) {
	hi := float64(p) * f
	sin, cos = math.Sincos(hi)
	if lo := math.FMA(float64(p), f, -hi); lo != 0 && !math.IsInf(hi, 0) {
		s, c := math.Sincos(lo)
		return cos*c - sin*s, sin*c + cos*s
	}
	return cos, sin
}

func evalRope(a RopeAttrs, in []*tensor.Array, out *tensor.Array) error {
	return turnHeads(a, in, out, 1)
}

// turnHeads evaluates rope if direction is 1, and turns the other way if it is -1.
func turnHeads(a RopeAttrs, in []*tensor.Array, out *tensor.Array, direction float64) error {
	x, g := in[0], a.Geometry(in[0].Shape)
	h, factor := a.Rotated()/2, a.EffectiveFactor()
	var pos []int64
	rank := 0
	if p := in[RopePositions]; p != nil {
		pos, rank = p.Ints, len(p.Shape)
	}
	tables := in[RopeCos]
	var freq []float64
	switch {
	case tables != nil:
	case in[RopeFrequencies] != nil:
		freq = in[RopeFrequencies].Floats
	default:
		freq = a.Frequencies()
	}
	cos, sin := make([]float64, h), make([]float64, h)
	for b := range g.B {
		for s := range g.S {
			p := RopePosition(pos, rank, g.S, b, s)
			if tables != nil {
				rows, width := tables.Shape[0], tables.Shape[1]
				if err := CheckRopePosition(p, rows, b, s); err != nil {
					return err
				}
				cos, sin = tables.Floats[int(p)*width:], in[RopeSin].Floats[int(p)*width:]
			} else {
				for i, f := range freq {
					c, s := Turn(p, f)
					cos[i], sin[i] = factor*c, factor*s
				}
			}
			for head := range g.H {
				from := x.Floats[g.Start+b*g.X.Batch+s*g.X.Seq+head*g.X.Head:][:g.D]
				to := out.Floats[b*g.Out.Batch+s*g.Out.Seq+head*g.Out.Head:][:g.D]
				copy(to, from)
				for i := range h {
					j, k := i, i+h
					if a.Style == GPTJ {
						j, k = 2*i, 2*i+1
					}
					c, s := cos[i], direction*sin[i]
					to[j], to[k] = from[j]*c-from[k]*s, from[k]*c+from[j]*s
				}
			}
		}
	}
	return nil
}
