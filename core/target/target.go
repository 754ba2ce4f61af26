// Package target describes what a backend runs: for each op the element types, and what its kernels require of ranks,
// attributes and operands. A Description is data: it has a readable text form for files and the backend protocol, and the compiler
// and the host evaluate it without the backend:
//
//	target npu 1.0
//	types f32 f16 i32 bool
//	limit rank 4
//
//	run add(f32|f16...) if broadcast = suffix
//	reference erf(f32)
//	run gather(any, i32)
//	run matmul(f32|f16, same param) if trans_a = false
//	run softmax(f32) if axis = last
//
// It imports core/ir and below, and knows no op beyond the leaves input, param and const.
package target

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// Limits of descriptions, which come from backends.
const (
	MaxText     = 1 << 20 // bytes of the text form
	maxRules    = 4096
	maxOperands = 64 // written in one rule
	maxConds    = 16 // of one rule
	maxValues   = 64 // of one condition
	maxWord     = 64 // bytes of a name
)

// How is how a target runs a node. Larger is better.
type How uint8

const (
	No        How = iota // not at all
	Reference            // by the op's definition, slowly: a last resort
	Native               // by a kernel
)

func (h How) String() string { return [...]string{"no", "reference", "native"}[h] }

// Description describes the nodes that a target runs. It must not be changed once it is in use.
type Description struct {
	Name    string // of the target, which is the backend's: "cpu"
	Version string // of the backend
	// Levels are what a schedule may require of the processor: "x86-64-v4" stands for the schedule "cpu:x86-64-v4".
	Levels []string
	Types  []dtype.DType // of values, inputs and weights included
	// MaxRank and MaxOperands bound the operands of steps and their results; 0 means no limit.
	MaxRank, MaxOperands int
	Rules                []Rule // sorted; see Sort
}

// Rule takes nodes of one op. A node needs one rule that fits.
type Rule struct {
	How How    // Native or Reference
	Op  string // AnyOp means every op that has a definition; such a rule has no other fields
	In  []Operand
	// More is set if further operands must be as the last of In. Otherwise there may be fewer operands than In, but not more.
	More bool
	// Out are the results, as In are the operands, of which only Types and Same count; further results must be as the last. Nil means any.
	Out []Operand
	If  []Condition

	line int // of the text; 0 for none
}

// AnyOp is the op of a Reference rule for every op.
const AnyOp = "*"

// Operand is what a rule requires of an operand.
type Operand struct {
	Types            []dtype.DType // nil means any that the target has
	Same             bool          // the element type of operand 0, in place of Types
	Ranked           bool          // MinRank and MaxRank count
	MinRank, MaxRank int
	Static           bool // no size depends on a symbol
	Param            bool // a weight or a constant, known before the run
}

// Condition is what a rule requires of an attribute, or of the whole node: Attr may also be Broadcast or Parts.
type Condition struct {
	Attr string
	Rel  string // "=", "<=" or ">="; of a list, every element counts
	// Values are alternatives, of the types of ir.Attr.Value or Word. Relations other than "=" have one number.
	Values []any
}

// Word is a value that is not an attribute value: Last, or one of those that Broadcast and Parts take.
type Word string

// Words of conditions.
const (
	Last = Word("last") // axis = last: the last axis of operand 0; of a list of axes, only that

	// Broadcast is how operands may differ in shape from the result.
	Broadcast = "broadcast"
	Equal     = Word("equal")  // not at all
	Scalar    = Word("scalar") // one element is repeated
	Suffix    = Word("suffix") // leading axes are missing, or 1; scalars included

	// Parts = run: each op of the node's expansion is one that the target runs natively.
	Parts = "parts"
	Run   = Word("run")
)

// Sort puts the description into its one order, which String prints and Takes relies on.
func (d *Description) Sort() *Description {
	slices.SortFunc(d.Rules, func(a, b Rule) int {
		return cmp.Or(strings.Compare(a.Op, b.Op), cmp.Compare(b.How, a.How), strings.Compare(a.String(), b.String()))
	})
	return d
}

// Equal reports whether two descriptions say the same.
func (d *Description) Equal(e *Description) bool { return d.String() == e.String() }

// rules are those of an op, natives first.
func (d *Description) rules(op string) []Rule {
	by := func(r Rule, op string) int { return strings.Compare(r.Op, op) }
	i, _ := slices.BinarySearchFunc(d.Rules, op, by)
	n := 0
	for i+n < len(d.Rules) && d.Rules[i+n].Op == op {
		n++
	}
	return d.Rules[i : i+n]
}

// HasType reports whether values may have the element type.
func (d *Description) HasType(t dtype.DType) bool { return slices.Contains(d.Types, t) }

// Ops lists the ops that have a Native rule, sorted.
func (d *Description) Ops() []string {
	var out []string
	for _, r := range d.Rules {
		if r.How == Native && !slices.Contains(out, r.Op) {
			out = append(out, r.Op)
		}
	}
	return out
}

// RuleOf takes every node of an op.
func RuleOf(def *ir.OpDef, how How) Rule {
	r := Rule{How: how, Op: def.Name}
	if def.MaxIn != 0 {
		r.In, r.More = []Operand{{}}, true
	}
	return r
}

// Primitive describes what a backend has to run at least so that every program can be compiled for it: the ops that no other
// ops express. Elementwise operands are broadcast in the plainest way. It is made from the ops that are linked in.
func Primitive(name string) *Description {
	d := &Description{Name: name, Version: "1", Types: dtype.All()}
	for _, def := range ir.Defs() {
		if def.Block || def.Effects || def == ir.ResultDef || def.CanLower() {
			continue
		}
		r := RuleOf(def, Native)
		if def.Elementwise && def.MaxIn > 1 {
			r.If = []Condition{{Attr: Broadcast, Rel: "=", Values: []any{Suffix}}}
		}
		d.Rules = append(d.Rules, r)
	}
	return d.Sort()
}
