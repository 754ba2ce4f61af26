package kernels

import (
	_ "embed"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed rope_append.wgsl
var ropeAppendWGSL string

func init() { groupings = append(groupings, ropeAppendGroup) }

// ropePart is one result of rope_append.wgsl. Its unit is an element or, if all results allow it, four.
type ropePart struct {
	N      string // prefix of its names
	Value  string // function that returns the bits of an element, or four elements
	Append bool   // the result is a state
	step   int    // step of the group
}

// ropeAppendGroup finds the steps that precede attention in a layer with a key-value cache. A rotated key is written to
// the cache directly.
//
//	q1 = rope q, pos
//	k1 = rope k, pos
//	ks = kv_append keys, k1, pos
//	vs = kv_append values, v, pos
func ropeAppendGroup(nodes []*ir.Node, uses []int, l Limits) (Group, bool) {
	if end := slices.IndexFunc(nodes, func(n *ir.Node) bool { return !ropesOrAppends(n) }); end >= 0 {
		nodes = nodes[:end]
	}
	if len(nodes) < 2 || roundedAlone(nodes, l) {
		return Group{}, false
	}
	var ropes []rope
	var parts []ropePart
	var params []func(c *Call) []uint32
	s := Shader{Name: "rope_append", Body: ropeWGSL + ropeAppendWGSL}
	values := map[*ir.Node]string{} // by rope: the function that returns its elements
	vec := 4                        // elements per access; 0 for single ones
	if slices.ContainsFunc(nodes, func(n *ir.Node) bool { return !movesFours(n) }) {
		vec = 0
	}
	per := max(vec, 1) // elements per unit
	for i, n := range nodes {
		part := ropePart{N: fmt.Sprintf("p%d_", i), Append: n.Is(op.KVAppendDef), step: i}
		bind := func(name string, operand int, d dtype.DType, vec int) {
			s.Bindings = append(s.Bindings, Binding{Name: part.N + name, Operand: operand, Of: i, DType: d, Vec: vec})
		}
		s.Fields = append(s.Fields, part.N+"n")
		if part.Append {
			axis := positive(n.Attrs.(op.KVAppendAttrs).Axis, n.Type.Rank())
			if part.Value = values[n.In[1]]; part.Value == "" {
				part.Value = part.N + "x1_bits"
				if vec > 0 {
					part.Value = part.N + "x14"
				}
				bind("x1", 1, dtype.F32, vec)
			}
			bind("x2", 2, n.In[2].Type.DType, 0)
			for _, f := range appendFields {
				s.Fields = append(s.Fields, part.N+f)
			}
			params = append(params, func(c *Call) []uint32 { return appendSizes(c, axis, per) })
		} else {
			r, fields, ofRope := ropeOf(n, part.N)
			r.Encode, r.Vec, part.Value = "bitcast<u32>", vec > 0, part.N+"value"
			if len(ropes) > 0 && ropes[0].Angles != r.Angles {
				return Group{}, false
			}
			ropes = append(ropes, r)
			values[n] = part.Value
			bind("x0", 0, dtype.F32, vec)
			for k, x := range n.Operands() {
				if k > 0 {
					bind(fmt.Sprint("x", k), k, x.Type.DType, 0)
				}
			}
			s.Fields = append(s.Fields, fields...)
			params = append(params, ofRope)
			if uses[n.ID] == 1 &&
				slices.ContainsFunc(nodes, func(o *ir.Node) bool { return o.Is(op.KVAppendDef) && o.In[1] == n }) {
				continue // only the append reads its result
			}
		}
		bind("y", Out, dtype.F32, vec)
		parts = append(parts, part)
	}
	s.Bindings = append(s.Bindings, Binding{Name: "status", Operand: Status, DType: dtype.U32})
	s.Consts = struct {
		Ropes []rope
		Parts []ropePart
		Vec   bool
	}{ropes, parts, vec > 0}
	count := func(c *Call, step int) int { // units that the step writes
		if nodes[step].Is(op.KVAppendDef) {
			return numel(c.Group[step].In[1].Shape) / per
		}
		return numel(c.Group[step].Out.Shape) / per
	}
	s.Params = func(c *Call) (list []uint32) {
		for i, of := range params {
			if numel(c.Group[i].Out.Shape) == 0 {
				return nil
			}
			list = append(append(list, uint32(count(c, i))), of(c.Group[i])...)
		}
		return list
	}
	s.Loops = func(c *Call) (all int) {
		for i, n := range nodes {
			if n.Is(op.KVAppendDef) {
				all = max(all, loop(numel(c.Group[i].In[2].Shape), 0))
			}
		}
		return all
	}
	s.Groups = func(c *Call) int {
		units := 0
		for _, p := range parts {
			units += count(c, p.step)
		}
		return ceilDiv(units, 256)
	}
	return Group{Steps: len(nodes), Shaders: []Shader{s}}, true
}

// roundedAlone reports whether no result of ropes goes to a cache, and each can be written in 16 bits for attention,
// which saves more than a dispatch.
func roundedAlone(nodes []*ir.Node, l Limits) bool {
	return (l.Precision == "bf16" || l.Precision == "f16") && l.Own["attention"].ReadsRounded != nil &&
		!slices.ContainsFunc(nodes, func(n *ir.Node) bool { return !n.Is(op.RopeDef) || !inFours(n) })
}

// movesFours reports whether the step of a group can read and write vectors of four.
func movesFours(n *ir.Node) bool {
	if n.Is(op.RopeDef) {
		return inFours(n)
	}
	axis := positive(n.Attrs.(op.KVAppendAttrs).Axis, n.Type.Rank())
	return appendUnit(n, axis).words == 4
}

// ropesOrAppends reports whether n is a rope or kv_append of f32.
func ropesOrAppends(n *ir.Node) bool {
	return n.Type.DType == dtype.F32 &&
		(n.Is(op.KVAppendDef) && n.In[op.KVAppendSequence] == nil || n.Is(op.RopeDef) &&
			!slices.ContainsFunc(n.In, func(x *ir.Node) bool { return x != nil && x.Type.DType.Size() < 4 }))
}
