package hir_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir/controltest"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// both evaluates a graph by the reference, in which only the branches that are taken run, and its lowering, in which
// all of them do. The outputs must be the same.
func both(t *testing.T, g *ir.Graph, syms map[string]int64, in map[string]*tensor.Array, params interp.Params) (
	map[string]*tensor.Array, error) {
	t.Helper()
	if err := g.Verify(); err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	flat, err := g.LowerBlocks(nil)
	if err == nil {
		err = flat.Verify()
	}
	if err != nil {
		t.Fatalf("lowered: %v\n%s", err, g)
	}
	want, err := interp.Run(g, syms, in, params)
	got, err2 := interp.Run(flat, syms, in, params)
	switch {
	case err != nil:
		return nil, err // the lowering lacks values that nothing uses, so it may succeed
	case err2 != nil:
		t.Fatalf("only the lowering fails: %v\n%s", err2, g)
	}
	for name, w := range want {
		if err := interp.Compare(got[name], w, ir.Tolerance{}); err != nil {
			t.Fatalf("%s of the lowering: %v\n%s", name, err, g)
		}
	}
	return want, nil
}

func parse(t *testing.T, text string) *ir.Graph {
	t.Helper()
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := ir.Parse(g.String()); err != nil || back.String() != g.String() {
		t.Fatalf("printed and parsed: %v\n%s", err, g)
	}
	return g
}

func scalar(v float64) *tensor.Array { return &tensor.Array{DType: dtype.F32, Floats: []float64{v}} }

// roots has an if in a while. It computes square roots by Newton's method, and 0 for numbers without a root.
const roots = `graph go_on
x = input : f32[]
a = input : f32[]
i = input : i32[]
square = mul x, x : f32[]
off = sub square, a : f32[]
size = abs off : f32[]
most = const {value=1e-06} : f32[]
far = gt size, most : bool[]
return far=far

graph newton
x = input : f32[]
a = input : f32[]
q = div a, x : f32[]
s = add x, q : f32[]
half = const {value=0.5} : f32[]
next = mul s, half : f32[]
return next=next

graph zero
x = input : f32[]
a = input : f32[]
z = const : f32[]
return z=z

graph step
x = input : f32[]
a = input : f32[]
i = input : i32[]
z = const : f32[]
negative = lt a, z : bool[]
next = if negative, x, a {else=@newton, then=@zero} : f32[]
one = const {value=1.0} : i32[]
j = add i, one : i32[]
return next=next, a=a, j=j

graph sqrt
a = input : f32[]
x = const {value=1.0} : f32[]
i = const : i32[]
root = while x, a, i {body=@step, cond=@go_on, max_iterations=12} : f32[]
n = while x, a, i {body=@step, cond=@go_on, max_iterations=12, result=2} : i32[]
return root=root, n=n
`

