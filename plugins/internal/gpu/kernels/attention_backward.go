package kernels

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

var (
	//go:embed attention_backward.wgsl
	attentionStatisticsWGSL string
	//go:embed attention_gradients.wgsl
	attentionGradientsWGSL string
	attentionBackwardWGSL  = attentionStatisticsWGSL + attentionGradientsWGSL
)

// The first shader computes what the rows of the softmax need, and the others read it. dq has a tile of queries for
// each workgroup, dk and dv a tile of keys, so no two workgroups add to the same gradient.
var _ = register(Kernel{
	Op: "attention_backward", Takes: "(f32, f32, f32, f32, mask: f32|bool, position: i32, kv_len: i32, sinks: f32)",
	Shaders: func(n *ir.Node, l Limits) []Shader {
		x, ok := planBackward(n, l)
		if !ok {
			return nil
		}
		list := append([]Shader{x.statistics(), x.queries()}, x.keys()...)
		if x.attrs.Mask == op.MaskBias {
			list = append(list, x.bias())
		}
		if x.base.Sinks > 0 {
			list = append(list, x.sinks())
		}
		return list
	},
	Scratch: func(n *ir.Node, l Limits) int64 {
		x, ok := planBackward(n, l)
		if !ok {
			return 0
		}
		_, _, end := x.places()
		return int64(end) * 16
	},
})

// BackwardTile is a shape of the tiles of attention_backward: numbers of outer and inner rows, which are multiples of
// 16 up to 64. Each invocation has four of both. With Rolled, the text has loops, and is short.
type BackwardTile struct {
	Outer, Inner int
	Rolled       bool
}

// BackwardTiles has the shapes to choose from, by workgroup memory and numbers of rows. The last one is for small
// devices and for software adapters, which take long to compile long texts.
var BackwardTiles = []BackwardTile{{64, 64, false}, {32, 32, false}, {16, 16, true}}

// At is the name of number i of four values. Each has the numbers below n as text, and Loop begins a block for each of
// them: with Rolled there is only one, a loop over the variable i.
func (t BackwardTile) At(name string, i any) string {
	text := fmt.Sprint(i)
	if t.Rolled {
		return name + "[" + text + "]"
	}
	return name + strings.TrimSuffix(text, "u")
}

// Each: see At.
func (t BackwardTile) Each(i string, n int) (out []string) {
	if t.Rolled {
		return []string{i}
	}
	for k := range n {
		out = append(out, fmt.Sprintf("%du", k))
	}
	return out
}

// Loop: see At.
func (t BackwardTile) Loop(i string, n int) string {
	if t.Rolled {
		return fmt.Sprintf("for (var %[1]s = 0u; %[1]s < %[2]du; %[1]s = %[1]s + 1u) {", i, n)
	}
	return "{"
}

// OW and IW are the vectors of four rows of a tile.
func (t BackwardTile) OW() int      { return t.Outer / 4 }
func (t BackwardTile) IW() int      { return t.Inner / 4 }
func (t BackwardTile) Threads() int { return t.OW() * t.IW() }

// backwardRows describes an operand that is read by rows: its name in the shader, the names of its strides and of its
// number of rows among the parameters, and its head dim.
type backwardRows struct {
	Name, Stride, Size string
	KV                 bool // the heads are those of k and v
	Dim                int
	Whole              bool // no part of the head dim is padding
}

// Vecs is the number of vectors of four that hold a row.
func (r backwardRows) Vecs() int { return ceilDiv(r.Dim, 4) }

// backwardConsts has the constants for attention_backward.wgsl and attention_gradients.wgsl.
type backwardConsts struct {
	attentionConsts
	BackwardTile
	Rows         []backwardRows // the two outer operands, then the inner ones
	Four         bool           // operands are read in vectors of four
	Parts        int            // parts of the head dim, of 16 values
	ColumnVecs   int            // vectors of the head dim of an invocation's results
	Blocks       int            // workgroups that share the columns of the same rows
	Weighs, Bias bool           // the shader computes weights; it needs the gradient of the scores
	// Split: workgroups add for one query head each, and another shader adds the heads of a group.
	Split bool
}

// Columns is the number of vectors of the head dim in a workgroup's results.
func (c backwardConsts) Columns() int { return c.IW() * c.ColumnVecs }

