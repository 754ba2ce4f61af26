package ir

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
)

// A state is a tensor that outlives a run, such as a cache of keys and values. A node of op "state" is its value at the
// beginning of a run. An op whose definition sets Updates computes its new value, in the same memory. One with several
// results updates as many states:
//
//	cache  = state {init=0} : f32[1,8,2048,64]
//	cache1 = kv_append cache, k, pos {axis=2} : f32[1,8,2048,64]
//
// The last value of such a chain is the initial value of the next run. A chain has no branches: each value is updated
// at most once, so there is one writer at a time. A scheduler must run every reader of a value before the step that
// updates it.

// StateAttrs are the attributes of state.
type StateAttrs struct {
	Init float64 `attr:"init"`
}

// StateDef is a tensor that keeps its value from one run to the next.
var StateDef = Define(Def[StateAttrs]{
	Name: "state",
	Doc: "A tensor that lives from run to run, found by the node's name: its value at the beginning of the run. All methods of a model share it. " +
		"A new copy of a model's state holds init in every element. Its sizes are numbers, without symbols: as large as it may grow. Ops that update states " +
		"(kv_append) write over it.",
	Declared: true, Effects: true,
	Infer: func(s Sig[StateAttrs]) (Type, error) {
		t, init := s.Declared, s.Attrs.Init
		switch {
		case t.DType == dtype.Invalid:
			return t, fmt.Errorf("has no declared type")
		case !t.Shape.IsStatic():
			return t, fmt.Errorf("type is %v; want sizes without symbols, as large as the state may grow", t)
		case t.DType.IsFloat() && math.Abs(init) <= math.MaxFloat32:
			return t, nil
		case !t.DType.IsFloat() && math.Trunc(init) == init && inRange(t.DType, init):
			return t, nil
		}
		return t, fmt.Errorf("init is %v; want a number that %v can hold", init, t.DType)
	},
	Tol: func(StateAttrs, []Type, Type) Tolerance { return Tolerance{} },
	Cases: func() []Case[StateAttrs] {
		return []Case[StateAttrs]{{Out: TypeOf(dtype.F32, 2, 3)},
			{Attrs: StateAttrs{-1.5}, Out: TypeOf(dtype.BF16, 70)}, {Attrs: StateAttrs{7}, Out: TypeOf(dtype.I32)}}
	},
})

// inRange reports whether an integer or bool element type can hold a whole number.
func inRange(d dtype.DType, v float64) bool {
	lo, hi := d.IntRange()
	return v >= float64(lo) && v <= float64(hi) && math.Abs(v) <= 1<<53
}

// States returns the nodes of op "state" in order.
func (g *Graph) States() []*Node { return g.ofOp(StateDef.Name) }

// StateOf returns the state whose memory holds n's value, or nil. It follows updates and views.
func (n *Node) StateOf() *Node {
	for {
		_, view := n.View()
		old := n.Updated()
		switch {
		case n.Op == StateDef:
			return n
		case old != nil:
			n = old
		case view:
			n = n.In[0]
		default:
			return nil
		}
	}
}

// Updated returns the value of a state that n's value replaces, in the same memory, or nil if n's value is not an
// update: for result k of an op that updates states, its operand k.
func (n *Node) Updated() *Node {
	by, k := n.Maker()
	if !by.Op.Updates || n.Op.Tuple {
		return nil
	}
	return by.In[k]
}

// Updates returns the operands that n's op overwrites as updates of states. They are its first ones.
func (n *Node) Updates() []*Node {
	if !n.Op.Updates {
		return nil
	}
	return n.In[:max(1, len(n.Results))]
}

// CheckUpdate returns an error if n must not update an operand, because the operand is neither a state nor an update of
// a state, or because an earlier operand or node updates it already. updated has the values that earlier nodes update;
// CheckUpdate adds the operands that n updates.
func (n *Node) CheckUpdate(updated map[*Node]bool) error {
	for k, x := range n.Updates() {
		switch {
		case x.Op != StateDef && x.Updated() == nil:
			return fmt.Errorf("%s: operand %d (%s) is a value of op %s; want a state or the result of an update",
				n.OpName(), k, x.Label(), x.OpName())
		case updated[x]:
			return fmt.Errorf("%s: operand %d (%s) is updated by another node before; update that node's result instead",
				n.OpName(), k, x.Label())
		}
		updated[x] = true
	}
	return nil
}
