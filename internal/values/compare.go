package values

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// A Delta says how far a value is from the wanted value.
type Delta struct {
	Type  string `json:"type"`
	Len   int    `json:"elements"`
	Bad   int    `json:"differ"`             // elements that differ by more than the tolerance
	Over  int    `json:"over_op_tolerance"`  // elements that differ by more than the op's tolerance alone
	Worst int    `json:"worst"`              // index of the element that exceeds the tolerance most, or -1
	At    []int  `json:"worst_at,omitempty"` // its position
	Got   Number `json:"got"`                // the worst element
	Want  Number `json:"want"`
	// Max is the largest |got-want| of the elements that are finite in both. RMS is the root of the mean of
	// (got-want)^2, relative to that of want^2.
	Max Number  `json:"max_error"`
	RMS Number  `json:"rms_error"`
	Abs float64 `json:"tolerance_abs"` // allowed is Abs + Rel*|want|
	Rel float64 `json:"tolerance_rel"`
}

// Compare compares two values. Beside the tolerance of the op, it allows scale times the largest finite element of
// want. The error says why they cannot be compared.
func Compare(got, want *tensor.Array, tol ir.Tolerance, scale float64) (Delta, error) {
	d := Delta{Type: got.DType.String() + Brackets(got.Shape), Len: got.Len(), Worst: -1, Abs: tol.Abs, Rel: tol.Rel}
	if g, w := interp.TypeOf(got), interp.TypeOf(want); !g.Equal(w) {
		return d, fmt.Errorf("its type is %v; want %v", g, w)
	}
	if got.DType.IsPacked() {
		if err := interp.Compare(got, want, tol); err != nil {
			d.Bad, d.Over, d.Worst = d.Len, d.Len, 0
		}
		return d, nil
	}
	largest, diff, norm, excess := 0.0, 0.0, 0.0, 0.0
	for i := range d.Len {
		if w := math.Abs(want.At(i)); w <= math.MaxFloat64 { // neither NaN nor infinite
			largest = max(largest, w)
		}
	}
	d.Abs += scale * largest
	for i := range d.Len {
		g, w := got.At(i), want.At(i)
		if e := g - w; !math.IsNaN(e) && !math.IsInf(e, 0) {
			d.Max = max(d.Max, Number(math.Abs(e)))
			diff, norm = diff+e*e, norm+w*w
		}
		if interp.Excess(g, w, tol) > 0 {
			d.Over++
		}
		if e := interp.Excess(g, w, ir.Tolerance{Abs: d.Abs, Rel: d.Rel}); e > 0 {
			d.Bad++
			if d.Worst < 0 || e > excess {
				d.Worst, excess, d.Got, d.Want = i, e, Number(g), Number(w)
			}
		}
	}
	if d.Worst >= 0 {
		d.At = index(d.Worst, got.Shape)
	}
	if diff > 0 {
		d.RMS = Number(math.Sqrt(diff / max(norm, math.SmallestNonzeroFloat64)))
	}
	return d, nil
}

// String describes a difference: "1 of 12 elements differs; the worst is at [1,5] of f32[2,6]: got 2, want 1 within
// 1e-05 + 1e-05*|want|".
func (d *Delta) String() string {
	verb := "differ"
	if d.Bad == 1 {
		verb = "differs"
	}
	return fmt.Sprintf("%d of %d elements %s; the worst is at %s of %s: got %.7g, want %.7g within %.3g + %.3g*|want|",
		d.Bad, d.Len, verb, Brackets(d.At), d.Type, float64(d.Got), float64(d.Want), d.Abs, d.Rel)
}

// Tolerances returns how far the results of a step may be from those of the reference.
func (s *Step) Tolerances() []ir.Tolerance {
	return s.Node.Op.Tol(s.Node.Attrs, statics(s.In), statics(s.Outs)...)
}

// OutputTolerance returns how far output i of the method may differ from the reference's output, according to the step
// that computes it. It also returns the step's label.
func (p *Plan) OutputTolerance(sizes map[string]int64, i int) (label string, tol ir.Tolerance, err error) {
	from := p.Split.Outputs[i]
	x := p.Split.Segments[from.Segment]
	out := x.Graph.Outputs[from.Index].Node.Source()
	by, result := out.Maker()
	b, err := x.Bind(sizes)
	if err != nil {
		return "", tol, err
	}
	first := 0
	for _, s := range p.Split.Segments[:from.Segment] {
		first += len(s.Steps)
	}
	for k, s := range b.Steps {
		if s.Node == by {
			step := &Step{BoundStep: s}
			return p.Label(first+k, out), step.Tolerances()[result], nil
		}
	}
	panic("BUG: no step computes " + out.Label())
}
