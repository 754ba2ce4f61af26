package pass_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	_ "github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/golden"
)

// weights is an interp.Params that implements pass.Params.
type weights interp.Params

func (w weights) Param(name string) (*tensor.Array, error) { return w(name) }

// rewritten converts a report for package golden.
func rewritten(g *ir.Graph, r *pass.Report) golden.Rewritten {
	out := golden.Rewritten{Graph: g, Params: r.Folded}
	for _, s := range r.Sites {
		if s.Miss == "" {
			out.Fired = append(out.Fired, s.Rule)
		} else {
			out.Missed = append(out.Missed, s.Rule+":"+s.Miss)
		}
	}
	return out
}

// targetOf returns the target of a test file: the one that it names ("target: cpu"), the description in its section
// "target", or cpu.
func targetOf(t *testing.T, f *golden.File) *target.Description {
	if text, ok := f.Section("target"); ok {
		d, err := target.Parse(text)
		if err == nil {
			err = d.Check()
		}
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	name := "cpu"
	if v := f.Values("target"); len(v) > 0 {
		name = v[0]
	}
	return builtin(t, name)
}

func builtin(t *testing.T, name string) *target.Description {
	d, ok := target.Find(name)
	if !ok {
		t.Fatalf("no target %s", name)
	}
	return d
}

// definitions returns the definitions of ops in the section "ops" of a test file.
func definitions(t *testing.T, f *golden.File) *custom.Library {
	l := &custom.Library{}
	if text, ok := f.Section("ops"); ok {
		if err := l.Parse(f.Path, text); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// TestCustomBeforeFusion runs all passes on the tests of the pass custom. The ops that the pass leaves or makes must be
// in the result, as the target claims them.
func TestCustomBeforeFusion(t *testing.T) {
	golden.Files(t, "testdata/custom", func(t *testing.T, f *golden.File) string {
		in, _ := f.Section("in")
		want, _ := f.Section("out")
		g, err := ir.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := pass.Run(g, targetOf(t, f), pass.Options{Params: weights(golden.Weights(g)), Verify: true,
			Custom: definitions(t, f)})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := strings.Count(out.String(), "= custom "), strings.Count(want, "= custom "); a != b {
			t.Errorf("%d custom ops after all passes; %d after custom:\n%s", a, b, out)
		}
		return want
	})
}

// TestPasses runs the pass that each folder of testdata is named after, or all passes for the folder "pipeline". Every
// pass must have a folder.
func TestPasses(t *testing.T) {
	dirs, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, d := range dirs {
		name := d.Name()
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			golden.Pass(t, "testdata/"+name, func(g *ir.Graph, f *golden.File) (golden.Rewritten, error) {
				o := pass.Options{Params: weights(golden.Weights(g)), Verify: true, Custom: definitions(t, f)}
				var out *ir.Graph
				var r *pass.Report
				var err error
				if name == "pipeline" {
					out, r, err = pass.Run(g, targetOf(t, f), o)
				} else {
					out, r, err = pass.RunOne(g, targetOf(t, f), name, o)
				}
				if err != nil {
					return golden.Rewritten{}, err
				}
				return rewritten(out, r), nil
			})
		})
	}
	for _, name := range pass.Names() {
		if !seen[name] {
			t.Errorf("testdata has no folder for pass %s", name)
		}
	}
}

// known is a table of weights.
type known map[string]*tensor.Array

func (k known) Param(name string) (*tensor.Array, error) { return k[name], nil }

// TestFoldLeavesErrorsToTheRun checks that an index outside the table is reported by the run, with the name of the
// step.
func TestFoldLeavesErrorsToTheRun(t *testing.T) {
	g, err := ir.Parse("t = param : f32[3]\ni = const {value=7.0} : i32[2]\ny = gather t, i : f32[2]\nreturn y")
	if err != nil {
		t.Fatal(err)
	}
	o := pass.Options{Params: known{"t": {DType: dtype.F32, Shape: []int{3}, Floats: []float64{1, 2, 3}}}}
	out, r, err := pass.Run(g, builtin(t, "cpu"), o)
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := out.Find("y"); !ok || n.Op.Name != "gather" || len(r.Missed()) == 0 {
		t.Errorf("%s%s", out, r)
	}
}

// TestNoParams checks that nothing that depends on a weight is folded if there are no values, and that the graph is
// still correct.
func TestNoParams(t *testing.T) {
	const text = "x = input : f32[2,4]\nw = param : f16[3,4]\nb = param : f16[3]\ny = linear x, w, bias=b {act=\"relu\"} : f32[2,3]\nreturn y"
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	out, r, err := pass.Run(g, builtin(t, "cpu"), pass.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Folded) != 0 || r.Fired()["fuse-matmul/bias"] != 1 {
		t.Errorf("%s%s", out, r)
	}
	if err := golden.SameMeaning(g, rewritten(out, r)); err != nil {
		t.Error(err)
	}
}

// TestSameTwice checks that two runs give the same graph, including the names of folded weights.
func TestSameTwice(t *testing.T) {
	golden.Files(t, "testdata/pipeline", func(t *testing.T, f *golden.File) string {
		text, _ := f.Section("in")
		var first string
		for range 5 {
			g, err := ir.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			out, _, err := pass.Run(g, targetOf(t, f), pass.Options{Params: weights(golden.Weights(g))})
			if err != nil {
				t.Fatal(err)
			}
			if first == "" {
				first = out.String()
			}
			if out.String() != first {
				t.Fatalf("two runs differ:\n%s\n%s", first, out)
			}
		}
		return first
	})
}

func TestStopAfterAndDump(t *testing.T) {
	g, err := ir.Parse(
		"x = input : f32[2,4]\nw = param : f32[3,4]\ny = linear x, w {act=\"relu\"} : f32[2,3]\nreturn y")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	out, _, err := pass.Run(
		g, builtin(t, "cpu"),
		pass.Options{StopAfter: "simplify", Dump: func(name string, g *ir.Graph) { seen = append(seen, name) }})
	if err != nil || strings.Join(seen, " ") != "in lower simplify" || !strings.Contains(out.String(), "relu") {
		t.Errorf("%v %v\n%s", seen, err, out)
	}
	if _, _, err := pass.Run(g, builtin(t, "cpu"), pass.Options{StopAfter: "simplfy"}); err == nil ||
		!strings.Contains(err.Error(), "known are [lower simplify") {
		t.Errorf("got %v", err)
	}
}

// TestShared checks that sharing results between targets changes no graph, report, dump or folded value, in whatever
// order the targets come, and that something is shared.
func TestShared(t *testing.T) {
	taken := false
	golden.Files(t, "testdata/pipeline", func(t *testing.T, f *golden.File) string {
		text, _ := f.Section("in")
		g, err := ir.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		type maker struct { // identifies the run that made a graph
			s  *pass.Shared
			to string
		}
		seen := map[*ir.Graph]maker{g: {}} // which run made each graph
		result := func(to *target.Description, s *pass.Shared) (graph, all string) {
			var b strings.Builder
			made := map[*ir.Graph]bool{}
			out, r, err := pass.Run(g, to, pass.Options{Params: weights(golden.Weights(g)), Shared: s,
				Dump: func(name string, g *ir.Graph) {
					fmt.Fprintln(&b, name, g)
					made[g] = true
				}})
			if err != nil {
				t.Fatal(err)
			}
			for g := range made {
				by, ok := seen[g]
				if !ok {
					seen[g] = maker{s, to.Name}
				} else if by.s != nil && by.s == s && by.to != to.Name {
					taken = true
				}
			}
			fmt.Fprintln(&b, out, r, r.Passes)
			for _, name := range slices.Sorted(maps.Keys(r.Folded)) {
				fmt.Fprintln(&b, name, r.Folded[name])
			}
			return out.String(), b.String()
		}
		graph := ""
		for _, targets := range [][]*target.Description{{builtin(t, "portable"), builtin(t, "cpu"), builtin(t, "wgpu")},
			{builtin(t, "wgpu"), builtin(t, "cpu"), builtin(t, "portable")}} {
			var s pass.Shared
			for _, to := range targets {
				out, got := result(to, &s)
				if _, want := result(to, nil); got != want {
					t.Fatalf("%s after %s differs:\n%s\nwithout sharing:\n%s", to.Name, targets[0].Name, got, want)
				}
				if to == targetOf(t, f) {
					graph = out
				}
			}
		}
		return graph
	})
	if !taken {
		t.Error("no graph of one target is one of another's too")
	}
}

// TestFoldRounds checks that folding rounds each value to its type, as a run does. 1 + 1e-9 is 1 in f32.
func TestFoldRounds(t *testing.T) {
	g, err := ir.Parse(
		"a = param : f32[2]\nb = param : f32[2]\ns = add a, b : f32[2]\ny = eq s, a : bool[2]\nx = input : bool[2]\nz = xor x, y : bool[2]\nreturn z")
	if err != nil {
		t.Fatal(err)
	}
	o := pass.Options{
		Params: known{"a": {DType: dtype.F32, Shape: []int{2}, Floats: []float64{1, 1}},
			"b": {DType: dtype.F32, Shape: []int{2}, Floats: []float64{1e-9, 1}}}}
	_, r, err := pass.Run(g, builtin(t, "cpu"), o)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range r.Folded {
		if v.DType != dtype.Bool || !slices.Equal(v.Data, []byte{1, 0}) {
			t.Errorf("%s is %v %v; want that 1+1e-9 equals 1", name, v.DType, v.Data)
		}
	}
	if len(r.Folded) != 1 {
		t.Errorf("%d values were folded; want 1", len(r.Folded))
	}
}

// TestHalvesRoundOnce checks that an op of half floats is not expressed by several that round: silu in f16 would be off
// by more than its tolerance. An expansion that rounds once is fine.
func TestHalvesRoundOnce(t *testing.T) {
	to, err := target.Parse(
		"target t 1\ntypes f32 f16\nrun add(f16...)\nrun div(f16...)\nrun exp(f16)\nrun neg(f16)\nrun max(f16...)\nrun mul(f16...)\n")
	if err != nil {
		t.Fatal(err)
	}
	for op, runs := range map[string]bool{"silu": false, "sigmoid": false, "relu": true, "square": true} {
		g, err := ir.Parse("x = input : f16[4]\ny = " + op + " x : f16[4]\nreturn y")
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = pass.RunOne(g, to, "legalize", pass.Options{})
		if c, _ := diag.CodeOf(err); (err == nil) != runs || !runs && c != code.Untaken {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// TestFoldMemory checks that folding keeps no value longer than it is needed: a chain of steps on each of many weights
// takes the memory of a few values, and in the end all is given back.
func TestFoldMemory(t *testing.T) {
	const elems, weights, steps = 1000, 20, 10
	g, params := ir.NewGraph("fold"), known{}
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, elems))
	for i := range weights {
		name := fmt.Sprint("w", i)
		w := op.Param(g, name, ir.TypeOf(dtype.F32, elems))
		params[name] = tensor.NewArray(dtype.F32, elems)
		for k := range elems {
			params[name].Floats[k] = float64(k%7 + i)
		}
		for range steps {
			w = op.Sqrt(op.Add(op.Square(w), w))
		}
		x = op.Add(x, w)
	}
	g.Return("y", x)
	m := &meter{}
	if _, _, err := pass.Run(g, builtin(t, "cpu"), pass.Options{Params: params, Memory: m}); err != nil {
		t.Fatal(err)
	}
	if m.most > 6*8*elems || m.now != 0 || m.most == 0 {
		t.Errorf("folding took up to %d bytes, of which %d were not given back; a value has %d", m.most, m.now, 8*elems)
	}
}

// meter records how many bytes folding has reserved.
type meter struct{ now, most int64 }

func (m *meter) Reserve(what string, bytes int64) error {
	if what == "constant folding" {
		m.now += bytes
		m.most = max(m.most, m.now)
	}
	return nil
}

func (m *meter) Release(what string, bytes int64) {
	if what == "constant folding" {
		m.now -= bytes
	}
}