// backwardSum has what the template needs to add to sums, or to write them.
type backwardSum struct {
	Consts  backwardConsts
	Row     backwardRows
	Sum, To string
}

// Into returns the parameters for sums with a name that belong to rows like those of an operand.
func (c backwardConsts) Into(row int, sum, to string) backwardSum {
	return backwardSum{c, c.Rows[row], sum, to}
}

// Pair returns the gradients of k and v, if the outer rows are keys.
func (c backwardConsts) Pair() []backwardSum {
	return []backwardSum{c.Into(0, "dk", ""), c.Into(1, "dv", "")}
}

// bytes is the size of workgroup memory.
func (c backwardConsts) bytes() int {
	row := 16 * (c.OW() + 1)
	tiles := 2*16*row + 2*16*16*(c.IW()+1)
	return 4 + tiles + max(c.Inner*row+16*16*c.Columns(), 3*16*c.Threads())
}

// tileLoops returns the iterations for one tile of inner rows that adds to that many sums.
func (c backwardConsts) tileLoops(sums int) int {
	each := loop(16, 0) // values, inner rows or pairs
	return loop(c.Parts, each) + loop(4, 0) + 2*each + sums*loop(c.Inner/16, each)
}

// attentionBackward makes the shaders of a node.
type attentionBackward struct {
	n     *ir.Node
	attrs op.AttentionAttrs
	shape op.AttentionShape
	base  backwardConsts // without Rows
}

func planBackward(n *ir.Node, l Limits) (x attentionBackward, ok bool) {
	a := n.Attrs.(op.AttentionAttrs)
	s, err := a.Sizes(n.In[0].Type, n.In[1].Type, n.In[2].Type)
	if err != nil {
		return x, false
	}
	// of attention: without dy, and with absent sequence and pages
	forward := &ir.Node{In: append(slices.Delete(slices.Clone(n.In), op.AttentionBackwardDY,
		op.AttentionBackwardDY+1), nil, nil)}
	x = attentionBackward{n: n, attrs: a, shape: s}
	x.base.attentionConsts = attentionConstsOf(forward, a)
	x.base.Four = s.D%4 == 0 && s.DV%4 == 0 && allAligned(n.In[:4])
	largest, dim := n.Graph.Syms.Largest(ir.Shape{s.Sq, s.Sk}), int(max(s.D, s.DV))
	x.base.Parts = ceilDiv(dim, 16)
	tiles := BackwardTiles
	if l.BackwardTile != nil {
		tiles = []BackwardTile{*l.BackwardTile}
	}
	for i, t := range tiles {
		x.base.BackwardTile = t
		x.base.ColumnVecs = min(2, ceilDiv(dim, 4*t.IW()))
		x.base.Blocks = ceilDiv(dim, 4*x.base.Columns())
		if i == len(tiles)-1 || x.base.bytes() <= l.WorkgroupStorage && max(largest[0], largest[1]) > t.Outer/2 {
			break
		}
	}
	// few workgroups with all query heads of a group would leave a large device idle
	const busy = 512
	x.base.Split = s.H > int64(a.KVHeads) && a.KVHeads > 0 && n.Graph.Syms.Largest(ir.Shape{s.B})[0]*a.KVHeads*
		x.base.Blocks*ceilDiv(largest[1], x.base.Outer) < busy
	return x, true
}

// consts returns the constants of a shader whose outer rows are queries or keys.
func (x *attentionBackward) consts(keysOuter bool) backwardConsts {
	c := x.base
	row := func(name, stride, size string, kv bool, dim int64) backwardRows {
		return backwardRows{Name: name, Stride: stride, Size: size, KV: kv, Dim: int(dim),
			Whole: int(dim) == 16*c.Parts && int(dim) == 4*c.Columns()*c.Blocks}
	}
	c.Rows = []backwardRows{row("x0", "q", "sq", false, x.shape.D), row("dy", "o", "sq", false, x.shape.DV),
		row("x1", "k", "sk", true, x.shape.D), row("x2", "v", "sk", true, x.shape.DV)}
	if keysOuter {
		c.Rows = append(c.Rows[2:4:4], c.Rows[:2]...)
	}
	return c
}

