package compile_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// returnedForms are graphs that return a value of type T without computing it on a device. y is there for the target to
// have an op.
var returnedForms = []struct {
	name, text string
	packed     bool // also for packed types
}{
	{"constant", "a = const {value=1.0} : T[64]\nreturn y=y, a=a", false},
	{"reshaped constant", "c = const {value=1.0} : T[64]\na = reshape c : T[2,32]\nreturn y=y, a=a", false},
	{"folded constant", "c = const {value=1.0} : T[32]\nd = const {value=0.0} : T[32]\na = concat c, d : T[64]\nreturn y=y, a=a",
		false},
	{"folded and reshaped", "c = const {value=1.0} : T[32]\nd = const {value=0.0} : T[32]\ne = concat c, d : T[64]\n" +
		"a = reshape e : T[2,32]\nreturn a=a", false},
	{"folded param", "c = const {value=1.0} : T[32]\nd = param : T[32]\na = concat c, d : T[64]\nreturn y=y, a=a", false},
	{"constant of any size", "a = const {value=1.0} : T[N]\nreturn y=y, a=a", false},
	{"param", "a = param : T[64]\nreturn y=y, a=a", true},
	{"reshaped param", "p = param : T[2,32]\na = reshape p : T[64]\nreturn a=a, y=y", true},
	{"part of a param", "p = param : T[2,32]\na = narrow p {axis=0, len=1, start=1} : T[1,32]\nreturn y=y, a=a", true},
	{"param twice", "a = param : T[64]\nreturn a=a, y=y, b=a", true},
	{"param alone", "a = param : T[64]\nreturn a=a", true},
	{"input", "a = input : T[64]\nreturn y=y, a=a", true},
	{"input of any size", "a = input : T[N,32]\nreturn a=a, y=y", true},
	{"reshaped input", "p = input : T[2,32]\na = reshape p : T[64]\nreturn y=y, a=a", true},
	{"param, input and constant", "a = param : T[64]\nb = input : T[64]\nc = const {value=1.0} : T[64]\n" +
		"return a=a, y=y, b=b, c=c", false},
}

// TestReturned compiles graphs that return inputs, params and constants of each element type, for each target and each
// fallback. They compile if either can copy the type, and the program returns the values.
func TestReturned(t *testing.T) {
	targets := target.Builtin()
	few, err := target.Parse("target few 1\ntypes f32\nrun neg(f32)\nrun copy(f32)")
	if err != nil {
		t.Fatal(err)
	}
	bytesOnly, err := target.Parse("target bytes 1\ntypes f32 u8 i8\nrun copy(u8|i8)")
	if err != nil {
		t.Fatal(err)
	}
	targets = append(targets, few, bytesOnly)
	compiled, refused := 0, 0
	types := dtype.Known()
	chosen := devicetest.Some(t, uint64(len(types)/3), uint64(len(types)))
	for _, i := range chosen {
		d := types[i]
		if testing.Short() && d.IsPacked() && d != dtype.Q4_0 {
			continue
		}
		copies := func(to *target.Description) bool {
			return pass.Runs(to, op.Copy(op.Input(ir.NewGraph("g"), "x", ir.TypeOf(d, 64))))
		}
		for _, form := range returnedForms {
			if d.IsPacked() && !form.packed {
				continue
			}
			text := "graph f\nsym N = 1..4\nx = input : f32[N]\ny = neg x : f32[N]\n" + form.text + "\n"
			if !strings.Contains(form.text, "y=y") {
				text = "graph f\n" + form.text + "\n"
			}
			g, err := ir.Parse(strings.ReplaceAll(text, ": T[", ": "+d.String()+"["))
			if err != nil {
				if d.IsPacked() { // no part or other shape of whole blocks
					continue
				}
				t.Fatalf("%v, %s: %v", d, form.name, err)
			}
			for _, to := range targets {
				for _, fallback := range targets {
					what := fmt.Sprintf("%v, %s, %s with %s", d, form.name, to.Name, fallback.Name)
					can := func(n *ir.Node) bool { return pass.Runs(to, n) || pass.Runs(fallback, n) }
					want := copies(to) || copies(fallback)
					for _, n := range g.Nodes {
						if n.Is(op.NegDef) || n.Is(op.ConstDef) && !pass.Stored(n) {
							want = want && can(n)
						}
					}
					if strings.Contains(form.text, "y=y") {
						want = want && (to.HasType(dtype.F32) || fallback.HasType(dtype.F32))
					}
					err := runReturned(g, to, fallback)
					switch {
					case want && err != nil:
						t.Errorf("%s: %v", what, err)
					case !want && !errors.Is(err, code.Untaken):
						t.Errorf("%s: error %v; want %v", what, err, code.Untaken)
					case want:
						compiled++
					default:
						refused++
					}
				}
			}
		}
	}
	t.Logf("%d compiled, %d refused", compiled, refused)
	if compiled < 20*len(chosen) || refused == 0 {
		t.Errorf("%d compiled, %d refused: the test shows little", compiled, refused)
	}
}

