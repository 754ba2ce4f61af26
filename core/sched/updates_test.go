package sched_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// randomStates returns a graph that reads and updates two states in any order. It also reads views of their old and new
// values. All values have the shape [4,3].
func randomStates(r *rand.Rand) *ir.Graph {
	g := ir.NewGraph("states")
	typ := ir.TypeOf(dtype.F32, 4, 3)
	x, pos := op.Input(g, "x", typ), op.Input(g, "pos", ir.TypeOf(dtype.I32))
	last := []*ir.Node{op.State(g, "a", typ, 1), op.State(g, "b", typ, -2)}
	values := []*ir.Node{x, last[0], last[1]}
	pick := func() *ir.Node { return values[r.IntN(len(values))] }
	for range 4 + r.IntN(12) {
		switch v := pick(); r.IntN(8) {
		case 0, 1:
			values = append(values, op.Add(v, pick()))
		case 2:
			values = append(values, op.Neg(v))
		case 3: // read views: rows 1 and 2 of one value, rows 0 and 3 of others
			values = append(
				values, op.Concat(0, op.Narrow(v, 0, 1, 2), op.Narrow(pick(), 0, 0, 1), op.Narrow(pick(), 0, 3, 1)))
		case 4: // one op updates both, in either order
			k := r.IntN(2)
			numbers := op.Reshape(op.Narrow(op.Sign(x), 1, 0, 1), ir.Shape{ir.Static(4)})
			results := g.AddResults(2, op.SGDDef, op.NoAttrs{}, last[k], last[1-k], v, numbers)
			last[k], last[1-k] = results[0], results[1]
			values = append(values, results...)
		case 5: // an op with several results reads one
			y, _ := op.TopK(v, 3)
			values = append(values, y)
		default:
			k := r.IntN(2)
			last[k] = op.KVAppend(last[k], op.Narrow(v, 0, 0, 2), pos, 0)
			values = append(values, last[k])
		}
	}
	for i := range 1 + r.IntN(3) {
		g.Return(fmt.Sprint("y", i), pick())
	}
	return g
}

// TestUpdates checks that a program with states computes what its graph says, over several runs, in whatever order the
// graph reads and updates states. RunProgram poisons memory, so a read after the update of its operand gives a wrong
// result.
func TestUpdates(t *testing.T) {
	copies, updates := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 3))
		g := randomStates(r)
		if err := g.Verify(); err != nil {
			t.Fatal(err)
		}
		p, _, err := sched.Build(g, sched.Options{Target: "cpu"})
		if err != nil {
			t.Fatalf("seed %d: %v\n%v", seed, err, g)
		}
		if p.Updates() {
			updates++
		}
		for _, n := range p.Graph.Nodes {
			if n.Op == op.CopyDef && n.In[0].StateOf() != nil &&
				!slices.ContainsFunc(p.Graph.Outputs, func(o ir.Output) bool { return o.Node == n }) {
				copies++
			}
		}
		states := map[string]*tensor.Array{}
		memory := program.InitState(p.States(), p.StateSize)
		for run := range 3 {
			in := map[string]*tensor.Array{"x": tensor.NewArray(dtype.F32, 4, 3), "pos": tensor.NewArray(dtype.I32)}
			for i := range in["x"].Floats {
				in["x"].Floats[i] = float64(r.IntN(9))
			}
			in["pos"].Ints[0] = int64(r.IntN(3))
			want, err := interp.RunFrom(states, g, nil, in, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := interp.RunProgramFrom(memory, p, nil, in, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, x := range want {
				if err := interp.Compare(got[name], x, ir.Tolerance{}); err != nil {
					t.Fatalf("seed %d, run %d, %s: %v\n%v", seed, run, name, err, g)
				}
			}
			for _, s := range p.States() {
				have := tensor.Tensor{DType: dtype.F32, Shape: []int{4, 3},
					Data: memory[s.Offset : s.Offset+s.Bytes()]}.Array()
				if x := states[s.Name]; x != nil && interp.Compare(have, x, ir.Tolerance{}) != nil {
					t.Fatalf("seed %d, run %d: state %s is %v; want %v\n%v", seed, run, s.Name, have.Floats, x.Floats,
						g)
				}
			}
		}
		again, _, err := sched.Build(g, sched.Options{Target: "cpu"})
		if err != nil || again.Graph.String() != p.Graph.String() {
			t.Errorf("seed %d: another program, %v", seed, err)
		}
	}
	if copies < 20 || updates < 200 {
		t.Errorf("%d programs update a state and %d copies of old values were made: the test shows little", updates,
			copies)
	}
}