func TestNewton(t *testing.T) {
	g := parse(t, roots)
	for _, a := range []float64{2, 1, 0, 9, 1e-3, 1000, -4, math.Inf(1), math.NaN()} {
		x, n := 1.0, 0
		for math.Abs(x*x-a) > float64(float32(1e-6)) && n < 12 {
			n++
			if a < 0 {
				x = 0
			} else {
				x = (x + a/x) * 0.5
			}
		}
		out, err := both(t, g, nil, map[string]*tensor.Array{"a": scalar(a)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, count := out["root"].Floats[0], out["n"].Ints[0]
		if got != x && !(math.IsNaN(got) && math.IsNaN(x)) || int(count) != n {
			t.Errorf("sqrt %v: %v after %d iterations; want %v after %d", a, got, count, x, n)
		}
	}
}

// TestLSTM compares a scan with two carried values with loops.
func TestLSTM(t *testing.T) {
	const steps, batch, hidden, width = 7, 2, 3, 4
	g := parse(t, `graph cell
h = input : f32[2,3]
c = input : f32[2,3]
wh = input : f32[12,3]
x = input : f32[2,4]
wx = param : f32[12,4]
b = param : f32[12]
zx = matmul x, wx {trans_b=true} : f32[2,12]
zh = matmul h, wh {trans_b=true} : f32[2,12]
zs = add zx, zh : f32[2,12]
z = add zs, b : f32[2,12]
i, f, n, o = split z {axis=1, parts=4} : f32[2,3], f32[2,3], f32[2,3], f32[2,3]
si = sigmoid i : f32[2,3]
sf = sigmoid f : f32[2,3]
tn = tanh n : f32[2,3]
so = sigmoid o : f32[2,3]
kept = mul sf, c : f32[2,3]
new = mul si, tn : f32[2,3]
c1 = add kept, new : f32[2,3]
tc = tanh c1 : f32[2,3]
h1 = mul so, tc : f32[2,3]
return h=h1, c=c1

graph lstm
h = input : f32[2,3]
c = input : f32[2,3]
x = input : f32[7,2,4]
wh = param : f32[12,3]
all = scan h, c, wh, x {body=@cell, carried=2, steps=1, trajectory=true} : f32[7,2,3]
last = scan h, c, wh, x {body=@cell, carried=2, length=7, result=1, steps=1} : f32[2,3]
return all=all, last=last
`)
	rng := rand.New(rand.NewPCG(5, 6))
	values := map[string]*tensor.Array{}
	for _, n := range append(g.Bodies(), g) {
		for _, x := range append(n.Inputs(), n.Params()...) {
			if values[x.Name] == nil || x.Graph == g {
				values[x.Name] = interp.Random(rng, x.Type, nil, ir.Range{Lo: -1, Hi: 1})
			}
		}
	}
	in := map[string]*tensor.Array{"h": values["h"], "c": values["c"], "x": values["x"]}
	out, err := both(t, g, nil, in, func(name string) (*tensor.Array, error) { return values[name], nil })
	if err != nil {
		t.Fatal(err)
	}
	h, c := slices.Clone(values["h"].Floats), slices.Clone(values["c"].Floats)
	x, wx, wh, b := values["x"].Floats, values["wx"].Floats, values["wh"].Floats, values["b"].Floats
	sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	for s := range steps {
		before := slices.Clone(h)
		for r := range batch {
			gate := func(j int) float64 {
				z := b[j]
				for k := range width {
					z += x[(s*batch+r)*width+k] * wx[j*width+k]
				}
				for k := range hidden {
					z += before[r*hidden+k] * wh[j*hidden+k]
				}
				return z
			}
			for j := range hidden {
				k := r*hidden + j
				c[k] = sigmoid(gate(hidden+j))*c[k] + sigmoid(gate(j))*math.Tanh(gate(2*hidden+j))
				h[k] = sigmoid(gate(3*hidden+j)) * math.Tanh(c[k])
			}
		}
		for k, want := range h {
			if got := out["all"].Floats[s*len(h)+k]; math.Abs(got-want) > 1e-12 {
				t.Fatalf("step %d, element %d: %v; want %v", s, k, got, want)
			}
		}
	}
	same(t, "c", out["last"], c, 1e-12)
}

// TestBeamSearch compares a search of the best 3 of all sequences, step by step, with loops. The log probability of a
// token depends on the one before.
func TestBeamSearch(t *testing.T) {
	const beams, vocabulary, steps = 3, 5, 4
	g := parse(t, `graph step
scores = input : f32[3]
tokens = input : i32[3]
history = input : i32[3,4]
table = input : f32[5,5]
at = input : i32[4]
next = gather table, tokens : f32[3,5]
column = reshape scores : f32[3,1]
sums = add next, column : f32[3,5]
line = reshape sums : f32[15]
best, where = top_k line {k=3} : f32[3], i32[3]
v = const {value=5.0} : i32[]
beam = div where, v : i32[3]
token = remainder where, v : i32[3]
kept = gather history, beam : i32[3,4]
here = reshape at : i32[1,4]
zero = const : i32[]
now = ne here, zero : bool[1,4]
new = reshape token : i32[3,1]
written = where now, new, kept : i32[3,4]
return best=best, token=token, written=written

graph search
table = input : f32[5,5]
first = const {value=-1000.0} : f32[2]
zero = const : f32[1]
scores = concat zero, first {axis=0} : f32[3]
tokens = const : i32[3]
history = const : i32[3,4]
index = iota {axis=1} : i32[4,4]
row = iota {axis=0} : i32[4,4]
same = eq index, row : bool[4,4]
at = cast same {to=i32} : i32[4,4]
best = scan scores, tokens, history, table, at {body=@step, carried=3, steps=1} : f32[3]
text = scan scores, tokens, history, table, at {body=@step, carried=3, result=2, steps=1} : i32[3,4]
return best=best, text=text
`)
	table := interp.Random(rand.New(rand.NewPCG(3, 3)), f32(5, 5), nil, ir.Range{Lo: -3, Hi: 0})
	out, err := both(t, g, nil, map[string]*tensor.Array{"table": table}, nil)
	if err != nil {
		t.Fatal(err)
	}
	type beam struct {
		score float64
		text  []int64
	}
	list := []beam{{0, nil}}
	for range steps {
		var all []beam
		for _, b := range list {
			last := int64(0)
			if len(b.text) > 0 {
				last = b.text[len(b.text)-1]
			}
			for v := range vocabulary {
				all = append(
					all, beam{b.score + table.Floats[int(last)*vocabulary+v], append(slices.Clone(b.text), int64(v))})
			}
		}
		slices.SortStableFunc(all, func(a, b beam) int { return int(math.Copysign(1, b.score-a.score)) })
		list = all[:min(beams, len(all))]
	}
	for k, b := range list {
		if got := out["text"].Ints[k*steps:][:steps]; math.Abs(out["best"].Floats[k]-b.score) > 1e-12 ||
			!slices.Equal(got, b.text) {
			t.Errorf("beam %d: %v %v; want %v %v", k, out["best"].Floats[k], got, b.score, b.text)
		}
	}
}

// TestSelectedElements checks an if with several bools, which selects elements.
func TestSelectedElements(t *testing.T) {
	g := parse(t, `graph double
sym N = 1..4
x = input : f32[N]
y = add x, x : f32[N]
return y=y

graph negate
sym N = 1..4
x = input : f32[N]
y = neg x : f32[N]
return y=y

graph main
sym N = 1..4
x = input : f32[N]
p = input : bool[N]
y = if p, x {else=@negate, then=@double} : f32[N]
return y=y
`)
	x := &tensor.Array{DType: dtype.F32, Shape: []int{3}, Floats: []float64{1, 2, 3}}
	for _, p := range [][]int64{{1, 0, 1}, {1, 1, 1}, {0, 0, 0}} {
		out, err := both(t, g, map[string]int64{"N": 3},
			map[string]*tensor.Array{"x": x, "p": {DType: dtype.Bool, Shape: []int{3}, Ints: p}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range x.Floats {
			if want := v * float64(3*p[i]-1); out["y"].Floats[i] != want {
				t.Errorf("%v: element %d is %v; want %v", p, i, out["y"].Floats[i], want)
			}
		}
	}
}

// guarded has an index that is out of range unless the branch is taken, and a division by 0 after the loop has ended.
const guarded = `graph inside
t = input : f32[4]
i = input : i32[]
v = gather t, i : f32[]
return v=v

graph outside
t = input : f32[4]
i = input : i32[]
v = const {value=-1.0} : f32[]
return v=v

graph more
i = input : i32[]
sum = input : i32[]
zero = const : i32[]
c = gt i, zero : bool[]
return c=c

graph divide
i = input : i32[]
sum = input : i32[]
hundred = const {value=100.0} : i32[]
q = div hundred, i : i32[]
s = add sum, q : i32[]
one = const {value=1.0} : i32[]
j = sub i, one : i32[]
return j=j, s=s

graph look
t = input : f32[4]
i = input : i32[]
zero = const : i32[]
last = const {value=3.0} : i32[]
low = ge i, zero : bool[]
high = le i, last : bool[]
ok = and low, high : bool[]
v = if ok, t, i {else=@outside, then=@inside} : f32[]
sum = while i, zero {body=@divide, cond=@more, max_iterations=6, result=1} : i32[]
return v=v, sum=sum
`

// TestNotTaken checks that an index out of range and a division by 0 are not errors where nothing uses the result, and
// errors elsewhere.
func TestNotTaken(t *testing.T) {
	g := parse(t, guarded)
	table := &tensor.Array{DType: dtype.F32, Shape: []int{4}, Floats: []float64{5, 6, 7, 8}}
	for i, want := range map[int64][2]float64{-1: {-1, 0}, 0: {5, 0}, 3: {8, 183}, 4: {-1, 208}, 9e9: {-1, 0}} {
		if i > 1<<31 {
			i = math.MinInt32
		}
		out, err := both(t, g, nil, map[string]*tensor.Array{"t": table, "i": {DType: dtype.I32, Ints: []int64{i}}},
			nil)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if v, sum := out["v"].Floats[0], float64(out["sum"].Ints[0]); v != want[0] || sum != want[1] {
			t.Errorf("%d: %v %v; want %v", i, v, sum, want)
		}
	}
	taken := parse(t, strings.Replace(guarded, "ok = and low, high", "ok = or low, high", 1))
	flat, err := taken.LowerBlocks(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []*ir.Graph{taken, flat} {
		_, err := interp.Run(g, nil, map[string]*tensor.Array{"t": table, "i": {DType: dtype.I32, Ints: []int64{4}}},
			nil)
		if err == nil || !strings.Contains(err.Error(), "gather: index 4 at position 0 is out of range 0 to 3") {
			t.Errorf("error %v", err)
		}
	}
}

// TestControlErrors checks which control flow is refused, and the texts of the errors.
func TestControlErrors(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"{else=@newton, then=@zero}", "{else=@newton}", "next: if: has no then; want a graph, such as {then=@NAME}"},
		{"lt a, z : bool[]", "add a, z : f32[]", "next: if: pred is f32[]; want bool[]"},
		{"return next=next\n\ngraph zero", "return next=next, s=s\n\ngraph zero",
			"next: if: else: graph newton has 2 outputs; want 1"},
		{"z = const : f32[]\nreturn z=z", "z = const : i32[]\nreturn z=z",
			"next: if: then returns i32[] and else f32[]; want the same type"},
		{", max_iterations=12, result=2", "", "n: while: max_iterations is 0; want 1 to 2147483647"},
		{"result=2", "result=3", "n: while: result is 3; want 0 to 2, the index of a carried value"},
		{"return next=next, a=a, j=j", "return next=next, a=a",
			"root: while: body: graph step returns [f32[] f32[]]; want the types of the carried values, [f32[] f32[] i32[]]"},
		{"return next=next, a=a, j=j", "return next=next, j=j, a=a",
			"root: while: body: graph step returns [f32[] i32[] f32[]]; want the types"},
		{"return far=far", "return off=off",
			"root: while: cond: graph go_on returns [f32[]]; want one value of type bool"},
		{"while x, a, i {", "while x, a {", "root: while: cond: graph go_on has 3 inputs; want 2"},
	} {
		text := strings.Replace(roots, c.from, c.to, 1)
		if text == roots {
			t.Fatalf("%q is not there", c.from)
		}
		if _, err := ir.Parse(text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q:\n\t%v\nwant\n\t%s", c.to, c.from, err, c.want)
		}
	}
	const sum = `graph sum
s = input : f32[]
x = input : f32[]
t = add s, x : f32[]
return t=t
graph main
s = input : f32[]
x = input : f32[5]
y = scan s, x {ATTRS} : TYPE
return y=y
`
	for _, c := range []struct{ attrs, typ, want string }{
		{"body=@sum, steps=1", "f32[]", ""},
		{"body=@sum, steps=1, trajectory=true", "f32[5]", ""},
		{"body=@sum", "f32[]", "length is 0; want 1 to 2147483647, or operands with slices"},
		{"body=@sum, length=5", "f32[]", "input x of graph sum is f32[]; it is given f32[5]"},
		{"body=@sum, steps=1, length=4", "f32[]", "in[1] is f32[5]; want 4 slices, the length"},
		{"body=@sum, steps=2", "f32[]", "carried is 0 and steps 2 of 2 operands"},
		{"body=@sum, steps=1, carried=2", "f32[]", "carried is 2 and steps 1 of 2 operands"},
		{"body=@sum, steps=1, result=1", "f32[]", "result is 1; want 0 to 0"},
		{"steps=1", "f32[]", "has no body; want a graph, such as {body=@NAME}"},
	} {
		_, err := ir.Parse(strings.NewReplacer("ATTRS", c.attrs, "TYPE", c.typ).Replace(sum))
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), "y: scan: "+c.want) &&
				!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %s", c.attrs, err, c.want)
		}
	}
	long := strings.NewReplacer("ATTRS", "body=@sum, length=100000", "TYPE", "f32[]", "x = input : f32[5]",
		"x = input : f32[]").Replace(sum)
	g, err := parse(t, long).LowerBlocks(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = g.Expand(func(n *ir.Node) bool { return n.Op == op.LoopDef })
	if err == nil ||
		!strings.Contains(err.Error(), "the loop has 100000 iterations, which have 300000 nodes together; "+
			"where a target does not run loops as one step, as cpu does, they are unrolled, to at most 65536 nodes") {
		t.Errorf("error %v", err)
	}
}

// TestStatesInBranches checks that a branch must not update a state.
func TestStatesInBranches(t *testing.T) {
	g, err := ir.Parse(`graph append
x = input : f32[1,2]
cache = state : f32[4,2]
at = const : i32[]
next = kv_append cache, x, at : f32[4,2]
y = narrow next {len=1} : f32[1,2]
return y=y

graph keep
x = input : f32[1,2]
return y=x

graph main
x = input : f32[1,2]
p = input : bool[]
y = if p, x {else=@keep, then=@append} : f32[1,2]
return y=y
`)
	if err == nil {
		err = g.Verify()
	}
	if err == nil ||
		!strings.Contains(err.Error(), "graph append: cache: op state has to do with a state, which is not allowed") {
		t.Errorf("error %v", err)
	}
}

// TestRandomControl compares random programs of nested control flow with their lowering. Indices are often out of
// range.
func TestRandomControl(t *testing.T) {
	ran := 0
	for seed := range uint64(400) {
		g, err := controltest.Random(seed)
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Bodies()) == 0 {
			continue
		}
		in, rng := map[string]*tensor.Array{}, rand.New(rand.NewPCG(seed, 2))
		for _, n := range g.Inputs() {
			in[n.Name] = interp.Random(rng, n.Type, nil, ir.Range{Lo: -2, Hi: 5})
		}
		if _, err := both(t, g, nil, in, nil); err == nil {
			ran++
		} else if !strings.Contains(err.Error(), "out of range") {
			t.Fatal(err)
		}
	}
	if ran < 100 {
		t.Errorf("only %d programs ran", ran)
	}
}
