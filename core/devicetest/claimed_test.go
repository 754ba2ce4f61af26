package devicetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// TestOneOp checks that the suite makes programs for a backend that claims a single op, and for rules with requirements
// of types, ranks, attributes, symbols and params. All checks that are not about an op must run. A sample has a quarter
// of the ops that compute.
func TestOneOp(t *testing.T) {
	rules := []string{"matmul(f32, f32)", "copy(i32)", "matmul(f32 rank 2, f32 param)", "neg(f32 static)", "neg(f16)",
		"add(i64...)", "relu(f32 rank 6)",
		"softmax(f32) if axis = last", "add(f32...) if broadcast = equal", "matmul(f32, f32) if trans_b = true",
		"gather(any, i32)", "div(i32...)", "top_k(f32)"}
	var computing []string
	for _, def := range ir.Defs() {
		if _, view := viewOf(def); !view && def.Eval != nil && !def.Block && !def.Updates && !def.Nested &&
			def != ir.ResultDef && def != ir.StateDef {
			computing = append(computing, def.Name+"(any...)")
		}
	}
	for _, i := range Some(t, uint64(len(computing)/12), uint64(len(computing))) {
		rules = append(rules, computing[i])
	}
	for _, rule := range rules {
		name, _, _ := strings.Cut(rule, "(")
		if def := find(t, name); len(def.Operands) == 0 {
			rule = name + "()"
		}
		t.Run(rule, func(t *testing.T) {
			s := suiteOf(t, fake{only: "run " + rule})
			spec, why := Claimed(s.info)
			if spec == nil {
				t.Fatal(why)
			}
			if len(spec.Program.Steps) != 4 || len(spec.Inputs) != len(spec.Program.Graph.Inputs()) ||
				s.info.Lacks(spec.Program) != "" {
				t.Errorf("the specimen has %d steps, %d inputs for %d", len(spec.Program.Steps), len(spec.Inputs),
					len(spec.Program.Graph.Inputs()))
			}
			if spec.Equal != nil && (len(spec.Equal.Graph.Syms) != 2 || len(spec.Equal.Graph.Requires()) == 0) {
				t.Errorf("the program of equal sizes has symbols %v and requires %v", spec.Equal.Graph.Syms,
					spec.Equal.Graph.Requires())
			}
			var left []string
			for _, c := range s.runChecks() {
				if err := c.run(); errors.Is(err, errRefused) {
					left = append(left, c.name)
				} else if err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			}
			may := []string{"run/empty", "run/returned", "run/no-input", "run/equal-sizes", "run/index", "run/nan",
				"run/results", "run/state",
				"run/state-refused", "run/wanted", "run/generate", "run/weights", "run/bounds",
				"run/denormals"}
			if len(spec.Inputs) == 0 {
				may = append(may, "run/transfers")
			}
			for _, name := range left {
				if !slices.Contains(may, name) {
					t.Errorf("%s does not run", name)
				}
			}
			t.Logf("%d skipped: %v", len(left), left)
		})
	}
}

// TestPlainStates checks that the checks of states run on a backend that claims nothing but kv_append and copy, of one
// type.
func TestPlainStates(t *testing.T) {
	for _, only := range []string{"run kv_append(f32, f32, i32); run copy(f32)",
		"run kv_append(f16 static, f16 static, i64); run copy(f16 static)", "run kv_append(i32...); run copy(any)"} {
		for fault, fails := range map[string]string{"": "", "one state": "run/state: ",
			"takes any state": "run/state-refused: "} {
			s := suiteOf(t, fake{only: only, fault: fault})
			var errs []error
			for _, c := range s.runChecks() {
				if !strings.Contains("run/state run/state-refused run/wanted", c.name) {
					continue
				}
				if err := c.run(); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
				}
			}
			if fails == "" && errs != nil || fails != "" && !strings.Contains(fmt.Sprint(errs), fails) {
				t.Errorf("%s, %s: %v", only, fault, errs)
			}
		}
	}
}

// viewOf reports whether nodes of an op are views, which need no step.
func viewOf(def *ir.OpDef) (*ir.Node, bool) {
	for _, c := range def.Cases() {
		s, err := newSubject(def, c)
		if err != nil || s.def.Tuple {
			return nil, false
		}
		for _, n := range s.graph(form{}).Nodes {
			if n.Op == def {
				return n, !program.IsStep(n)
			}
		}
	}
	return nil, false
}

// TestNothingClaimed checks that there is no specimen for a backend that claims nothing, or has no device, with the
// reason.
func TestNothingClaimed(t *testing.T) {
	s := suiteOf(t, fake{only: "run matmul(bool)"})
	if spec, why := Claimed(s.info); spec != nil ||
		!strings.Contains(why, "no known case fits the ops that fake claims: matmul") {
		t.Errorf("%v, %q", spec, why)
	}
	s.info.Target.Rules = nil
	if spec, why := Claimed(s.info); spec != nil || why != "fake claims no op that computes" {
		t.Errorf("%v, %q", spec, why)
	}
	s = suiteOf(t, fake{fault: "no devices"})
	if spec, why := Claimed(s.info); spec != nil || why != "fake has no device" {
		t.Errorf("%v, %q", spec, why)
	}
}

// TestFaultsOfOneOp checks that the suite finds faults of a backend that claims a single op.
func TestFaultsOfOneOp(t *testing.T) {
	for _, rule := range []string{"run matmul(f32, f32)", "run copy(i32)", "run softmax(f32)"} {
		for fault, want := range map[string]string{
			"clamps sizes":         "run/sizes: N = 0 gives error <nil>",
			"never cancels":        "run/cancel: a run with a cancelled context gives error <nil>",
			"progress goes back":   "run/progress: step 18 is reported after step 19 of 20",
			"profile lacks a step": "run/profile: 19 times for 20 steps",
			"observes others":      "run/observe: nodes",
			"feeds nothing":        "run/transfers: a run that is fed gives",
			"any device":           "run/devices: an unknown device is accepted",
			"writes an input":      "in input 0",
		} {
			s := suiteOf(t, fake{fault: fault, only: rule})
			var errs []error
			for _, c := range s.runChecks() {
				if err := c.run(); err != nil && !errors.Is(err, errRefused) {
					errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
				}
			}
			if !slices.ContainsFunc(errs, func(err error) bool { return strings.Contains(err.Error(), want) }) {
				t.Errorf("%s, %s: no check says %q: %.500v", rule, fault, want, errs)
			}
		}
	}
}
