package values

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// MaxBad is the number of bad values that a Finder collects.
const MaxBad = 3

// Bad.Around has reach elements on each side of the first bad element.
const reach = 2

// A Bad is a value with NaN or infinities.
type Bad struct {
	Method string   `json:"method"`
	Step   int      `json:"step"` // of the method, from 1
	Op     string   `json:"op"`
	Name   string   `json:"name"`
	Type   string   `json:"type"` // with the sizes of the run
	Len    int      `json:"elements"`
	NaN    int      `json:"nan"`
	Inf    int      `json:"inf"`
	First  int      `json:"first"`  // index of the first bad element
	At     []int    `json:"at"`     // its position
	Around []Number `json:"around"` // it and the elements beside it, in row-major order
	Good   *Good    `json:"last_good,omitempty"`
	// Inside names the part of the op that first makes a bad element when the reference evaluates the parts one by one:
	// "v1=log(v0)". It is empty if the op has no parts, or is too large to evaluate. Sound is set if the reference
	// finds no bad element: then the backend is at fault.
	Inside string `json:"inside,omitempty"`
	Sound  bool   `json:"reference_differs,omitempty"`
	// Iterations tells in which iteration of a loop that part is, from 0: of the step itself, then of loops in it.
	Iterations []int `json:"iterations,omitempty"`

	label string
}

