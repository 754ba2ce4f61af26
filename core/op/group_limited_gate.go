package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// GroupLimitedGateAttrs are the attributes of group_limited_gate.
type GroupLimitedGateAttrs struct {
	Groups     int     `attr:"groups"`      // number of groups of experts, of equal size
	GroupsKept int     `attr:"groups_kept"` // number of groups from which experts are selected
	K          int     `attr:"k"`           // number of experts per token
	Scale      float64 `attr:"scale"`       // factor of the weights
}

// GroupLimitedGateDef selects the experts of each token.
var GroupLimitedGateDef = ir.DefineTuple(ir.TupleDef[GroupLimitedGateAttrs]{
	Name: "group_limited_gate",
	Doc: "The experts of each token as DeepSeek-V3 (2024) picks them, of scores p and routing scores r, f32[T,E]: the experts are in groups that follow one another. " +
		"A group counts as much as its two largest r together, or as its only one; the groups_kept largest stay. Of their experts the k with the largest r are picked, the largest first. " +
		"Equal ones stand in the order of their indices, and a NaN in r counts as -Inf. The weight of expert e is p_e*scale, over the sum of the k picked p + 1e-20 if k > 1.",
	Results:  "indices i32[T,k], weights f32[T,k]",
	Operands: "p, r",
	Infer: func(s ir.Sig[GroupLimitedGateAttrs]) ([]ir.Type, error) {
		a, p, r := s.Attrs, s.In[0], s.In[1]
		if p.Rank() != 2 || p.DType != dtype.F32 || !p.Shape[1].IsStatic() {
			return nil, fmt.Errorf("p is %v; want f32[T,E], with a number of experts that is known", p)
		}
		if !r.Equal(p) {
			return nil, ir.TypesDiffer(r, p, "r is %v; want p's type, %v", r, p)
		}
		experts := p.Shape[1].Const
		if a.Groups < 1 || experts < 1 || experts%int64(a.Groups) != 0 {
			return nil, fmt.Errorf("groups is %d; want 1 to %d, a divisor of the %d experts of %v", a.Groups, experts,
				experts, p)
		}
		if a.GroupsKept < 1 || a.GroupsKept > a.Groups {
			return nil, fmt.Errorf("groups_kept is %d; want 1 to %d, the number of groups", a.GroupsKept, a.Groups)
		}
		if most := int64(a.GroupsKept) * (experts / int64(a.Groups)); a.K < 1 || int64(a.K) > most {
			return nil, fmt.Errorf("k is %d; want 1 to %d, the experts of %d groups", a.K, most, a.GroupsKept)
		}
		shape := ir.Shape{p.Shape[0], ir.Static(int64(a.K))}
		return []ir.Type{{DType: dtype.I32, Shape: shape}, {DType: dtype.F32, Shape: shape}},
			checkIndex(dtype.I32, p, p.Rank()-1, s.Syms)
	},
	Eval: func(a GroupLimitedGateAttrs, in, out []*tensor.Array) error {
		experts := in[0].Shape[1]
		size := experts / a.Groups
		order, scores, groups := make([]int, experts), make([]float64, experts), make([]float64, a.Groups)
		// first puts indices 0 to n-1 of x into order, the largest first and NaN last.
		first := func(order []int, x []float64) []int {
			for i := range order {
				order[i] = i
			}
			values := tensor.Array{Floats: x}
			slices.SortStableFunc(order, func(i, j int) int { return descending(&values, i, j) })
			return order
		}
		for t := range in[0].Shape[0] {
			p := in[0].Floats[t*experts:][:experts]
			for e, v := range in[1].Floats[t*experts:][:experts] {
				scores[e] = v
				if math.IsNaN(v) {
					scores[e] = math.Inf(-1)
				}
			}
			for g := range groups {
				x := scores[g*size:][:size]
				best := first(order[:size], x)
				groups[g] = x[best[0]]
				if size > 1 {
					groups[g] = float64(float32(x[best[0]] + x[best[1]]))
				}
			}
			kept := map[int]bool{}
			for _, g := range first(order[:a.Groups], groups)[:a.GroupsKept] {
				kept[g] = true
			}
			n, sum := 0, 1e-20
			for _, e := range first(order, scores) {
				if n < a.K && kept[e/size] {
					out[0].Ints[t*a.K+n], out[1].Floats[t*a.K+n] = int64(e), p[e]*a.Scale
					sum += p[e]
					n++
				}
			}
			for j := range a.K {
				if a.K > 1 {
					out[1].Floats[t*a.K+j] /= sum
				}
			}
		}
		return nil
	},
	Memory: func(s ir.Sig[GroupLimitedGateAttrs], _ []ir.Type) int64 {
		return 24*s.In[0].Shape[1].Const + 64*int64(s.Attrs.Groups)
	},
	Tol: func(_ GroupLimitedGateAttrs, _, out []ir.Type) []ir.Tolerance {
		return []ir.Tolerance{{}, forDType(out[1].DType, 1e-6, 1e-5)}
	},
	Cases: func() []ir.Case[GroupLimitedGateAttrs] {
		c := func(tokens, experts int64, groups, kept, k int) ir.Case[GroupLimitedGateAttrs] {
			return ir.Case[GroupLimitedGateAttrs]{Attrs: GroupLimitedGateAttrs{groups, kept, k, 2.5},
				In:   []ir.Type{f32(tokens, experts), f32(tokens, experts)},
				Fill: []ir.Range{{Lo: 0.1, Hi: 1}, {Lo: 0, Hi: 1}}}
		}
		return []ir.Case[GroupLimitedGateAttrs]{c(1, 1, 1, 1, 1), c(3, 8, 4, 2, 3), c(5, 64, 8, 4, 8),
			c(2, 256, 8, 4, 8), c(4, 6, 6, 3, 2), c(0, 8, 2, 1, 2), c(7, 15, 3, 3, 1)}
	},
})

