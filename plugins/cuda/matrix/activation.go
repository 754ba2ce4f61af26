package matrix

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/op"
)

// activation returns a function that writes code which replaces the f32 in a register by its activation. act is the
// value of an act attribute. The function is nil if there is no code for it.
func activation(act string) func(t *text, x string) {
	if f := activations[act]; f != nil {
		return f
	}
	_, attrs, err := op.ParseActivation(act)
	if err != nil {
		return nil
	}
	switch a := attrs.(type) {
	case op.ClampAttrs:
		return func(t *text, x string) { t.clamp(x, a.Min, a.Max) }
	case op.HardsigmoidAttrs:
		return func(t *text, x string) {
			t.add("fma.rn.f32 %s, %s, %s, %s", x, x, float(a.Alpha), float(a.Beta))
			t.clamp(x, 0, 1)
		}
	}
	return nil
}

// activations has the functions of activation without attributes. Errors are at most a few units of 2^-22, relative to
// the larger of the result and 1.
var activations = map[string]func(t *text, x string){
	"": func(*text, string) {},
	"relu": func(t *text, x string) {
		t.add("max.NaN.f32 %s, %s, 0f00000000", x, x)
	},
	"sigmoid": func(t *text, x string) {
		s := t.sigmoid(x)
		t.add("mov.f32 %s, %s", x, s)
	},
	"silu": func(t *text, x string) {
		s := t.sigmoid(x)
		t.add("mul.f32 %s, %s, %s", x, x, s)
	},
	"tanh": func(t *text, x string) {
		h := t.tanh(x)
		t.add("mov.f32 %s, %s", x, h)
	},
	"hardswish": func(t *text, x string) {
		s := t.get("f", "fma.rn.f32", "%s, %s, 0f3F000000", x, float(1./6))
		t.clamp(s, 0, 1)
		t.add("mul.f32 %s, %s, %s", x, x, s)
	},
	// h + |h| erf(|x| / sqrt 2) with h = x / 2; erf(z) = 1 - p(k) e^(-z z) with k = 1 / (1 + 0.3275911 z), as in
	// Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26
	"gelu": func(t *text, x string) {
		a := t.get("f", "abs.f32", "%s", x)
		d := t.get("f", "fma.rn.f32", "%s, %s, 0f3F800000", a, float(0.3275911/math.Sqrt2))
		k := t.get("f", "rcp.approx.ftz.f32", "%s", d)
		p := t.get("f", "fma.rn.f32", "%s, %s, %s", k, float(1.061405429), float(-1.453152027))
		t.add("fma.rn.f32 %s, %s, %s, %s", p, p, k, float(1.421413741))
		t.add("fma.rn.f32 %s, %s, %s, %s", p, p, k, float(-0.284496736))
		t.add("fma.rn.f32 %s, %s, %s, %s", p, p, k, float(0.254829592))
		t.add("mul.f32 %s, %s, %s", p, p, k)
		e := t.get("f", "mul.f32", "%s, %s", x, x)
		t.add("mul.f32 %s, %s, %s", e, e, float(-math.Log2E/2))
		t.add("ex2.approx.ftz.f32 %s, %s", e, e)
		t.add("neg.f32 %s, %s", e, e)
		erf := t.get("f", "fma.rn.f32", "%s, %s, 0f3F800000", p, e)
		h := t.get("f", "mul.f32", "%s, 0f3F000000", x)
		t.add("abs.f32 %s, %s", a, h)
		t.add("fma.rn.f32 %s, %s, %s, %s", x, a, erf, h)
	},
	// 0.5 x (1 + tanh(u)) = x / (1 + e^(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3)
	"gelu_tanh": func(t *text, x string) {
		c := -2 * math.Log2E * math.Sqrt(2/math.Pi)
		e := t.get("f", "mul.f32", "%s, %s", x, x)
		t.add("fma.rn.f32 %s, %s, %s, %s", e, e, float(0.044715*c), float(c))
		t.add("mul.f32 %s, %s, %s", e, e, x)
		t.add("mul.f32 %s, %s, %s", x, x, t.shareOfOne(e))
	},
}

// float returns a constant.
func float(v float64) string { return fmt.Sprintf("0f%08X", math.Float32bits(float32(v))) }

// clamp limits a float to a range. NaN stays NaN.
func (t *text) clamp(x string, least, most float64) {
	t.add("max.NaN.f32 %s, %s, %s", x, x, float(least))
	t.add("min.NaN.f32 %s, %s, %s", x, x, float(most))
}

// sigmoid returns 1 / (1 + e^-x).
func (t *text) sigmoid(x string) string {
	return t.shareOfOne(t.get("f", "mul.f32", "%s, %s", x, float(-math.Log2E)))
}

// tanh returns 1 - 2 / (1 + e^2x).
func (t *text) tanh(x string) string {
	r := t.shareOfOne(t.get("f", "mul.f32", "%s, %s", x, float(2*math.Log2E)))
	return t.get("f", "fma.rn.f32", "%s, 0fC0000000, 0f3F800000", r)
}

// shareOfOne returns 1 / (1 + 2^x), and overwrites x. Results below 2^-126 are 0: instructions that keep denormals take
// three to four times as many.
func (t *text) shareOfOne(x string) string {
	t.add("ex2.approx.ftz.f32 %s, %s", x, x)
	t.add("add.f32 %s, %s, 0f3F800000", x, x)
	return t.get("f", "rcp.approx.ftz.f32", "%s", x)
}
