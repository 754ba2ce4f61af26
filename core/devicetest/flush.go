package devicetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// Some devices treat denormals as 0 ("flush" them), as WGSL and other languages of shaders allow. The suite asks the
// device: it multiplies denormals by 1 and adds 0 to them. If the device flushes, a result that is a denormal may be a
// zero of the same sign, and a result may be the result of the definition for flushed operands. A device that cannot be
// asked, or that flushes only some denormals, must not flush.

// smallestNormal returns the smallest normal number of a float type.
func smallestNormal(d dtype.DType) float64 {
	switch d {
	case dtype.F16:
		return 0x1p-14
	case dtype.F64:
		return 0x1p-1022
	}
	return 0x1p-126
}

// denormal reports whether v is a denormal of type d.
func denormal(v float64, d dtype.DType) bool { return v != 0 && math.Abs(v) < smallestNormal(d) }

// errMixed is the error for a device that flushes some denormals and keeps others.
var errMixed = errors.New("takes some denormals for 0 and keeps others")

// flushed returns the float types whose denormals the device takes for 0. It asks the device once. err is errMixed, or
// the error of a run.
func (s *suite) flushed() (types []dtype.DType, err error) {
	s.askOnce.Do(func() {
		var errs []error
		for _, d := range []dtype.DType{dtype.F32, dtype.F16, dtype.BF16, dtype.F64} {
			flushes, known, err := s.flushesType(d)
			if err != nil {
				errs = append(errs, fmt.Errorf("%v: %w", d, err))
			}
			// bf16 has the exponents of f32. Most devices compute it in f32.
			if flushes || d == dtype.BF16 && !known && slices.Contains(s.flushes, dtype.F32) {
				s.flushes = append(s.flushes, d)
			}
		}
		s.flushErr = errors.Join(errs...)
	})
	return s.flushes, s.flushErr
}

// flushesType asks the device about one type. known is false if the backend claims neither mul nor add of the type.
func (s *suite) flushesType(d dtype.DType) (flushes, known bool, err error) {
	x, tiny := tensor.NewArray(d, 64), smallestNormal(d)
	for i := range x.Floats {
		x.Floats[i] = tiny / float64(int64(2)<<(i/2%7)) // half of the smallest normal number, a quarter, and so on
		if i%2 == 1 {
			x.Floats[i] = -x.Floats[i]
		}
	}
	for _, c := range []struct {
		def   *ir.OpDef
		other float64 // leaves x as it is
	}{{op.MulDef, 1}, {op.AddDef, math.Copysign(0, -1)}} {
		g := ir.NewGraph("denormals")
		t := ir.TypeOf(d, 64)
		in := []*ir.Node{op.Input(g, "x", t), op.Input(g, "other", t)}
		g.Return("y", g.Add(c.def, c.def.NewAttrs(), in...))
		if s.lacks(g) != "" {
			continue
		}
		known = true
		other := tensor.NewArray(d, 64)
		for i := range other.Floats {
			other.Floats[i] = c.other
		}
		kept, zero := 0, 0
		err := s.withRig(mustBuild(g, nil), nil, device.Load{}, func(r *rig) error {
			for range 4 {
				got, _, err := r.run(background, values{"x": x, "other": other}, device.Run{})
				if err != nil {
					return err
				}
				for i, y := range got["y"].Array().Floats {
					switch {
					case y == x.Floats[i]:
						kept++
					case y == 0 && math.Signbit(y) == math.Signbit(x.Floats[i]):
						zero++
					default:
						return fmt.Errorf("%s of %v and %v is %v", c.def.Name, x.Floats[i], c.other, y)
					}
				}
			}
			return nil
		})
		if err != nil {
			return false, true, err
		}
		if kept > 0 && zero > 0 {
			return false, true, fmt.Errorf("%w: %s gives 0 for %d of %d", errMixed, c.def.Name, zero, kept+zero)
		}
		flushes = flushes || zero > 0
	}
	return flushes, known, nil
}

