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
	// 0.5 x (1 + erf(x / sqrt 2)); erf as in Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26
	"gelu": func(t *text, x string) {
		z := t.get("f", "mul.f32", "%s, 0f3F3504F3", x)
		a := t.get("f", "abs.f32", "%s", z)
		d := t.get("f", "fma.rn.f32", "%s, 0f3EA7BA05, 0f3F800000", a)
		k := t.get("f", "rcp.approx.f32", "%s", d)
		p := t.get("f", "fma.rn.f32", "%s, 0f3F87DC22, 0fBFBA00E3", k)
		t.add("fma.rn.f32 %s, %s, %s, 0f3FB5F0E3", p, p, k)
		t.add("fma.rn.f32 %s, %s, %s, 0fBE91A98E", p, p, k)
		t.add("fma.rn.f32 %s, %s, %s, 0f3E827906", p, p, k)
		t.add("mul.f32 %s, %s, %s", p, p, k)
		e := t.get("f", "mul.f32", "%s, %s", a, a)
		t.add("mul.f32 %s, %s, 0fBFB8AA3B", e, e)
		t.add("ex2.approx.f32 %s, %s", e, e)
		t.add("neg.f32 %s, %s", e, e)
		r := t.get("f", "fma.rn.f32", "%s, %s, 0f3F800000", p, e)
		t.add("copysign.f32 %s, %s, %s", r, x, r)
		t.add("add.f32 %s, %s, 0f3F800000", r, r)
		half := t.get("f", "mul.f32", "%s, 0f3F000000", x)
		t.add("mul.f32 %s, %s, %s", x, half, r)
	},
	// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
	"gelu_tanh": func(t *text, x string) {
		s := t.get("f", "mul.f32", "%s, %s", x, x)
		c := t.get("f", "mul.f32", "%s, 0f3D372713", s)
		t.add("fma.rn.f32 %s, %s, %s, %s", c, c, x, x)
		t.add("mul.f32 %s, %s, 0f3F4C422A", c, c)
		h := t.tanh(c)
		t.add("add.f32 %s, %s, 0f3F800000", h, h)
		half := t.get("f", "mul.f32", "%s, 0f3F000000", x)
		t.add("mul.f32 %s, %s, %s", x, half, h)
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
	e := t.get("f", "mul.f32", "%s, 0fBFB8AA3B", x) // -log2 e
	t.add("ex2.approx.f32 %s, %s", e, e)
	t.add("add.f32 %s, %s, 0f3F800000", e, e)
	return t.get("f", "rcp.approx.f32", "%s", e)
}

// tanh returns 1 - 2 / (1 + e^2x).
func (t *text) tanh(x string) string {
	e := t.get("f", "mul.f32", "%s, 0f4038AA3B", x) // 2 log2 e
	t.add("ex2.approx.f32 %s, %s", e, e)
	t.add("add.f32 %s, %s, 0f3F800000", e, e)
	r := t.get("f", "rcp.approx.f32", "%s", e)
	return t.get("f", "fma.rn.f32", "%s, 0fC0000000, 0f3F800000", r)
}