// TestNoCopies checks that no copy is made for reads that can run before the update, wherever they are in the graph.
func TestNoCopies(t *testing.T) {
	g, err := ir.Parse(`graph g
x = input : f32[2,3]
pos = input : i32[]
cache = state {init=0} : f32[4,3]
next = kv_append cache, x, pos {axis=0} : f32[4,3]
head = narrow cache {axis=0, len=2, start=0} : f32[2,3]
old = add head, x : f32[2,3]
new = neg next : f32[4,3]
return old=old, new=new
`)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := sched.Build(g, sched.Options{Target: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Graph.String(); strings.Contains(s, "copy") || strings.Index(s, "old =") > strings.Index(s, "next =") {
		t.Error(s)
	}
}

// TestBadUpdates checks that only states can be updated, and each of their values only once.
func TestBadUpdates(t *testing.T) {
	for text, want := range map[string]string{
		"z = concat x, x {axis=0} : f32[4,3]\ny = kv_append z, x, pos {axis=0}":               "is a value of op concat; want a state or the result of an update",
		"v = reshape s : f32[4,3]\ny = kv_append v, x, pos {axis=0}":                          "is a value of op reshape",
		"a = kv_append s, x, pos {axis=0} : f32[4,3]\ny = kv_append s, x, pos {axis=0}":       "is updated by another node before",
		"y = kv_append s, x, pos {axis=2}":                                                    "axis 2 is out of range for rank 2",
		"y = kv_append s, pos, pos {axis=0}":                                                  "rows are i32[]",
		"w = concat x, x, x {axis=0} : f32[6,3]\ny = kv_append s, w, pos {axis=0}":            "has no place for so many",
		"p = cast pos {to=f32} : f32[]\ny = kv_append s, x, p {axis=0}":                       "pos is f32[]; want i32[] or i64[]",
		"n = narrow x {axis=1, len=2, start=0} : f32[2,2]\ny = kv_append s, n, pos {axis=0} ": "want the sizes of state",
	} {
		_, err := ir.Parse("graph g\nx = input : f32[2,3]\npos = input : i32[]\ns = state {init=0} : f32[4,3]\n" +
			text + " : f32[4,3]\nreturn y=y\n")
		if err == nil {
			g, _ := ir.Parse("graph g\nx = input : f32[2,3]\npos = input : i32[]\ns = state {init=0} : f32[4,3]\n" +
				text + " : f32[4,3]\nreturn y=y\n")
			err = g.Verify()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

// TestStateLayout checks that methods share states of the same name, and that these must have the same type and initial
// value.
func TestStateLayout(t *testing.T) {
	graph := func(states ...string) *ir.Graph {
		g := ir.NewGraph("g")
		for i, s := range states {
			typ, init, _ := strings.Cut(s, "=")
			op.State(g, string('a'+rune(i)), ir.MustType(typ), float64(len(init)))
		}
		return g
	}
	s, err := sched.StateLayout(graph("f32[3]", "i32[100]"), graph("f32[3]"), graph("f32[3]", "i32[100]", "f16[1]"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, name := range []string{"a", "b", "c"} {
		at, size, ok := s.Find(name)
		if !ok || size != 256+512+256 {
			t.Errorf("%s: %d, %v", name, size, ok)
		}
		got[name] = at
	}
	if want := map[string]int64{"a": 0, "b": 256, "c": 768}; !maps.Equal(got, want) {
		t.Errorf("offsets %v; want %v", got, want)
	}
	for _, other := range []string{"f32[4]", "f16[3]", "f32[3]=x"} {
		if _, err := sched.StateLayout(graph("f32[3]"), graph(other)); err == nil ||
			!strings.Contains(err.Error(), "state a is") {
			t.Errorf("%s: %v", other, err)
		}
	}
}