// GroupLimitedGate adds the selection of k experts for each token, from the best groups.
func GroupLimitedGate(p, r *ir.Node, a GroupLimitedGateAttrs) (indices, weights *ir.Node) {
	n := p.Graph.AddResults(2, GroupLimitedGateDef, a, p, r)
	return n[0], n[1]
}

var _ = ir.LowerTuple(GroupLimitedGateDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	a, p, r := n.Attrs.(GroupLimitedGateAttrs), in[0], in[1]
	tokens, experts := p.Type.Shape[0], p.Type.Shape[1]
	groups, size := ir.Static(int64(a.Groups)), ir.Static(experts.Const/int64(a.Groups))
	number := func(v float64) *ir.Node { return Const(g, v, ir.TypeOf(dtype.F32)) }
	r = Where(Ne(r, r), number(math.Inf(-1)), r)
	grouped := Reshape(r, ir.Shape{tokens, groups, size})
	best, _ := TopK(grouped, int(min(2, size.Const)))
	_, kept := TopK(ReduceSum(best, false, 2), a.GroupsKept)
	// Groups that are not kept are NaN, which comes last.
	group := Iota(g, 2, ir.Type{DType: dtype.I32, Shape: ir.Shape{ir.Static(1), ir.Static(1), groups}})
	among := Eq(Reshape(kept, ir.Shape{tokens, ir.Static(int64(a.GroupsKept)), ir.Static(1)}), group)
	keep := Reshape(ReduceMax(Cast(among, dtype.I32), false, 1), ir.Shape{tokens, groups, ir.Static(1)})
	masked := Where(Gt(keep, Const(g, 0, ir.TypeOf(dtype.I32))), grouped, number(math.NaN()))
	_, indices := TopK(Reshape(masked, p.Type.Shape), a.K)
	picked := GatherBatched(p, indices, 1)
	weights := Mul(picked, number(a.Scale))
	if a.K > 1 {
		weights = Div(weights, Add(ReduceSum(picked, true, 1), number(1e-20)))
	}
	return []*ir.Node{indices, weights}
})
