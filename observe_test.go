package rlx_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/tinymodel"
)

// mlp runs the model MLP on two rows.
func mlp(t testing.TB, s *rlx.Session, r rlx.Request) (*rlx.Result, error) {
	x := make([]float32, 16)
	for i := range x {
		x[i] = float32(i) / 8
	}
	r.Method, r.Inputs = "f", map[string]rlx.Tensor{"x": tensorOf(t, x, 2, 8)}
	return s.Run(t.Context(), r)
}

func TestCheckNaN(t *testing.T) {
	s := session(t, tiny(t, `graph f
x = input : f32[2]
a = neg x : f32[2]
b = log a : f32[2]
c = exp b : f32[2]
return y=c
`), rlx.Options{})
	in := map[string]rlx.Tensor{"x": tensorOf(t, []float32{1, 2}, 2)}
	if _, err := s.Run(t.Context(), rlx.Request{Method: "f", Inputs: in}); err != nil {
		t.Errorf("without CheckNaN: %v", err)
	}
	_, err := s.Run(t.Context(), rlx.Request{Method: "f", Inputs: in, CheckNaN: true})
	wantError(t, "the logarithm of negative numbers", err, rlx.ErrNaN)
	if err != nil && !strings.Contains(err.Error(), "(log b)") {
		t.Errorf("%v; want it to name the step", err)
	}
}

// TestCheck checks that Check accepts a correct backend, and names the step at which a backend is wrong.
func TestCheck(t *testing.T) {
	if _, err := mlp(t, session(t, tiny(t, tinymodel.MLP), rlx.Options{}), rlx.Request{Check: true}); err != nil {
		t.Errorf("a right backend: %v", err)
	}
	t.Setenv("RLX_WRONG_FAULT", "wrong")
	_, err := mlp(t, session(t, tiny(t, tinymodel.MLP), rlx.Options{Backend: faultyBackend("wrong")}),
		rlx.Request{Check: true})
	wantError(t, "a constant that is 0 in one place", err, rlx.ErrCheck)
	if err != nil && !strings.Contains(err.Error(), "f step 1 of 5 (const w)") {
		t.Errorf("%v; want it to name the step", err)
	}
}

// TestObserve checks that Observe gets the selected values in the order of the steps, and that its error ends the run.
func TestObserve(t *testing.T) {
	m := tiny(t, tinymodel.MLP)
	s := session(t, m, rlx.Options{})
	var got []rlx.StepValue
	var softmax []float32
	r, err := mlp(t, s, rlx.Request{Select: func(v rlx.StepValue) bool { return v.Name == "h" || v.Op == "softmax" },
		Observe: func(v rlx.StepValue, x rlx.Tensor) error {
			got = append(got, v)
			if v.Op != "softmax" {
				return nil
			}
			all, err := rlx.Values[float32](x)
			softmax = slices.Clone(all)
			return err
		}})
	if err != nil {
		t.Fatal(err)
	}
	y, err := rlx.Values[float32](r.Outputs["y"])
	if err != nil || !slices.Equal(y, softmax) {
		t.Errorf("softmax %v, output %v, %v", softmax, y, err)
	}
	if want := []rlx.StepValue{{1, "matmul", "h"}, {3, "softmax", "s"}}; !slices.Equal(got, want) {
		t.Errorf("observed %v; want %v", got, want)
	}
	all := m.Methods()[0].Schedules[0].Values()
	if names := []string{all[0].Name, all[1].Name, all[2].Name, all[3].Name}; !slices.Equal(
		names, []string{"w", "h", "g", "s"}) {
		t.Errorf("values %v", all)
	}
	enough := errors.New("enough")
	_, err = mlp(t, s, rlx.Request{Observe: func(rlx.StepValue, rlx.Tensor) error { return enough }})
	wantError(t, "a refusal", err, enough)
	if _, err := mlp(t, s, rlx.Request{}); err != nil {
		t.Errorf("the next run: %v", err)
	}
}

func TestProfile(t *testing.T) {
	m := tiny(t, tinymodel.MLP)
	r, err := mlp(t, session(t, m, rlx.Options{}), rlx.Request{Profile: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Steps) != 5 || r.Clock != "host" {
		t.Fatalf("%d steps, clock %q", len(r.Steps), r.Clock)
	}
	// x[2,8] times w[8,8]: 2*8*8 multiply-adds, which read 16 + 64 and write 16 floats.
	if x := r.Steps[1]; x.Op != "matmul" || x.FLOPs != 2*2*8*8 || x.Bytes != 4*(16+64+16) ||
		!slices.Equal(x.Types, []string{"f32[2,8]"}) || x.Start < r.Steps[0].Start {
		t.Errorf("%+v", x)
	}
	total, err := m.Methods()[0].Schedules[0].FLOPs(r.Sizes)
	var sum int64
	for _, x := range r.Steps {
		sum += x.FLOPs
	}
	if err != nil || total != sum {
		t.Errorf("%d, %v; want %d", total, err, sum)
	}
	_, err = m.Methods()[0].Schedules[0].FLOPs(map[string]int64{"N": 10})
	wantError(t, "N = 10", err, rlx.ErrInput)
}