// backwardStatistics has four f32 for each query.
var backwardStatistics = Binding{Name: "statistics", Operand: Scratch, Vec: 4, DType: dtype.F32}

// operands are the bindings for the inputs. Those of attention have their names there: x3 is the mask.
func (x *attentionBackward) operands() (out []Binding) {
	for i, n := range x.n.In {
		if n == nil || i == op.AttentionSinks+op.AttentionBackwardShift {
			continue
		}
		b := Binding{Operand: i, DType: n.Type.DType}
		switch {
		case i == op.AttentionBackwardDY:
			b.Name = "dy"
		case i > op.AttentionBackwardDY:
			b.Name = operandNames[i-op.AttentionBackwardShift]
		default:
			b.Name = operandNames[i]
		}
		if i <= op.AttentionBackwardDY && x.base.Four {
			b.Vec = 4
		}
		out = append(out, b)
	}
	if x.base.Reports() {
		out = append(out, Binding{Name: "status", Operand: Status, DType: dtype.U32})
	}
	return append(out, backwardStatistics)
}

// result is the binding for a result that is written by rows.
func (x *attentionBackward) result(name string, k int) Binding {
	b := Binding{Name: name, Operand: Result(k), DType: dtype.F32}
	if x.base.Four {
		b.Vec = 4
	}
	return b
}

func (x *attentionBackward) geometry(c *Call) op.AttentionGeometry {
	return x.attrs.Geometry(c.In[0].Shape, c.In[1].Shape, c.In[2].Shape,
		c.In[op.AttentionMask+op.AttentionBackwardShift].Shape)
}

// shader makes a shader from a part of the template. groups returns the number of workgroups, and loops the iterations.
// more, if not nil, returns the values of further fields.
func (x *attentionBackward) shader(name string, c backwardConsts, groups, loops func(g op.AttentionGeometry) int,
	fields []string, more func(g op.AttentionGeometry) []int, bindings ...Binding) Shader {
	return Shader{
		Name: x.n.Op.Name + " " + name, Consts: c,
		Body:     attentionMaskWGSL + `{{template "span" .}}` + part(attentionBackwardWGSL, name),
		Bindings: append(x.operands(), bindings...), Fields: slices.Concat([]string{"groups"}, attentionFields, fields),
		Groups: func(call *Call) int { return groups(x.geometry(call)) },
		Loops:  func(call *Call) int { return loops(x.geometry(call)) },
		Params: func(call *Call) []uint32 {
			g := x.geometry(call)
			if groups(g) == 0 {
				return nil
			}
			p := append([]uint32{uint32(groups(g))}, geometryParams(x.attrs, g)...)
			p = append(p, uint32(g.B), 0)
			if more != nil {
				for _, v := range more(g) {
					p = append(p, uint32(v))
				}
			}
			return p
		},
	}
}

func (x *attentionBackward) statistics() Shader {
	c := x.consts(false)
	s := x.shader("statistics", c, func(g op.AttentionGeometry) int { return g.B * g.H * ceilDiv(g.Sq, c.Outer) },
		func(g op.AttentionGeometry) int {
			return loop(ceilDiv(g.Sk, c.Inner)+1, c.tileLoops(0)) + loop(4, 0)
		}, nil, nil)
	if c.Sinks > 0 {
		s.Bindings = append(s.Bindings, Binding{Name: operandNames[c.Sinks],
			Operand: op.AttentionSinks + op.AttentionBackwardShift, DType: dtype.F32})
	}
	return s
}

func (x *attentionBackward) queries() Shader {
	c := x.consts(false)
	c.Weighs = true
	return x.shader("queries", c, func(g op.AttentionGeometry) int {
		return g.B * g.H * c.Blocks * ceilDiv(g.Sq, c.Outer)
	}, func(g op.AttentionGeometry) int {
		return loop(ceilDiv(g.Sk, c.Inner)+1, c.tileLoops(1))
	}, nil, nil, x.result("dq", 0))
}

