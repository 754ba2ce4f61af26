package op

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
)

// Limits of elementwise_region.
const (
	MaxRegionInputs = 16
	MaxRegionSteps  = 32
)

// RegionStep is one elementwise op of a region. Its result has the number of the step.
type RegionStep struct {
	Op    *ir.OpDef // see CanBeInRegion
	Attrs any
	In    []RegionOperand
}

// OperandKind is the kind of an operand of a region step.
type OperandKind uint8

const (
	RegionInput   OperandKind = iota // operand Index of the region
	RegionResult                     // result of step Index
	RegionLiteral                    // the number Value
)

// RegionOperand is an operand of a region step.
type RegionOperand struct {
	Kind  OperandKind
	Index int
	Value float32
}

// String returns i0, v3 or a number with a point or an exponent.
func (o RegionOperand) String() string {
	switch o.Kind {
	case RegionInput:
		return "i" + strconv.Itoa(o.Index)
	case RegionResult:
		return "v" + strconv.Itoa(o.Index)
	}
	s := strconv.FormatFloat(float64(o.Value), 'g', -1, 32)
	if !strings.ContainsAny(s, ".eIN") {
		s += ".0"
	}
	return s
}

// FormatRegion returns steps as text. It is the only form that elementwise_region accepts.
func FormatRegion(steps []RegionStep) string {
	var b strings.Builder
	for i, s := range steps {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "v%d=%s(", i, s.Op.Name)
		for k, o := range s.In {
			if k > 0 {
				b.WriteByte(',')
			}
			b.WriteString(o.String())
		}
		for _, a := range s.Op.AttrTexts(s.Attrs) {
			b.WriteString("," + a)
		}
		b.WriteByte(')')
	}
	return b.String()
}

// regionGrammar is the grammar of expr, for spec/ops.md.
const regionGrammar = "```\n" +
	"expr    = step { \"; \" step } .                                      at most 32, v0, v1, ... in order\n" +
	"step    = \"v\" int \"=\" op \"(\" operand { \",\" operand } { \",\" attr } \")\" .\n" +
	"operand = \"i\" int | \"v\" int | number .                             operand of the region, result of an earlier step, or an f32\n" +
	"attr    = name \"=\" value .                                        those that are not zero, names ascending\n" +
	"value   = number | int | \"true\" | dtype .\n" +
	"```\n\n" +
	"An op is elementwise, with attributes that are numbers, bools or element types. A number is the shortest decimal that is the same f32 (of an " +
	"attribute: f64), with an exponent of two digits or more if that is below -4 or above 5, and with \".0\" where it would look like an int: 2.0, 0.1, 1e-06, " +
	"1.5e+06, +Inf, -Inf, NaN. There are no other spaces. Every step but the last is used by a later one, and the operands that are used are i0, i1, ... without gaps."

// ParseRegion parses the steps of a region, such as "v0=add(i0,i1); v1=elu(v0,alpha=1.0)". Steps are named v0, v1, ...
// in order. Each is an elementwise op on operands of the region (i0, i1, ...), results of earlier steps, and f32
// numbers such as 2.0, 1e-06, +Inf or NaN. Attributes that are not zero follow the operands.
//
// The last step is the result of the region. A later step must use each of the others. The operands in use must be i0,
// i1, ... without gaps. Each region has only one form: ParseRegion returns an error for text that FormatRegion would
// print differently.
func ParseRegion(expr string) ([]RegionStep, error) {
	var steps []RegionStep
	for text := range strings.SplitSeq(expr, "; ") {
		if len(steps) == MaxRegionSteps {
			return nil, fmt.Errorf("region has more than %d steps", MaxRegionSteps)
		}
		s, err := parseRegionStep(text, len(steps))
		if err != nil {
			return nil, fmt.Errorf("region step %q: %w", text, err)
		}
		steps = append(steps, s)
	}
	if err := checkRegionUses(steps); err != nil {
		return nil, err
	}
	if canon := FormatRegion(steps); canon != expr {
		return nil, fmt.Errorf("region %q: want it written as %q", expr, canon)
	}
	return steps, nil
}