// checkDenormals checks that the device treats all denormals of a type in the same way.
func (s *suite) checkDenormals() error {
	if s.lacksAll() {
		return skipped(s.info.Name + " claims no mul or add of floats")
	}
	_, err := s.flushed()
	return err
}

// lacksAll reports whether the device cannot be asked about denormals.
func (s *suite) lacksAll() bool {
	for _, d := range []dtype.DType{dtype.F32, dtype.F16, dtype.BF16, dtype.F64} {
		for _, def := range []*ir.OpDef{op.MulDef, op.AddDef} {
			g := ir.NewGraph("denormals")
			t := ir.TypeOf(d, 64)
			g.Return("y", g.Add(def, def.NewAttrs(), op.Input(g, "x", t), op.Input(g, "other", t)))
			if s.lacks(g) == "" {
				return false
			}
		}
	}
	return true
}

// note says which denormals the device treats as 0. It is empty if the device keeps all, or was not asked.
func (s *suite) note() string {
	if len(s.flushes) == 0 || s.flushErr != nil {
		return ""
	}
	var names []string
	for _, d := range s.flushes {
		names = append(names, d.String())
	}
	return "the device takes denormals for 0 (" + strings.Join(names, ", ") + ")"
}

// flush returns the operands with zeros in place of the denormals that the device treats as 0, or nil if the device
// keeps all.
func (s *suite) flush(in []*tensor.Array) []*tensor.Array {
	types, err := s.flushed()
	if len(types) == 0 || err != nil {
		return nil
	}
	out := make([]*tensor.Array, len(in))
	for k, x := range in {
		out[k] = x
		if x == nil || x.Floats == nil || !slices.Contains(types, x.DType) {
			continue
		}
		m := *x
		m.Floats = slices.Clone(x.Floats)
		for i, v := range m.Floats {
			if denormal(v, x.DType) {
				m.Floats[i] = math.Copysign(0, v)
			}
		}
		out[k] = &m
	}
	return out
}

// near is the function near for the suite's device, which may flush denormals.
func (s *suite) near(cmp comparison, def *ir.OpDef, attrs any, in, got, want []*tensor.Array) error {
	err := near(cmp, def, attrs, in, got, want)
	if err == nil || def.Eval == nil {
		return err
	}
	moved := s.flush(in)
	if moved == nil {
		return err
	}
	other := make([]*tensor.Array, len(want))
	for k, w := range want {
		other[k] = tensor.NewArray(w.DType, w.Shape...)
	}
	if def.Eval(attrs, moved, other...) != nil {
		return err
	}
	tols := def.Tol(attrs, typesOf(in), typesOf(want)...)
	allowed := make([]*tensor.Array, len(want))
	for k, w := range want {
		a := *w
		a.Floats, a.Ints = slices.Clone(w.Floats), slices.Clone(w.Ints)
		for i := range a.Floats {
			a.Floats[i] = closest(got[k].Floats[i], w.Floats[i], other[k].Floats[i],
				slices.Contains(s.flushes, w.DType), tols[k], w.DType)
		}
		for i := range a.Ints {
			if got[k].Ints[i] == other[k].Ints[i] {
				a.Ints[i] = other[k].Ints[i]
			}
		}
		allowed[k] = &a
	}
	return near(cmp, def, attrs, in, got, allowed)
}

// closest returns the result that got was probably meant to be. The candidates are want; other, the result for flushed
// operands; and, if the device also flushes results, a zero in place of either. If got is not close to any of them,
// closest returns want.
func closest(got, want, other float64, flushes bool, tol ir.Tolerance, d dtype.DType) float64 {
	if excess(got, want, tol, d) <= 0 {
		return want
	}
	if excess(got, other, tol, d) <= 0 {
		return other
	}
	for _, v := range []float64{want, other} {
		if flushes && denormal(v, d) && got == 0 && math.Signbit(got) == math.Signbit(v) {
			return got
		}
	}
	return want
}