// returnedParams makes up params by name.
type returnedParams struct{ g *ir.Graph }

func (p returnedParams) Param(name string) (*tensor.Array, error) {
	for _, n := range p.g.Params() {
		if n.Name == name {
			return interp.Random(rand.New(rand.NewPCG(1, 2)), n.Type, nil, ir.Range{Lo: 0, Hi: 1}), nil
		}
	}
	return nil, fmt.Errorf("no param %s", name)
}

// runReturned compiles a graph, runs the programs one after another by the reference, and compares the results with
// those of the graph.
func runReturned(g *ir.Graph, to, fallback *target.Description) error {
	params := returnedParams{g}
	var list []compile.Weight
	r, err := compile.Compile(context.Background(), []*ir.Graph{g}, compile.Options{
		Targets: []compile.Target{{Name: to.Name, Takes: to}}, Params: params,
		Fallbacks: []compile.Target{{Name: fallback.Name, Takes: fallback}},
		Layout: func(ws []compile.Weight) (int64, error) {
			size, err := layoutOf(ws)
			list = ws
			return size, err
		}})
	if err != nil {
		return err
	}
	weights := make([]byte, r.WeightsSize)
	for _, w := range list {
		data := w.Data
		if data == nil {
			v, err := params.Param(w.Name)
			if err != nil {
				return err
			}
			data = v.Tensor().Data
		}
		copy(weights[w.Offset:], data)
	}
	syms, in := map[string]int64{}, map[string]*tensor.Array{}
	for _, s := range g.Syms {
		syms[s.Name] = 3
	}
	for _, n := range g.Inputs() {
		in[n.Name] = interp.Random(rand.New(rand.NewPCG(3, 4)), n.Type, syms, ir.Range{Lo: 0, Hi: 1})
	}
	want, err := interp.Run(g, syms, in, params.Param)
	if err != nil {
		return err
	}
	splits := r.Splits
	for _, p := range r.Programs {
		splits = append(splits, program.Whole(p))
	}
	var results []map[string]*tensor.Array
	value := func(from program.Source) *tensor.Array {
		if from.Segment == program.FromInput {
			return in[g.Inputs()[from.Index].Name]
		}
		return results[from.Segment][splits[0].Segments[from.Segment].Graph.Outputs[from.Index].Name]
	}
	for _, s := range splits[0].Segments {
		mine := map[string]*tensor.Array{}
		for k, n := range s.Graph.Inputs() {
			mine[n.Name] = value(s.Inputs[k])
		}
		out, err := interp.RunProgram(s.Program, syms, mine, weights)
		if err != nil {
			return err
		}
		results = append(results, out)
	}
	for k, o := range g.Outputs {
		if err := interp.Compare(value(splits[0].Outputs[k]), want[o.Name], ir.Tolerance{}); err != nil {
			return fmt.Errorf("output %s: %w", o.Name, err)
		}
	}
	return nil
}
