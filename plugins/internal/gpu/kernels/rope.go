package kernels

import (
	_ "embed"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed rope.wgsl
var ropeWGSL string

var (
	_ = register(ropeKernel("rope"))
	_ = register(ropeKernel("rope_backward"))
)

func ropeKernel(name string) Kernel {
	return Kernel{Op: name,
		Takes:         "(" + floats + ", cos: " + floats + ", sin: " + floats + ", frequencies: f32, position: i32)",
		WritesRounded: func(n *ir.Node) bool { return name == "rope" && inFours(n) },
		Shaders: func(n *ir.Node, l Limits) []Shader {
			r, fields, params := ropeOf(n, "")
			r.Vec, r.Back = inFours(n), name == "rope_backward"
			body := ropeWGSL + `{{template "angles" .C}}{{template "rope" .C}}`
			s := mapped(n, name, body, r, fields, params)
			if r.Vec {
				s = harnessed(n, name, body, r, fields, params, unit{elements: 4, words: 4}, 1)
				s.Bindings[0].Vec, s.Bindings[len(s.Bindings)-1].Vec = 4, 4
			}
			if r.Angles == "tables" {
				s = s.withStatus()
			}
			if l.Rounds == 0 {
				return []Shader{s}
			}
			z := s
			z.Bindings = slices.Clone(s.Bindings)
			y := slices.IndexFunc(z.Bindings, func(b Binding) bool { return b.Operand == Out })
			z.Bindings[y].Operand, z.Bindings[y].DType = RoundedOut, l.Rounds
			if l.RoundsOnly {
				return []Shader{z}
			}
			return []Shader{z, s} // the result itself may overwrite x
		}}
}

// rope has the constants of rope.wgsl.
type rope struct {
	N, Encode     string // N: prefix of its names; Encode: function that returns the bits of a result
	Layout, Style string
	Angles        string // tables, frequencies or base
	Rank          int    // of the operand with positions, or -1
	Vec           bool   // the function computes four elements
	Back          bool   // pairs turn by minus the angle
}

// inFours reports whether a rope of f32 can read and write vectors of four. That needs vectors whose elements belong to
// one half of the pairs and to one head.
func inFours(n *ir.Node) bool {
	a, x := n.Attrs.(op.RopeAttrs), n.In[0].Type
	pairs := 4 // consecutive pairs that a vector must not split
	if a.Style == op.GPTJ {
		pairs = 2
	}
	return n.Type.DType == dtype.F32 && x.DType == dtype.F32 && a.HeadDim%4 == 0 && a.Rotated()/2%pairs == 0 &&
		a.Start%4 == 0 && fours(x.Shape[x.Rank()-1]) && aligned(n.In[0])
}

// ropeOf returns the constants of a node, and the fields and parameters of its function.
func ropeOf(n *ir.Node, prefix string) (r rope, fields []string, params func(c *Call) []uint32) {
	a := n.Attrs.(op.RopeAttrs)
	r = rope{N: prefix, Encode: "y_encode", Layout: a.Layout, Style: a.Style, Angles: "base", Rank: -1}
	if p := n.In[op.RopePositions]; p != nil {
		r.Rank = p.Type.Rank()
	}
	switch {
	case n.In[op.RopeCos] != nil:
		r.Angles = "tables"
	case n.In[op.RopeFrequencies] != nil:
		r.Angles = "frequencies"
	}
	half := a.Rotated() / 2
	for _, f := range []string{"dim", "heads", "seq", "half", "start", "x_b", "x_s", "x_h", "rows", "width",
		"factor:f32"} {
		fields = append(fields, prefix+f)
	}
	var turns []uint32
	if r.Angles == "base" {
		for _, f := range a.Frequencies() {
			t := turns64(f)
			turns = append(turns, uint32(t>>32), uint32(t))
		}
		fields = append(fields, fmt.Sprint(prefix, "turns:", 2*half))
	}
	return r, fields, func(c *Call) []uint32 {
		g := a.Geometry(c.In[0].Shape)
		rows, width := 0, 0
		if tables := c.In[op.RopeCos].Shape; tables != nil {
			rows, width = tables[0], tables[1]
		}
		return append(
			[]uint32{uint32(g.D), uint32(g.H), uint32(g.S), uint32(half), uint32(g.Start), uint32(g.X.Batch),
				uint32(g.X.Seq), uint32(g.X.Head),
				uint32(rows), uint32(width), math.Float32bits(float32(a.EffectiveFactor()))}, turns...)
	}
}

// inverseTau is 1/(2*pi).
const inverseTau = "0.159154943091895335768883763372514362034459645740456448747667344058896797634226535090113803"

// turns64 converts radians to a fraction of a turn in units of 2^-64, without whole turns.
func turns64(radians float64) uint64 {
	f, _, err := big.ParseFloat(inverseTau, 10, 280, big.ToNearestEven)
	if err != nil {
		panic("BUG: wgpu: " + err.Error())
	}
	f.Mul(f, new(big.Float).SetPrec(280).SetFloat64(radians))
	whole, _ := f.SetMantExp(f, 64).Int(nil)
	return new(big.Int).And(whole, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
}
