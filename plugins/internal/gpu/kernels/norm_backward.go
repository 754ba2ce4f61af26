package kernels

import (
	_ "embed"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed norm_backward.wgsl
var normBackwardWGSL string

func init() {
	for _, k := range []struct {
		op     string
		center bool
		eps    func(attrs any) float64
	}{
		{"layer_norm_backward", true, func(a any) float64 { return a.(op.LayerNormAttrs).Eps }},
		{"rms_norm_backward", false, func(a any) float64 { return a.(op.RmsNormAttrs).Eps }},
	} {
		register(Kernel{
			Op: k.op, Takes: "(f32...)",
			Shaders: func(n *ir.Node, _ Limits) []Shader {
				p := planColumns(n)
				return []Shader{normBackward(n, k.center, k.eps(n.Attrs)), p.sums(n), p.total(n)}
			},
			Scratch: func(n *ir.Node, _ Limits) int64 {
				p := planColumns(n)
				most := min(columnParts, max(1, ceilDiv(p.most, columnReads)))
				return int64(p.most+most*p.width) * 8
			},
		})
	}
}

// normBackward writes dx and, to scratch memory, the mean and the scale of each row.
func normBackward(n *ir.Node, center bool, eps float64) Shader {
	x := n.In[0].Type
	width := int(x.Shape[x.Rank()-1].Const)
	vec, v, t := 0, "", "f32"
	if fourAtOnce(n) {
		vec, v, t = 4, "4", "vec4<f32>"
	}
	units := width / max(vec, 1)
	lanes := 8
	for lanes < normGroup && (lanes < 32 && lanes < units || ceilDiv(units, lanes) > normKept/2) {
		lanes *= 2
	}
	kept := 0
	if k := ceilDiv(units, lanes); k <= normKept/2 {
		kept = k
	}
	rows := normGroup / lanes
	count := func(c *Call) int { return numel(c.In[0].Shape[:x.Rank()-1]) }
	return Shader{
		Name: n.Op.Name, Body: part(normRowsWGSL+normBackwardWGSL, "rows"),
		Fields: []string{"rows", "count:f32", "eps:f32"},
		Consts: map[string]any{"Rows": rows, "Lanes": lanes, "Units": units, "Kept": kept, "Center": center, "V": v,
			"T": t, "Full": kept*lanes == units},
		Bindings: []Binding{{Name: "x", Operand: 0, Vec: vec, DType: dtype.F32},
			{Name: "gamma", Operand: 1, Vec: vec, DType: dtype.F32},
			{Name: "dy", Operand: 2, Vec: vec, DType: dtype.F32},
			{Name: "dx", Operand: Out, Vec: vec, DType: dtype.F32}, rowStatistics},
		Params: func(c *Call) []uint32 {
			if count(c) == 0 || width == 0 {
				return nil
			}
			return []uint32{uint32(count(c)), math.Float32bits(float32(width)), math.Float32bits(float32(eps))}
		},
		Groups: func(c *Call) int { return ceilDiv(count(c), rows) },
		Loops:  func(*Call) int { return 4*loop(ceilDiv(units, lanes), 0) + 5*loop(lanes/4, 0) },
	}
}

// columns is a matrix [rows, width] whose columns are summed. Workgroups sum a range of rows for columnGroup columns
// each, and then a second shader adds these sums.
type columns struct{ width, most int }

const (
	columnGroup = 32 // columns of a workgroup
	columnLanes = 8  // invocations that share a column
	columnReads = 64 // rows of a workgroup, at least
	columnParts = 64 // parts of the rows, at most
)

func planColumns(n *ir.Node) columns {
	shape := n.Graph.Syms.Largest(n.In[0].Type.Shape)
	last := len(shape) - 1
	return columns{shape[last], numel(shape[:last])}
}

// parts divides rows. It returns the number of parts and the rows of each but the last.
func (p columns) parts(rows int) (parts, span int) {
	span = max(columnReads, ceilDiv(rows, columnParts))
	return max(1, ceilDiv(rows, span)), span
}

func (p columns) rows(c *Call) int { return numel(c.In[0].Shape[:len(c.In[0].Shape)-1]) }

func (p columns) params(c *Call) []uint32 {
	if p.width == 0 {
		return nil
	}
	parts, span := p.parts(p.rows(c))
	return []uint32{uint32(p.rows(c)), uint32(p.width), uint32(parts), uint32(span)}
}

// The sums follow the statistics of the rows in scratch memory: two for each part and column.
var columnFields = []string{"rows", "width", "parts", "span"}

func (p columns) sums(n *ir.Node) Shader {
	return Shader{
		Name: n.Op.Name, Body: part(normBackwardWGSL, "sums"), Fields: columnFields,
		Consts: map[string]any{"Columns": columnGroup, "Lanes": columnLanes},
		Bindings: []Binding{{Name: "x", Operand: 0, DType: dtype.F32}, {Name: "dy", Operand: 2, DType: dtype.F32},
			rowStatistics},
		Params: p.params,
		Groups: func(c *Call) int {
			parts, _ := p.parts(p.rows(c))
			return parts * ceilDiv(p.width, columnGroup)
		},
		Loops: func(c *Call) int {
			_, span := p.parts(p.rows(c))
			return loop(ceilDiv(span, columnLanes), 0)
		},
	}
}

func (p columns) total(n *ir.Node) Shader {
	return Shader{
		Name: n.Op.Name, Body: part(normBackwardWGSL, "total"), Fields: columnFields,
		Bindings: []Binding{rowStatistics, {Name: "dgamma", Operand: Result(1), DType: dtype.F32},
			{Name: "dbeta", Operand: Result(2), DType: dtype.F32}},
		Params: p.params,
		Groups: func(*Call) int { return ceilDiv(p.width, mapGroup) },
		Loops:  func(*Call) int { return loop(columnParts, 0) },
	}
}
