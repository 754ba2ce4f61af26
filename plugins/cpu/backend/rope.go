package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/attention"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

func init() {
	for _, k := range []struct {
		op   string
		sign float32
	}{{"rope", 1}, {"rope_backward", -1}} {
		register(kernel{op: k.op,
			takes:   "(f32|f16|bf16, cos: f32|f16|bf16, sin: f32|f16|bf16, frequencies: f32|f64, position: i32)",
			scratch: ropeScratch, prepare: func(n *ir.Node) func(*call) error { return newRope(n, k.sign).run }})
	}
}

func ropeScratch(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
	a := n.Attrs.(op.RopeAttrs)
	return attention.RopeScratchSize(&attention.RopeArgs{Dim: a.HeadDim, Half: a.Rotated() / 2})
}

// rope runs one node. It lives as long as the program, so that runs allocate nothing.
type rope struct {
	op.RopeAttrs
	sign float32   // -1 turns the other way
	freq []float64 // radians per position, unless angles come from tables
	args attention.RopeArgs

	// The rest is set by each run.
	pool     *pool.Pool
	pos      []int32
	rank     int           // of the operand with the positions
	cos, sin stored.Values // tables [rows, width]
	rows     int
	width    int
}

func newRope(n *ir.Node, sign float32) *rope {
	a := n.Attrs.(op.RopeAttrs)
	r := &rope{RopeAttrs: a, sign: sign}
	r.args.Dim, r.args.Half, r.args.Adjacent, r.args.Kind = a.HeadDim, a.Rotated()/2, a.Style == op.GPTJ, n.Type.DType
	r.args.Angles, r.args.Position = r.computed, r.at
	switch {
	case n.In[op.RopeCos] != nil:
		r.args.Angles = r.tabled
	case n.In[op.RopeFrequencies] != nil:
		r.freq = make([]float64, r.args.Half)
	default:
		r.freq = a.Frequencies()
	}
	return r
}

func (r *rope) run(c *call) error {
	x, g := c.in[0], &r.args
	if tensor.Numel(c.out.Shape) == 0 {
		return nil
	}
	at := r.Geometry(x.Shape)
	r.pool, r.pos = c.pool, nil
	if c.has(op.RopePositions) {
		p := c.in[op.RopePositions]
		r.pos, r.rank = view[int32](p), len(p.Shape)
	}
	g.B, g.S, g.Heads, g.XStride, g.Stride = at.B, at.S, at.H, attention.Strides(at.X), attention.Strides(at.Out)
	if g.Kind == dtype.F32 {
		g.X, g.Out = from(x, at.Start, f32), f32(c.out)
	} else {
		g.XBits, g.OutBits = from(x, at.Start, view[uint16]), view[uint16](c.out)
	}
	switch {
	case c.has(op.RopeCos):
		cos, sin := c.in[op.RopeCos], c.in[op.RopeSin]
		r.cos, r.sin, r.rows, r.width = weights(cos), weights(sin), cos.Shape[0], cos.Shape[1]
		for b := range at.B {
			for s := range at.S {
				if err := op.CheckRopePosition(r.at(b, s), r.rows, b, s); err != nil {
					return err
				}
			}
		}
	case c.has(op.RopeFrequencies):
		for i := range r.freq {
			if f := c.in[op.RopeFrequencies]; f.DType == dtype.F64 {
				r.freq[i] = view[float64](f)[i]
			} else {
				r.freq[i] = float64(f32(f)[i])
			}
		}
	}
	attention.Rope(c.pool, g)
	return nil
}

// at returns the position of token s of sequence b.
func (r *rope) at(b, s int) int64 { return op.RopePosition(r.pos, r.rank, r.args.S, b, s) }

func (r *rope) tabled(b, s int, buf []float32) (cos, sin []float32) {
	row, h := int(r.at(b, s))*r.width, r.args.Half
	cos, sin = r.cos.Row(r.pool.Set, row, h, buf[:h]), r.sin.Row(r.pool.Set, row, h, buf[h:])
	if r.sign < 0 {
		for i, x := range sin {
			buf[h+i] = -x
		}
		sin = buf[h:]
	}
	return cos, sin
}

func (r *rope) computed(b, s int, buf []float32) (cos, sin []float32) {
	p, factor := r.at(b, s), r.EffectiveFactor()
	cos, sin = buf[:r.args.Half], buf[r.args.Half:]
	for i, f := range r.freq {
		x, y := op.Turn(p, f)
		cos[i], sin[i] = float32(factor*x), r.sign*float32(factor*y)
	}
	return cos, sin
}
