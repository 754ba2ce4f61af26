// Package target describes what a backend runs: which ops on which element types, and what its kernels require of
// ranks, attributes and operands. A Description is data. Its text form is used in files and in the backend protocol.
// The compiler and the host evaluate it without the backend:
//
//	target npu 1.0
//	types f32 f16 i32 bool
//	limit rank 4
//
//	run add(f32|f16...) if broadcast = suffix
//	reference erf(f32)
//	run conv2d(f32, f32|f16 param, bias: f32)
//	run gather(any, i32)
//	run matmul(f32|f16, same param) if trans_a = false
//	run softmax(f32) if axis = last
//
// The package imports core/ir and what that imports. It knows no ops except input, param and const.
package target

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// Limits of descriptions. A backend is not trusted to send a small one.
const (
	MaxText     = 1 << 20 // bytes of the text form
	maxRules    = 4096
	maxOperands = 64 // in one rule
	maxConds    = 16 // in one rule
	maxValues   = 64 // in one condition
	maxWord     = 64 // bytes in a name
)

// How says how a target runs a node. Larger is better.
type How uint8

const (
	No        How = iota // the target does not run it
	Reference            // runs by the op's definition, which is slow
	Native               // runs by a kernel
)

func (h How) String() string { return [...]string{"no", "reference", "native"}[h] }

// Description lists the nodes that a target runs. It must not be changed while it is in use.
type Description struct {
	Name    string // of the target and of the backend, such as "cpu"
	Version string // of the backend
	// Levels are the processor features that a schedule may require. The level "x86-64-v4" belongs to the schedule
	// "cpu:x86-64-v4".
	Levels []string
	Types  []dtype.DType // element types of values, including inputs and weights
	// MaxRank is the largest rank of the operands and results of steps, MaxOperands the largest number of operands. 0
	// means no limit.
	MaxRank, MaxOperands int
	// ChannelsLast is the number of output channels from which on convolutions are faster with channels last than with
	// channels first. The compiler then turns them. 0 means that they never are.
	ChannelsLast int
	Rules        []Rule // sorted; see Sort
}

// Rule accepts some nodes of one op. The target runs a node if at least one rule accepts it.
type Rule struct {
	How How    // Native or Reference
	Op  string // or AnyOp, for every op that has a definition; such a rule has no In, Out and If
	// In has the requirements of the op's operands: first some without names, in the order of their declaration, then
	// some with names.
	In []Operand
	// More allows operands that In does not list, which must meet the last requirement without a name. A node may
	// always lack operands of In.
	More bool
	// Out has the requirements of the results. Only Types and Same are used. Further results must meet the last. Nil
	// accepts any results.
	Out []Operand
	If  []Condition

	line int // line number in the text, or 0
}

// AnyOp stands for every op in a Reference rule.
const AnyOp = "*"

// Operand is the requirement of a rule for an operand.
type Operand struct {
	Name             string        // of the operand; empty if the position says which it is
	Types            []dtype.DType // nil means any type of the target
	Same             bool          // requires the element type of the first operand, instead of Types
	Ranked           bool          // MinRank and MaxRank are set
	MinRank, MaxRank int
	Static           bool // requires that no size depends on a symbol
	Param            bool // requires a weight or a constant
}

// Condition is the requirement of a rule for an attribute. Attr is the name of the attribute, or Broadcast or Parts.
type Condition struct {
	Attr string
	Rel  string // "=", "<=" or ">="; every element of a list must meet "<=" and ">="
	// Values are alternatives. They have the types of ir.Attr.Value, or are Words. "<=" and ">=" have one number.
	Values []any
}

// Word is a value of a condition with a special meaning: Last, or one of the values of Broadcast and Parts.
type Word string

// Special attributes and words of conditions.
const (
	Last = Word("last") // in axis = last: only the last axis of the first operand

	// Broadcast says how the shapes of operands may differ from that of the result.
	Broadcast = "broadcast"
	Equal     = Word("equal")  // they may not differ
	Scalar    = Word("scalar") // an operand may have one element
	Suffix    = Word("suffix") // leading axes may be missing or 1, as in scalars

	// Parts = run requires that the target runs each op of the node's lowering natively.
	Parts = "parts"
	Run   = Word("run")
)

// Sort puts the description into canonical order, which String and Takes rely on.
func (d *Description) Sort() *Description {
	type rule struct {
		Rule
		text string
	}
	rules := make([]rule, len(d.Rules))
	for i, r := range d.Rules {
		rules[i] = rule{r, r.String()}
	}
	slices.SortFunc(rules, func(a, b rule) int {
		return cmp.Or(strings.Compare(a.Op, b.Op), cmp.Compare(b.How, a.How), strings.Compare(a.text, b.text))
	})
	for i, r := range rules {
		d.Rules[i] = r.Rule
	}
	return d
}

