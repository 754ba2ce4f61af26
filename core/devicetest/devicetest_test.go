package devicetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
)

// TestReference checks that a backend passes if it runs every op by its definition.
func TestReference(t *testing.T) {
	Run(t, func(*testing.T) device.Backend { return fake{} }, Options{MustHave: true, Ops: 0.25})
}

// TestWithout checks that a backend needs no exceptions for ops and element types that its description lacks.
func TestWithout(t *testing.T) {
	for _, not := range []string{"fused_matmul", "f64", "add"} {
		s := suiteOf(t, fake{not: not})
		l := &ledger{}
		for _, name := range []string{"fused_matmul", "add"} {
			for _, err := range failures(s.opChecks(testedOp(find(t, name)), brief), l) {
				t.Errorf("without %s: %v", not, err)
			}
		}
	}
}

func suiteOf(t *testing.T, f fake) *suite {
	t.Helper()
	info, err := f.Info(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return newSuite(f, info)
}

func find(t *testing.T, name string) *ir.OpDef {
	t.Helper()
	d, ok := ir.Find(name)
	if !ok {
		t.Fatalf("no op %s", name)
	}
	return d
}

// failures runs checks and returns the errors that l does not excuse. Each begins with the name of its check.
func failures(checks []check, l *ledger) (out []error) {
	for _, c := range checks {
		if err := l.judge(c.name, c.run()); err != nil {
			out = append(out, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return out
}

// TestFaults checks that the suite finds each fault. checks names the group of checks: an op, run, graph and so on.
// want must be part of a failure's text.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ fault, checks, want string }{
		{"no devices", "info", "no devices"},
		{"any device", "run", "run/devices: an unknown device is accepted"},
		{"no kernels", "neg", "method Kernels lists"},
		{"last element", "add", "add/4/inputs"},
		{"last element", "matmul", "weights-f16: matmul"},
		{"keeps results", "gelu", "second run, other values"},
		{"keeps io", "gelu", "third run, another IO space"},
		{"changes its mind", "gelu", "two runs on the same values give different bits"},
		{"three threads", "graph", "graph/exact"},
		{"three threads", "softmax", "1 and 3 threads give different bits"},
		{"many threads", "threads", "softmax/0/threads-0: softmax [f32["},
		{"many threads", "threads", "1 and 4 threads give different bits"},
		{"writes an input", "transpose", "in input 0"},
		{"writes a weight", "matmul", "wrote byte 0 of the weights"},
		{"writes behind", "relu", "0 bytes past the end"},
		{"writes behind in the arena", "relu", "a value that lies beside it"},
		{"moves values in the arena", "graph", "graph/random: seed"},
		{"flushes sometimes", "neg", "special"},
		{"flushes sometimes", "run",
			"run/denormals: f32: takes some denormals for 0 and keeps others: mul gives 0 for"},
		{"flushes signs", "neg", "special"},
		{"loses NaN", "relu", "special"},
		{"loses NaN", "matmul", "special: element"},
		{"spreads NaN", "softmax", "spread: element"},
		{"clamps an index", "gather", "the definition refuses the values"},
		{"clamps an index", "run", "index -1 of 5 gives error <nil>"},
		{"wrong value error", "gather", "want device.ErrInput"},
		{"wrong value error", "div", "divisor is 0"},
		{"clamps sizes", "run", "run/sizes: N = 0 gives error <nil>"},
		{"no code", "run", "run/sizes: N = 0 gives error"},
		{"never cancels", "run", "run/cancel: a run with a cancelled context gives error <nil>"},
		{"own cancel error", "run", "run/cancel: a run with a cancelled context gives error fake: stopped"},
		{"progress goes back", "run", "run/progress: step 18 is reported after step 19 of 20"},
		{"progress lacks the end", "run", "run/progress: the last step reported"},
		{"profile lacks a step", "run", "run/profile: 19 times for 20 steps"},
		{"profile is long", "run", "in a run of"},
		{"nan late", "run", "run/nan: error is later: NaN"},
		{"nan in the tail", "run", "run/nan-tail: with N = "},
		{"observes others", "run", "run/observe: nodes"},
		{"observes one result", "run", "run/results: nodes"},
		{"names the op", "run", "run/results: FirstNaN"},
		{"only the first result", "top_k", "result 1"},
		{"one state", "run", "run/state: after run"},
		{"takes any state", "run", "run/state-refused: "},
		{"feeds nothing", "run", "run/transfers: a run that is fed gives"},
		{"keeps nothing", "run", "run/transfers: kept is"},
		{"forgets an update", "run", "run/wanted: "},
		{"runs all steps", "run", "run/wanted: outputs"},
		{"last element", "regression", "regression/the-last-elements-of-many: "},
		{"observes on", "run", "run/observe: an observer that refuses"},
	} {
		s := suiteOf(t, fake{fault: c.fault})
		s.chosen = sample{all: true}
		var checks []check
		switch c.checks {
		case "info":
			checks = []check{{name: "info", run: s.checkInfo}}
		case "run":
			checks = s.runChecks()
		case "graph":
			checks = s.graphChecks(brief)
		case "regression":
			checks = s.regressionChecks()
		case "threads":
			checks = s.threadChecks(find(t, "softmax"), 2, s.chosen.threads())
		default:
			checks = s.opChecks(testedOp(find(t, c.checks)), full)
		}
		errs := failures(checks, &ledger{})
		if !slices.ContainsFunc(errs, func(err error) bool { return strings.Contains(err.Error(), c.want) }) {
			t.Errorf("%s: no check of %s says %q: %.2000v", c.fault, c.checks, c.want, errs)
		}
	}
}

// TestFlushing checks that a device that treats all denormals as 0 passes the checks of special values, and that the
// suite reports this. A device that cannot be asked must keep denormals.
func TestFlushing(t *testing.T) {
	s := suiteOf(t, fake{fault: "flushes denormals"})
	strict := 0
	defs := slices.DeleteFunc(ir.Defs(), func(d *ir.OpDef) bool { return !runnable(d) })
	for _, i := range Some(t, uint64(len(defs)/4), uint64(len(defs))) {
		for _, c := range s.opChecks(testedOp(defs[i]), brief) {
			if !slices.Contains(c.tags, "special") && !slices.Contains(c.tags, "spread") {
				continue
			}
			if err := c.run(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
	if types, err := s.flushed(); err != nil || len(types) != 4 ||
		s.note() != "the device takes denormals for 0 (f32, f16, bf16, f64)" {
		t.Errorf("%v, %v, %q", types, err, s.note())
	}
	blind := suiteOf(t, fake{fault: "flushes denormals", only: "run neg(f32)"})
	for _, err := range failures(blind.opChecks(testedOp(find(t, "neg")), brief), &ledger{}) {
		if strings.Contains(err.Error(), "special") {
			strict++
		}
	}
	if strict == 0 || blind.note() != "" || !errors.Is(blind.checkDenormals(), errRefused) {
		t.Errorf("a device that cannot be asked: %d checks of denormals fail, %q, %v", strict, blind.note(),
			blind.checkDenormals())
	}
}

// TestRefusals checks that the suite requires device.ErrUnsupported for nodes that the description excludes.
func TestRefusals(t *testing.T) {
	for fault, want := range map[string]string{"takes all": "that its description does not take",
		"wrong refusal": "want device.ErrUnsupported"} {
		s := suiteOf(t, fake{fault: fault, not: "bf16"})
		errs := failures(s.opChecks(testedOp(find(t, "add")), brief), &ledger{})
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%s: %v", fault, errs)
		}
	}
}

// TestLedger checks that an exception excuses only the checks that it names, and that stale exceptions are reported.
func TestLedger(t *testing.T) {
	bad, unsupported := errors.New("bad"), fmt.Errorf("load: %w", device.ErrUnsupported)
	l, err := newLedger(Options{
		Unsupported: []Exception{{"pow", "r"}, {"exp/1", "r"}},
		Failing:     []Exception{{"sin", "r"}, {"sin/2", "r"}, {"*/3/special", "r"}, {"cos", "r"}, {"never", "r"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		err  error
		ok   bool
	}{
		{"add/1/inputs", nil, true}, {"add/1/inputs", bad, false}, {"add/1", unsupported, false},
		{"add/1", errRefused, true},
		{"pow/0/inputs", unsupported, true}, {"pow/0/inputs", nil, false}, {"pow/0/inputs", bad, false},
		{"power/0", bad, false},
		{"exp/1/inputs", unsupported, true}, {"exp/11/inputs", unsupported, false},
		{"sin/1/inputs", bad, true}, {"sin/1/weights", nil, true}, {"sin/2/inputs", nil, true},
		{"cos/1/inputs", nil, true},
		{"add/3/special", bad, true}, {"add/3/inputs", bad, false},
	} {
		if err := l.judge(c.name, c.err); (err == nil) != c.ok {
			t.Errorf("%s with %v is judged %v", c.name, c.err, err)
		}
	}
	var text []string
	for _, err := range l.stale() {
		text = append(text, err.Error())
	}
	if got := strings.Join(text, "\n"); len(text) != 3 || !strings.Contains(got, `"sin/2" passes now`) ||
		!strings.Contains(got, `"cos" passes now`) || !strings.Contains(got, `"never" names no check`) {
		t.Errorf("stale entries: %s", got)
	}
	for _, o := range []Options{{Failing: []Exception{{"x", ""}}}, {Failing: []Exception{{"", "r"}}},
		{Failing: []Exception{{"x", "r"}}, Unsupported: []Exception{{"x", "r"}}}} {
		if _, err := newLedger(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// TestSample checks that every sample has a check of each kind and of each element type, and that many samples together
// have all checks.
func TestSample(t *testing.T) {
	s := suiteOf(t, fake{})
	for _, name := range []string{"cast", "matmul", "gather", "top_k", "add"} {
		checks := s.opChecks(testedOp(find(t, name)), full)
		made := map[string]bool{}
		for seed := range uint64(60) {
			want := map[string]bool{}
			for _, c := range checks {
				for _, tag := range c.tags {
					want[tag] = true
				}
			}
			picked := sample{seed: seed}.pick(name, checks)
			for _, c := range picked {
				made[c.name] = true
				for _, tag := range c.tags {
					delete(want, tag)
				}
			}
			if len(want) > 0 || len(picked) > len(checks)*3/4 {
				t.Errorf("%s, seed %d: %d of %d checks are picked, none of %v", name, seed, len(picked), len(checks),
					want)
			}
		}
		if len(made) < len(checks) {
			t.Errorf("%s: 60 samples have %d of %d checks", name, len(made), len(checks))
		}
		if n := len(sample{all: true, ops: 0.01}.pick(name, checks)); n != len(checks) {
			t.Errorf("%s: all are %d of %d checks", name, n, len(checks))
		}
		without := 0
		for seed := range uint64(60) {
			if len(sample{seed: seed, ops: 0.5}.pick(name, checks)) == 0 {
				without++
			}
		}
		if without < 15 || without > 45 {
			t.Errorf("%s: %d of 60 samples with half of the ops leave it out", name, without)
		}
	}
	if got := len(sample{seed: 3}.some(6, 30)); got != 6 {
		t.Errorf("%d of 6 numbers are picked", got)
	}
}

// TestCoverage checks that the suite finds new sizes and weights for every op that allows them, and that its programs
// run everything in the arena, with results in place.
func TestCoverage(t *testing.T) {
	for _, def := range ir.Defs() {
		if !runnable(def) || def.Nested { // the types of operands are those of the graphs' inputs
			continue
		}
		resized, larger, zero, n := 0, 0, 0, 0
		for i, c := range def.Cases() {
			sub, err := newSubject(def, c)
			if err != nil {
				t.Fatal(err)
			}
			for k := range uint64(10) {
				n++
				if r, ok := sub.resized(rand.New(rand.NewPCG(k, uint64(i)))); ok {
					resized++
					if r.elements() > sub.elements() {
						larger++
					}
					if sum(r.outs) == 0 {
						zero++
					}
				}
			}
		}
		// knn needs more points than neighbours, and a scene at least one splat
		never := def.Name == "knn" || strings.HasPrefix(def.Name, "gaussian_splat")
		if resized*4 < n || larger < 5 || zero == 0 && !never {
			t.Errorf("%s: of %d tries %d gave new sizes, %d larger and %d empty ones", def.Name, n, resized, larger,
				zero)
		}
	}
	sub, err := newSubject(find(t, "add"), find(t, "add").Cases()[4])
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := sub.build(form{arena: true}, sub.random(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range p.Graph.Nodes {
		if n.Op == sub.def && p.Places[n.ID].Parent < 0 {
			t.Error("an add in the arena does not work in place")
		}
	}
}

// FuzzReference checks Fuzz itself: the reference must agree with itself for any bytes.
func FuzzReference(f *testing.F) { Fuzz(f, func(*testing.T) device.Backend { return fake{} }) }

// TestVectors checks that the program of each vector gives the vector's outputs when the reference runs it.
func TestVectors(t *testing.T) {
	n, refused := 0, 0
	err := Vectors(t.Context(), []string{"softmax", "div", "top_k", "conv2d", "gather", "dequant_matmul", "const"},
		func(v Vector) error {
			n++
			in := values{}
			for _, x := range v.Inputs {
				in[x.Name] = x.Array
			}
			got, err := interp.RunProgram(v.Program, nil, in, v.Weights)
			if v.Refused != nil {
				refused++
				if err == nil {
					t.Errorf("%s: runs, and the definition refuses it: %v", v.Name, v.Refused)
				}
				return nil
			}
			if err != nil {
				return err
			}
			for k, x := range v.Outputs {
				if err := compare(got[x.Name], x.Array, v.Tolerances[k]); err != nil {
					t.Errorf("%s: %s: %v", v.Name, x.Name, err)
				}
			}
			return nil
		})
	if err != nil || n < 50 {
		t.Errorf("%d vectors, %d refused, %v", n, refused, err)
	}
}