// A Good is the last finite value before a bad one, and its range.
type Good struct {
	Name string  `json:"name"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
}

// A Number is a number in JSON. NaN and infinities, which JSON lacks, are strings.
type Number float64

// MarshalJSON returns the number, or a string such as "NaN" or "-Inf".
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte(strconv.Quote(strconv.FormatFloat(v, 'g', -1, 64))), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 64), nil
}

// Label names the step in messages: "f step 2 of 3 (log b)".
func (b *Bad) Label() string { return b.label }

// Counts returns "2 NaN and 1 Inf of 6".
func (b *Bad) Counts() string {
	var counts []string
	if b.NaN > 0 {
		counts = append(counts, fmt.Sprintf("%d NaN", b.NaN))
	}
	if b.Inf > 0 {
		counts = append(counts, fmt.Sprintf("%d Inf", b.Inf))
	}
	return fmt.Sprintf("%s of %d", strings.Join(counts, " and "), b.Len)
}

// Cause describes the cause, as far as it is known: the part of the op that makes the first bad element, or that the
// backend is at fault. It may be empty.
func (b *Bad) Cause() string {
	switch {
	case b.Inside != "":
		return "made by " + b.Inside
	case b.Sound:
		return "not made by the reference, so the backend is wrong"
	}
	return ""
}

// String describes the value in one line: "2 NaN of 6 elements; the first is element 3, at [1,0] of f32[2,3]: 1 2 NaN".
func (b *Bad) String() string {
	s := fmt.Sprintf("%s elements of %s; the first is at %v, among %s", b.Counts(), b.Type, Brackets(b.At),
		Numbers(b.Around))
	if cause := b.Cause(); cause != "" {
		s += "; " + cause
	}
	if b.Good != nil {
		s += fmt.Sprintf("; the last good value, %s, is %.4g to %.4g", b.Good.Name, b.Good.Min, b.Good.Max)
	}
	return s
}

// Numbers formats numbers for people, separated by blanks.
func Numbers(list []Number) string {
	text := make([]string, len(list))
	for i, v := range list {
		text[i] = fmt.Sprintf("%.4g", float64(v))
	}
	return strings.Join(text, " ")
}

// Brackets formats a shape or a position: "[2,3]".
func Brackets(list []int) string { return strings.ReplaceAll(fmt.Sprint(list), " ", ",") }

// A Finder finds the first values of a run with NaN or infinities. An infinity counts if a step makes it from finite
// operands, or from a value that counts. Infinities that the model has on purpose, as in the constant mask of an
// attention, do not count.
type Finder struct {
	NaN, Inf bool // what to look for
	Found    []Bad

	plan   *Plan
	good   *Good
	origin map[key]infinity // of the values with infinities so far
}

// infinity says where the infinities of a value come from.
type infinity uint8

const (
	meant infinity = iota + 1 // from a constant, a weight, an input or an attribute
	made                      // from a step with finite operands
)

// NewFinder returns a Finder for a run of p.
func NewFinder(p *Plan, nan, inf bool) *Finder {
	return &Finder{NaN: nan, Inf: inf, plan: p, origin: map[key]infinity{}}
}

// Good tells the Finder of a value before the first step, such as an input.
func (f *Finder) Good(name string, t tensor.Tensor) {
	if sum, ok := Summarise(t); ok && t.DType.IsFloat() && sum.Finite() && sum.Len > 0 {
		f.good = &Good{name, sum.Min, sum.Max}
	}
}

// Done reports whether the Finder has found all that it collects.
func (f *Finder) Done() bool { return len(f.Found) == MaxBad }

// Step examines the results of a step. It is the function of a Follower.
func (f *Finder) Step(s *Step) error {
	for k, n := range s.Node.Values() {
		t := s.Results[k]
		if !t.DType.IsFloat() || f.Done() {
			continue
		}
		sum, _ := Summarise(t)
		bad := f.NaN && sum.NaN > 0
		if sum.Inf > 0 && f.Inf {
			from, err := f.from(s)
			if err != nil {
				return err
			}
			f.origin[key{s.Segment, n.ID}] = from
			bad = bad || from == made
		}
		if !bad {
			f.Good(n.Label(), t)
			continue
		}
		b := Bad{Method: f.plan.Split.Method, Step: s.Index + 1, Op: s.Node.OpName(), Name: n.Label(),
			Type: typeText(t), Len: sum.Len, NaN: sum.NaN, Inf: sum.Inf, First: sum.FirstNaN, Good: f.good,
			label: s.Label(k)}
		if !f.NaN || sum.FirstNaN < 0 || f.Inf && sum.FirstInf >= 0 && sum.FirstInf < sum.FirstNaN {
			b.First = sum.FirstInf
		}
		b.At, b.Around = index(b.First, t.Shape), around(t, b.First, reach)
		var err error
		test := hasNaN
		if !f.NaN || sum.NaN == 0 {
			test = hasInf
		}
		if s.IsLoop() {
			var at []At
			b.Inside, at, b.Sound, err = s.insideLoop(test)
			for _, x := range at {
				b.Iterations = append(b.Iterations, x.Iteration)
			}
		} else {
			b.Inside, b.Sound, err = s.inside(test)
		}
		if err != nil {
			return err
		}
		f.Found = append(f.Found, b)
	}
	return nil
}

// typeText returns "f32[2,3]".
func typeText(t tensor.Tensor) string {
	return t.DType.String() + Brackets(t.Shape)
}

// from returns where the infinities in the results of a step come from.
func (f *Finder) from(s *Step) (infinity, error) {
	if len(s.Node.In) == 0 { // a constant
		return meant, nil
	}
	found := infinity(0)
	for k, x := range s.Node.Operands() {
		seg, src, _ := f.plan.origin(s.Segment, x)
		if !src.Op.Effects {
			found = max(found, f.origin[key{seg, src.ID}])
			continue
		}
		t, err := s.Operand(k)
		if err != nil {
			return 0, err
		}
		if sum, ok := Summarise(t); ok && t.DType.IsFloat() && sum.Inf > 0 {
			found = max(found, meant)
		}
	}
	if found != 0 {
		return found, nil
	}
	if !attrHasInf(s.Node) {
		return made, nil
	}
	// One of its numbers is infinite, so parts decide.
	first, err := s.part(hasInf)
	if err == nil && first != "" {
		return made, nil
	}
	return meant, err
}

// attrHasInf reports whether an attribute of a node is an infinity, or a text with one.
func attrHasInf(n *ir.Node) bool {
	for _, a := range n.Op.Attrs(n.Attrs) {
		switch v := a.Value.(type) {
		case float64:
			if math.IsInf(v, 0) {
				return true
			}
		case string:
			if strings.Contains(v, "Inf") {
				return true
			}
		}
	}
	return false
}

func hasInf(a *tensor.Array) bool {
	return a != nil && slices.ContainsFunc(a.Floats, func(v float64) bool { return math.IsInf(v, 0) })
}

func hasNaN(a *tensor.Array) bool { return a != nil && slices.ContainsFunc(a.Floats, math.IsNaN) }

// inside returns the part of a step's op that makes the first bad element, and whether the result of the reference has
// no bad elements. bad reports whether a value has bad elements.
func (s *Step) inside(bad func(*tensor.Array) bool) (name string, sound bool, err error) {
	in, err := s.Operands()
	if err != nil || s.work() > maxWork {
		return "", false, err
	}
	if slices.ContainsFunc(in, bad) {
		return "", false, nil // it only passes on what others have made
	}
	if s.Node.Op.CanLower() {
		name, err = s.part(bad)
		if name != "" || err != nil {
			return name, false, err
		}
	}
	want, err := s.reference(in)
	return "", err == nil && !slices.ContainsFunc(want, bad), nil
}
