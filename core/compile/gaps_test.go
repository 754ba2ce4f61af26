package compile_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/internal/modeltest"
)

// manyOps are graphs with many kinds of ops and types.
const manyOps = `graph cache
sym T = 1..8
q = input : f32[1,T,8]
k = input : f32[1,T,8]
pos = input : i32[]
keys = state : f32[1,16,8]
keys1 = kv_append keys, k, pos {axis=1} : f32[1,16,8]
y = attention q, keys1, keys1, position=pos {heads=2, layout="bse", mask="causal"} : f32[1,T,8]
return y=y

graph types
x = input : f32[4,8]
i = input : i64[3]
w = param : f16[8,8]
b = param : bool[4,1]
small = param : i8[4,8]
h = matmul x, w : f32[4,8]
s = where b, h, x : f32[4,8]
c = cast small {to=f32} : f32[4,8]
n = isnan s : bool[4,8]
a = add s, c : f32[4,8]
g = gather a, i : f32[3,8]
r = reduce_sum g {axes=[1]} : f32[3]
m = gelu r : f32[3]
return m=m, n=n, i=i
`

func layoutOf(ws []compile.Weight) (at int64, err error) {
	for i := range ws {
		ws[i].Offset = at
		at += program.AlignUp(ws[i].Size())
	}
	return at, nil
}

// TestGaps takes rules, types and limits away from targets. Gaps must be empty exactly if the compiler accepts the
// target, and with the lines that it gives the compiler must accept it.
func TestGaps(t *testing.T) {
	stored := modeltest.Open(t, modeltest.Manifest(t, golden), dtype.F16)
	sam := modeltest.Build(t, stored, "", "mask_decoder_config.num_attention_heads=2")
	texts, err := ir.ParseAll(manyOps, ir.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 8))
	empty, gaps := 0, 0
	bases := slices.DeleteFunc(target.Builtin(), target.AsWGPU)
	for i := range 36 {
		full := bases[i%3]
		d, drop := *full, []float64{0, 0.1, 0.5, 1}[i/3%4]
		keep := func() bool { return rng.Float64() >= drop }
		d.Rules = slices.DeleteFunc(slices.Clone(d.Rules), func(r target.Rule) bool {
			return r.How == target.Reference || !keep()
		})
		d.Types = slices.DeleteFunc(slices.Clone(d.Types), func(x dtype.DType) bool {
			return x != dtype.F32 && !keep()
		})
		d.Name = "less"
		if i%5 == 0 {
			d.MaxRank, d.MaxOperands = 3, 2
		}
		methods := texts
		if i%8 == 0 {
			methods = sam.Methods
		}
		o := compile.Options{Targets: []compile.Target{{Name: "less", Takes: &d}}, Layout: layoutOf}
		list, err := compile.Gaps(t.Context(), methods, o)
		if err != nil {
			t.Fatalf("%v\n%s", err, &d)
		}
		_, err = compile.Compile(t.Context(), methods, o)
		if err != nil && !errors.Is(err, code.Untaken) {
			t.Fatal(err)
		}
		if list[0].Empty() != (err == nil) {
			t.Errorf("target %d: gaps %v; compiling gives %v", i, list[0].Lines, err)
		}
		if list[0].Empty() {
			empty++
			continue
		}
		gaps++
		again, err := target.Parse(list[0].Extended.String())
		if err == nil {
			err = again.Check()
		}
		if err != nil {
			t.Fatal(err)
		}
		o.Targets[0].Takes = again
		if _, err = compile.Compile(t.Context(), methods, o); err != nil {
			t.Errorf("target %d with\n%s\n: %v", i, strings.Join(list[0].Lines, "\n"), err)
		}
	}
	if empty < 3 || gaps < 20 {
		t.Errorf("%d targets lack nothing, %d lack something", empty, gaps)
	}
}

// TestGapsSay checks what is said about one op and one type.
func TestGapsSay(t *testing.T) {
	g, err := ir.ParseAll(`graph f
x = input : f32[4,8]
w = param : f16[8,8]
h = matmul x, w : f32[4,8]
y = softmax h {axis=1} : f32[4,8]
z = softmax y {axis=1} : f32[4,8]
return z=z
`, ir.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	few, err := target.Parse(`target few 1
types f32
run div(f32...)
run exp(f32)
run matmul(f32...)
run reduce_sum(f32)
run sub(f32...)
`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := compile.Gaps(t.Context(), g, compile.Options{Targets: []compile.Target{{Name: "few", Takes: few}}})
	if err != nil {
		t.Fatal(err)
	}
	got := list[0]
	if types := (compile.TypeGap{Type: dtype.F16, Weights: 1, Methods: []string{"f"}}); !reflect.DeepEqual(
		got.Types, []compile.TypeGap{types}) {
		t.Errorf("types are %+v; want %+v", got.Types, types)
	}
	want := []string{"types f32 f16", "run cast(f16) -> f32", `run reduce_max(f32) if axes = last and keep_dims = true`}
	if !slices.Equal(got.Lines, want) {
		t.Errorf("lines are %q; want %q", got.Lines, want)
	}
	i := slices.IndexFunc(got.Ops, func(o compile.OpGap) bool { return o.Op == "softmax" })
	if i < 0 {
		t.Fatalf("ops are %+v", got.Ops)
	}
	s := got.Ops[i]
	if s.Nodes["f"] != 2 || s.Rule.String() != "run softmax(f32) if axis = last" ||
		len(s.Rewrite) != 1 || s.Rewrite[0].Rules[0].String() != want[2] ||
		s.Uses[0].Why != "few has no rule for softmax" || !slices.Contains(s.Others, "cpu") {
		t.Errorf("softmax: %+v", s)
	}
}

// TestFallbackState checks that the error for an op on a state names what the target really lacks: not the op, which
// would be expanded.
func TestFallbackState(t *testing.T) {
	g, err := ir.ParseAll(manyOps, ir.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	d := *target.Primitive("less")
	d.Rules = slices.DeleteFunc(d.Rules, func(r target.Rule) bool { return r.Op == "iota" })
	cpu, _ := target.Find("cpu")
	_, err = compile.Compile(t.Context(), g[:1], compile.Options{Targets: []compile.Target{{Name: "less", Takes: &d}},
		Fallbacks: []compile.Target{{Name: "cpu", Takes: cpu}}, Layout: layoutOf})
	if !errors.Is(err, code.Untaken) || !strings.Contains(err.Error(), "attention reads or updates a state") ||
		!strings.Contains(err.Error(), "it would run with: run iota() -> i32") {
		t.Errorf("%v", err)
	}
}