// Equal reports whether two descriptions have the same text.
func (d *Description) Equal(e *Description) bool { return d.String() == e.String() }

// rules returns the rules of an op. Native ones come first.
func (d *Description) rules(op string) []Rule {
	by := func(r Rule, op string) int { return strings.Compare(r.Op, op) }
	i, _ := slices.BinarySearchFunc(d.Rules, op, by)
	n := 0
	for i+n < len(d.Rules) && d.Rules[i+n].Op == op {
		n++
	}
	return d.Rules[i : i+n]
}

// Has reports whether the description has a rule for an op.
func (d *Description) Has(op string) bool { return len(d.rules(op)) > 0 }

// HasType reports whether values may have the element type.
func (d *Description) HasType(t dtype.DType) bool { return slices.Contains(d.Types, t) }

// Ops returns the ops that have a Native rule, sorted.
func (d *Description) Ops() []string {
	var out []string
	for _, r := range d.Rules {
		if r.How == Native && !slices.Contains(out, r.Op) {
			out = append(out, r.Op)
		}
	}
	return out
}

// Results of Description.Support for an op without kernels.
const (
	Expanded    = "expanded"  // the compiler rewrites it in terms of others
	ByReference = "reference" // the backend runs it by its definition
	NoStep      = "no step"   // it computes nothing, such as an input or a reshape
	None        = "none"      // the compiler refuses it
)

// Support says how a target runs an op: by kernels, whose rules it returns without their op, such as "(f32, i32)", or
// in one of the ways above.
func (d *Description) Support(def *ir.OpDef) (how string, kernels []string) {
	reference := false
	for _, r := range d.Rules {
		switch {
		case r.Op == def.Name && r.How == Native:
			kernels = append(kernels, strings.TrimPrefix(r.String(), "run "+def.Name))
		case r.How == Reference && (r.Op == def.Name || r.Op == AnyOp):
			reference = true
		}
	}
	switch {
	case def == ir.ResultDef || def.AlwaysView:
		return NoStep, nil
	case kernels != nil:
		return "kernels", kernels
	case def.Effects:
		return NoStep, nil
	case def.Block || def.CanLower():
		return Expanded, nil
	case reference:
		return ByReference, nil
	}
	return None, nil
}

// positional returns the number of requirements without a name.
func (r Rule) positional() int {
	if k := slices.IndexFunc(r.In, func(o Operand) bool { return o.Name != "" }); k >= 0 {
		return k
	}
	return len(r.In)
}

// operand returns the requirement for operand k of an op. It returns false if the rule does not take that operand.
func (r Rule) operand(def *ir.OpDef, k int) (Operand, bool) {
	n := r.positional()
	if k < n {
		return r.In[k], true
	}
	for _, o := range r.In[n:] {
		if k < len(def.Operands) && o.Name == def.Operands[k].Name {
			return o, true
		}
	}
	if r.More && n > 0 {
		return r.In[n-1], true
	}
	return Operand{}, false
}

// named returns the rule with names for the requirements of optional operands. They are needed unless the op has only
// one such operand or the requirement is for all of them.
func (r Rule) named() Rule {
	def, ok := ir.Find(r.Op)
	if !ok || def.Variadic() {
		return r
	}
	n, first := r.positional(), def.Required()
	if n != first+1 || first == len(def.Operands) || !r.More && len(def.Operands) > n {
		return r
	}
	last, named := r.In[first], r.In[n:]
	r.In = slices.Clone(r.In[:first])
	for _, o := range def.Operands[first:] {
		last.Name = o.Name
		if !slices.ContainsFunc(named, func(x Operand) bool { return x.Name == o.Name }) {
			r.In = append(r.In, last)
		}
	}
	r.In, r.More = append(r.In, named...), false
	slices.SortStableFunc(
		r.In[first:], func(a, b Operand) int { return cmp.Compare(def.Operand(a.Name), def.Operand(b.Name)) })
	return r
}

// RuleOf returns a rule that accepts every node of an op.
func RuleOf(def *ir.OpDef, how How) Rule {
	r := Rule{How: how, Op: def.Name}
	if len(def.Operands) > 0 {
		r.In, r.More = []Operand{{}}, true
	}
	return r
}

// Primitive returns a description of the smallest backend that every program can be compiled for. It has all ops that
// cannot be expressed by others, among the ops that are linked in. Elementwise ops have only the simplest broadcasts.
func Primitive(name string) *Description {
	d := &Description{Name: name, Version: "1", Types: dtype.All()}
	for _, def := range ir.Defs() {
		if def.Block || def.Effects || def == ir.ResultDef || def.CanLower() {
			continue
		}
		r := RuleOf(def, Native)
		if def.Elementwise && (len(def.Operands) > 1 || def.Variadic()) {
			r.If = []Condition{{Attr: Broadcast, Rel: "=", Values: []any{Suffix}}}
		}
		d.Rules = append(d.Rules, r)
	}
	return d.Sort()
}
