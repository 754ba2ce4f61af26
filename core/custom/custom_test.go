package custom_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/custom"
	_ "github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// library reads files of testdata.
func library(t testing.TB, names ...string) *custom.Library {
	t.Helper()
	l := &custom.Library{}
	for _, name := range names {
		if err := l.Parse(name, read(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parse(t testing.TB, l *custom.Library, text string) *ir.Graph {
	t.Helper()
	g, err := ir.ParseAll("graph main\n"+text, ir.Limits{Unknown: l.Resolve})
	if err == nil {
		err = g[0].Verify()
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return g[0]
}

// TestBuiltIn expresses two ops of RLX by definitions and compares the results: also for other attributes, and for NaN.
func TestBuiltIn(t *testing.T) {
	l := library(t, "knn.rlxop", "gate.rlxop")
	for _, c := range []struct {
		name  string
		def   *ir.OpDef
		attrs func(own map[string]any) any
	}{
		{"umap.knn", op.KNNDef, func(own map[string]any) any { return op.KNNAttrs{K: int(own["k"].(int64))} }},
		{"deepseek.gate", op.GroupLimitedGateDef, func(own map[string]any) any {
			n := func(name string) int { return int(own[name].(int64)) }
			return op.GroupLimitedGateAttrs{Groups: n("groups"), GroupsKept: n("groups_kept"), K: n("k"),
				Scale: own["scale"].(float64)}
		}},
	} {
		d, ok := l.Find(c.name)
		if !ok {
			t.Fatal(c.name)
		}
		cases, err := d.Cases()
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range cases {
			own := map[string]any{}
			for _, a := range x.Attrs.(op.CustomAttrs).Own {
				own[a.Name] = a.Value
			}
			attrs := c.attrs(own)
			want, err := c.def.InferResults(attrs, x.In, ir.Type{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := op.CustomDef.InferResults(x.Attrs, x.In, ir.Type{}, nil)
			if err != nil || !slices.EqualFunc(got, want, ir.Type.Equal) {
				t.Fatalf("%s, case %d: %v, %v; want %v", c.name, i, got, err, want)
			}
			for seed := range uint64(8) {
				in := interp.CaseInputs(x, seed)
				if seed > 5 { // some are not numbers
					last := in[len(in)-1].Floats
					for k := range last {
						if k%3 == 0 {
							last[k] = nan()
						}
					}
				}
				a, b := arrays(want), arrays(want)
				if err := c.def.Eval(attrs, in, a...); err != nil {
					t.Fatal(err)
				}
				if err := op.CustomDef.Eval(x.Attrs, in, b...); err != nil {
					t.Fatal(err)
				}
				for k, tol := range c.def.Tol(attrs, x.In, want...) {
					if err := interp.Compare(b[k], a[k], tol); err != nil {
						t.Errorf("%s, case %d, seed %d, result %d: %v", c.name, i, seed, k, err)
					}
				}
			}
		}
	}
}

func nan() float64 { var zero float64; return zero / zero }

func arrays(types []ir.Type) (out []*tensor.Array) {
	for _, t := range types {
		out = append(out, tensor.NewArray(t.DType, t.Shape.Eval(nil)...))
	}
	return out
}

// TestText checks how a text graph names an op, and that printed graphs need no definition.
func TestText(t *testing.T) {
	l := library(t, "wave.rlxop", "knn.rlxop")
	g := parse(t, l, `sym M = 1..7
x = input : f32[M]
d = input : f32[9,9]
a = acme.wave x {alpha=2} : f32[M]
b = acme.wave a : f32[M]
i, n = umap.knn d {k=5} : i32[9,5], f32[9,5]
return b=b, i=i, n=n
`)
	again, err := ir.Parse(g.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	if again.String() != g.String() {
		t.Errorf("printed and parsed again:\n%s\nwant\n%s", again, g)
	}
	for _, text := range []string{`name="acme.wave", own={alpha=2.0}`, "mul", "graph acme.wave\n"} {
		if !strings.Contains(g.String(), text) {
			t.Errorf("lacks %q:\n%s", text, g)
		}
	}
}

// TestErrors checks the messages for mistakes in text graphs and in definitions.
func TestErrors(t *testing.T) {
	l := library(t, "wave.rlxop")
	for text, want := range map[string]string{
		"x = input : f32[3]\ny = acme.wawe x : f32[3]\nreturn y=y":                `op "acme.wawe": is not an op of RLX, and no definition of it is given; defined are acme.wave`,
		"x = input : f32[3]\ny = acme.wave x {beta=1} : f32[3]\nreturn y=y":       `acme.wave: unknown attribute "beta"; known: [alpha]`,
		"x = input : f32[3]\ny = acme.wave x {alpha=true} : f32[3]\nreturn y=y":   `attribute "alpha" is true; want a value like its default, 0.5`,
		"x = input : f16[3]\ny = acme.wave x : f16[3]\nreturn y=y":                "acme.wave: x is f16[3]; want f32[N]",
		"x = input : f32[3,3]\ny = acme.wave x : f32[3,3]\nreturn y=y":            "acme.wave: x is f32[3,3]; want f32[N]",
		"x = input : f32[3]\ny = acme.wave x, x : f32[3]\nreturn y=y":             "2 operands; want 1",
		"x = input : f32[2000000]\ny = acme.wave x : f32[2000000]\nreturn y=y":    "size N is 2000000; want 0 to 1048576",
		"x = input : f32[3]\ny = custom x {name=\"acme.x\"} : f32[3]\nreturn y=y": "acme.x has no expansion",
	} {
		_, err := ir.ParseAll("graph main\n"+text, ir.Limits{Unknown: l.Resolve})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v; want %q", text, err, want)
		}
	}
	_, err := ir.ParseAll("graph main\nx = input : f32[3]\ny = acme.wawe x : f32[3]\nreturn y=y",
		ir.Limits{Unknown: l.Resolve})
	if !errors.Is(err, code.UnknownOp) {
		t.Errorf("%v; want code %s", err, code.UnknownOp)
	}
	const good = "op a.b\ngraph expansion\nx = input : f32[3]\ny = neg x : f32[3]\nreturn y=y\n"
	if err := new(custom.Library).Parse("f", good); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                               `f: defines no op; want a line "op NAME"`,
		"attr k = 3":                     `line 1: found "attr k = 3"; want a line "op NAME" first`,
		"op wave":                        "line 1: op \"wave\": want a name with a dot, such as acme.wave",
		"op a.b\nattr k":                 `line 2: attr "k"; want attr NAME = DEFAULT`,
		"op a.b\nattr name = 3":          "want lower-case letters, digits and _, and none of name, own",
		"op a.b\nattr k = 3\nattr k = 4": "line 3: attribute k is listed twice",
		"op a.b\ncolour red":             `line 2: found "colour red"; want attr, tolerance`,
		"op a.b\ntolerance 1":            `line 2: tolerance "1"; want tolerance ABSOLUTE RELATIVE`,
		"op a.b\nreplaces all":           "line 2: replaces \"all\"; want replaces expansion",
		"op a.b":                         "line 1: has no expansion",
		good + good:                      "op a.b is defined twice",
		"op a.b\ngraph expansion\ny = neg x : f32[3]\nreturn y=y":                                                                                                `op a.b: line 3: y: unknown operand "x"`,
		"op a.b\ngraph expansion\nx = input : f32[3]\nw = param : f32[3]\ny = add x, w : f32[3]\nreturn y=y":                                                     "op param is not allowed; a value from outside must be an input",
		"op a.b\ngraph expansion\nsym N = 1..4\nsym M = 2..8\nx = input : f32[2*N]\ny = neg x : f32[2*N]\nreturn y=y":                                            "size N is not a whole size of an input",
		"op a.b\ngraph expansion\nx = input : f32[$k]\ny = neg x : f32[$k]\nreturn y=y":                                                                          "line 2: $k is not an attribute of the op",
		"op a.b\nattr n = 3\ncase m=3\ngraph expansion\nx = input : f32[3]\ny = neg x : f32[3]\nreturn y=y":                                                      `a.b: unknown attribute "m"`,
		good + "graph pattern\nx = input : f32[3]\ny = abs x : f32[3]\nreturn y=y":                                                                               "line 6: the pattern is not what the op means: for operands [f32[3]], result 0",
		good + "graph pattern\nx = input : f32[3]\nz = input : f32[3]\ny = neg x : f32[3]\nreturn y=y":                                                           "line 6: the pattern does not use its input z",
		"op a.b\ngraph expansion\nsym N = 1..4\nsym M = 1..4\nx = input : f32[N]\ny = input : f32[M]\nr = reshape x : f32[M]\nz = add r, y : f32[M]\nreturn z=z": "requires that M equals N; write them as one size",
		"op a.b\ngraph expansion\nx = input : f32[3,2]\nw = input : f32[2,2]\ny = linear x, w : f32[3,2]\nreturn y=y":                                            "y: op linear is a block; write it in tensor ops",
		good + "graph example\nx = input : f32[3]":                                                                                                               "line 6: graph \"example\"; want graph expansion, graph gradient or graph pattern",
	} {
		err := new(custom.Library).Parse("f", text)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, code.OpFile) {
			t.Errorf("%q\n%v; want %q", text, err, want)
		}
	}
}