func parseRegionStep(text string, number int) (RegionStep, error) {
	rest, ok := strings.CutPrefix(text, fmt.Sprintf("v%d=", number))
	if !ok {
		return RegionStep{}, fmt.Errorf("want v%d=OP(OPERAND,...)", number)
	}
	name, args, ok := strings.Cut(rest, "(")
	args, ok2 := strings.CutSuffix(args, ")")
	if !ok || !ok2 {
		return RegionStep{}, fmt.Errorf("want v%d=OP(OPERAND,...)", number)
	}
	def, ok := ir.Find(name)
	if !ok || !CanBeInRegion(def) {
		return RegionStep{}, fmt.Errorf("%q is not an op that a region may have", name)
	}
	s := RegionStep{Op: def}
	texts := strings.Split(args, ",")
	operands := slices.IndexFunc(texts, func(t string) bool { return strings.Contains(t, "=") })
	if operands < 0 {
		operands = len(texts)
	}
	var err error
	if s.Attrs, err = parseAttrs(def, texts[operands:]); err != nil {
		return RegionStep{}, err
	}
	for _, arg := range texts[:operands] {
		o, err := parseRegionOperand(arg, number)
		if err != nil {
			return RegionStep{}, err
		}
		s.In = append(s.In, o)
	}
	if len(s.In) != len(def.Operands) {
		return RegionStep{}, fmt.Errorf("%d operands; %s takes %s", len(s.In), name, def.Signature())
	}
	return s, nil
}

// CanBeInRegion reports whether an op may be a step of elementwise_region. It must be elementwise and not a block, and
// its attributes must be numbers, bools or element types.
func CanBeInRegion(def *ir.OpDef) bool {
	wide := func(name string) bool { kind := def.AttrKind(name); return kind == "string" || kind == "ints" }
	return def.Elementwise && !def.Block && !slices.ContainsFunc(def.AttrNames(), wide)
}

func parseRegionOperand(s string, step int) (RegionOperand, error) {
	if s != "" && (s[0] == 'i' || s[0] == 'v') {
		kind, limit := RegionInput, MaxRegionInputs
		if s[0] == 'v' {
			kind, limit = RegionResult, step
		}
		n, err := strconv.Atoi(s[1:])
		if err != nil || n < 0 || n >= limit {
			return RegionOperand{}, fmt.Errorf("operand %q: want i0 to i%d or an earlier step", s, MaxRegionInputs-1)
		}
		return RegionOperand{Kind: kind, Index: n}, nil
	}
	v, err := strconv.ParseFloat(s, 32)
	if err != nil {
		return RegionOperand{}, fmt.Errorf("operand %q: want an input, a step or an f32 number", s)
	}
	return RegionOperand{Kind: RegionLiteral, Value: float32(v)}, nil
}

// checkRegionUses returns an error if nothing uses a step before the last, if the inputs have gaps, or if the region
// has no inputs.
func checkRegionUses(steps []RegionStep) error {
	var input [MaxRegionInputs]bool
	var result [MaxRegionSteps]bool
	for _, s := range steps {
		for _, o := range s.In {
			switch o.Kind {
			case RegionInput:
				input[o.Index] = true
			case RegionResult:
				result[o.Index] = true
			}
		}
	}
	for i := range steps[:len(steps)-1] {
		if !result[i] {
			return fmt.Errorf("region step v%d is not used", i)
		}
	}
	for i := 1; i < len(input); i++ {
		if input[i] && !input[i-1] {
			return fmt.Errorf("region uses i%d but not i%d", i, i-1)
		}
	}
	if !input[0] {
		return fmt.Errorf("region uses no inputs")
	}
	return nil
}

// regionInputs returns the number of operands that steps read.
func regionInputs(steps []RegionStep) int {
	n := 0
	for _, s := range steps {
		for _, o := range s.In {
			if o.Kind == RegionInput {
				n = max(n, o.Index+1)
			}
		}
	}
	return n
}

// regionUnread returns the operands on which the result of a region does not depend, for each value of an operand that
// is the condition of one of its steps.
func regionUnread(a ElementwiseRegionAttrs) (list []ir.Unread) {
	steps, err := ParseRegion(a.Expr)
	if err != nil {
		return nil
	}
	n := regionInputs(steps)
	for by := range n {
		for _, value := range []bool{false, true} {
			if needs := regionNeeds(steps, by, value); needs != 1<<n-1 {
				for k := range n {
					if k != by && needs>>k&1 == 0 {
						list = append(list, ir.Unread{Operand: k, By: by, Value: value})
					}
				}
			}
		}
	}
	return list
}

// regionNeeds returns the operands on which the result of steps depends if operand by is a bool of that value, as bits.
func regionNeeds(steps []RegionStep, by int, value bool) uint32 {
	var needs [MaxRegionSteps]uint32
	for i, s := range steps {
		for k, o := range s.In {
			if slices.ContainsFunc(s.Op.Unread(s.Attrs), func(u ir.Unread) bool {
				return u.Operand == k && u.Value == value && s.In[u.By] == RegionOperand{Kind: RegionInput, Index: by}
			}) {
				continue
			}
			switch o.Kind {
			case RegionInput:
				needs[i] |= 1 << o.Index
			case RegionResult:
				needs[i] |= needs[o.Index]
			}
		}
	}
	return needs[len(steps)-1]
}