// places returns where the gradients of k and v by query head begin in scratch memory, after the statistics, and where
// they end, in vectors.
func (x *attentionBackward) places() (dk, dv, end int) {
	most, h := x.n.Graph.Syms.Largest(ir.Shape{x.shape.B, x.shape.Sq, x.shape.Sk}), int(x.shape.H)
	dk = most[0] * h * most[1]
	if !x.base.Split {
		return dk, dk, dk
	}
	keys := most[0] * h * most[2]
	dv = dk + keys*ceilDiv(int(x.shape.D), 4)
	return dk, dv, dv + keys*ceilDiv(int(x.shape.DV), 4)
}

func (x *attentionBackward) keys() []Shader {
	c := x.consts(true)
	c.Weighs = true
	dk, dv := x.result("dk", 1), x.result("dv", 2)
	results := []Binding{dk, dv}
	members := func(g op.AttentionGeometry) int { return g.H / g.HKV }
	if c.Split {
		results, members = nil, func(op.AttentionGeometry) int { return 1 }
	}
	fields, places := []string{"dk_at", "dv_at"}, func(op.AttentionGeometry) []int {
		dk, dv, _ := x.places()
		return []int{dk, dv}
	}
	list := []Shader{x.shader("keys", c, func(g op.AttentionGeometry) int {
		return g.B * g.H / members(g) * c.Blocks * ceilDiv(g.Sk, c.Outer)
	}, func(g op.AttentionGeometry) int {
		return loop(members(g)*(ceilDiv(g.Sq, c.Inner)+1), c.tileLoops(2))
	}, fields, places, results...)}
	if !c.Split {
		return list
	}
	sum := x.shader("members", c, func(g op.AttentionGeometry) int {
		return ceilDiv(g.B*g.HKV*g.Sk*(c.Rows[0].Vecs()+c.Rows[1].Vecs()), mapGroup)
	}, func(g op.AttentionGeometry) int { return loop(g.H/g.HKV, 0) + loop(4, 0) },
		append(fields, "batch"), func(g op.AttentionGeometry) []int { return append(places(g), g.B) })
	sum.Bindings, sum.Body = []Binding{backwardStatistics, dk, dv}, part(attentionBackwardWGSL, "members")
	return append(list, sum)
}

// bias makes the shader of dbias. A workgroup passes over the axes on which the bias is repeated.
func (x *attentionBackward) bias() Shader {
	c := x.consts(false)
	c.Weighs, c.Bias = true, true
	// tiles are along the axes b, h, q and k. groups has how many workgroups there are, and each has the tiles of one.
	tiles := func(g op.AttentionGeometry) (groups, each [4]int) {
		for i, n := range []int{g.B, g.H, ceilDiv(g.Sq, c.Outer), ceilDiv(g.Sk, c.Inner)} {
			groups[i], each[i] = n, 1
			if g.Mask[i] == 0 {
				groups[i], each[i] = 1, n
			}
		}
		return groups, each
	}
	return x.shader("bias", c, func(g op.AttentionGeometry) int {
		n, _ := tiles(g)
		return n[0] * n[1] * n[2] * n[3]
	}, func(g op.AttentionGeometry) int {
		_, n := tiles(g)
		return loop(n[0]*n[1]*n[2]*n[3], c.tileLoops(0)) + c.Inner*loop(c.Outer, 0)
	}, []string{"tiles_h", "tiles_q", "tiles_k", "count_b", "count_h", "count_q", "count_k"},
		func(g op.AttentionGeometry) []int {
			n, each := tiles(g)
			return slices.Concat(n[1:], each[:])
		}, Binding{Name: "dbias", Operand: Result(3), DType: dtype.F32})
}

func (x *attentionBackward) sinks() Shader {
	return Shader{
		Name: x.n.Op.Name + " sinks", Body: part(attentionBackwardWGSL, "sinks"), Consts: x.base,
		Bindings: []Binding{backwardStatistics,
			{Name: "dsinks", Operand: Result(len(x.n.Results) - 1), DType: dtype.F32}},
		Fields: []string{"batch", "heads", "sq"},
		Params: func(c *Call) []uint32 {
			g := x.geometry(c)
			return []uint32{uint32(g.B), uint32(g.H), uint32(g.Sq)}
		},
		Groups: func(*Call) int { return int(x.shape.H) },
		Loops: func(c *Call) int {
			g := x.geometry(c)
			return loop(ceilDiv(g.B*g.Sq, 64), 0) + loop(64, 0)
		},
	}
}
