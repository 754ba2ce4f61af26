package target_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
)

const npu = `target npu 1.0
levels v2 v3
types f32 f16 i32 bool
limit rank 4
limit operands 8
layout channels_last 16

reference *
run add(f32|f16...) if broadcast = suffix
run concat(any...)
run conv2d(f32, f32|f16 param, bias: f32) if groups = 1 and layout = "nhwc" and stride <= 2
run elementwise_region(f32...) if parts = run
run gather(any, i32) if axis = 0
run gelu(f16) if broadcast = equal
run gelu(f32)
run iota() -> i32
run matmul(f32|f16, same param) -> same if trans_a = false
run reduce_sum(f32) if axes = last and keep_dims = true
run relu(f32)
run softmax(f32 rank 1..3 static) if axis = last
run transpose(any) if perm = [0,2,1]|[1,0]
`

// TestText checks that printing and parsing a description gives the same description.
func TestText(t *testing.T) {
	d, err := target.Parse(npu)
	if err != nil {
		t.Fatal(err)
	}
	text := d.String()
	if text != npu {
		t.Error(cmp.Diff(npu, text))
	}
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	messy := strings.ReplaceAll(strings.ReplaceAll(text, ", ", "  ,"), "f32|f16", "f16 | f32 ") + "\n# the end\n\r\n"
	again, err := target.Parse(messy)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.String(); got != text {
		t.Error(cmp.Diff(text, got))
	}
}

// TestSpec checks the example in the specification.
func TestSpec(t *testing.T) {
	page, err := os.ReadFile("../../spec/target.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```\n")
	example, _, _ := strings.Cut(rest, "```\n")
	d, err := target.Parse(example)
	if err == nil {
		err = d.Check()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, printed, _ := strings.Cut(example, "\n") // skip the comment
	if got := d.String(); got != printed {
		t.Error(cmp.Diff(printed, got))
	}
}

// TestParseErrors checks that errors say where they are, what was found and what is allowed.
func TestParseErrors(t *testing.T) {
	const head = "target t 1\ntypes f32\n"
	for _, c := range []struct{ text, want string }{
		{"", `line 1, column 1: no line "target NAME VERSION"`},
		{"target t 1\n", `line 2, column 1: no line "types TYPE ..."`},
		{"types f32", `line 1, column 1: found "types"; want the line "target NAME VERSION" first`},
		{"target T 1", "line 1, column 8: the name of a target may have only lower-case letters"},
		{"target t", "line 1, column 9: found the end of the line; want a version"},
		{"target t 1 2", `line 1, column 12: found "2"; want the end of the line`},
		{head + "types f16", `line 3, column 1: "types" is in line 2 already`},
		{"target t 1\ntypes f32 f33", `line 2, column 11: found "f33"; want an element type, each once`},
		{"target t 1\ntypes f32 f32", `line 2, column 11: found "f32"; want an element type, each once`},
		{head + "limit rank 0", `line 3, column 12: found "0"; want a number from 1`},
		{head + "limit warps 3", `line 3, column 7: found "warps"; want rank or operands`},
		{head + "layout nchw", `line 3, column 8: found "nchw"; want "channels_last"`},
		{head + "layout channels_last", `line 3, column 21: found the end of the line; want a number from 1`},
		{head + "layout channels_last 8\nlayout channels_last 8", `line 4, column 1: "layout" is in line 3 already`},
		{head + "run add", `line 3, column 8: found the end of the line; want "("`},
		{head + "run add(f32|, f32)", `line 3, column 13: found ","; want an element type`},
		{head + "run add(f32 f32)", `line 3, column 13: found "f32"; want ","`},
		{head + "run add(f32..., f32)",
			`line 3, column 20: an operand without a name after ... or one with a name; want NAME: TYPES`},
		{head + "run conv2d(bias: f32, f32)",
			`line 3, column 26: an operand without a name after ... or one with a name; want NAME: TYPES`},
		{head + "run conv2d(f32, bias: f32, bias: f16)", `line 3, column 37: operand bias is listed twice`},
		{head + "run conv2d(f32, bias f32)", `line 3, column 17: found "bias"; want an element type`},
		{head + "run conv2d(f32, 2: f32)", `line 3, column 17: found "2"; want the name of an operand`},
		{head + "run add(f32 rank 3..2)", `line 3, column 21: found "2"; want a number from 4`},
		{head + "run add(any) -> f31", `line 3, column 17: found "f31"; want an element type`},
		{head + "run add(any) if", `line 3, column 16: found the end of the line; want an attribute`},
		{head + "run add(any) if broadcast = last", `line 3, column 29: `},
		{head + "run add(any) if broadcast <= suffix", `line 3, column 30: found "suffix"; want broadcast = suffix`},
		{head + "run add(any) if parts = same", `line 3, column 25: `},
		{head + "run softmax(any) if axis >= last", `line 3, column 29: found "last"; want a number after >=`},
		{head + "run softmax(any) if axis = 1|1", `line 3, column 30: "1" appears twice`},
		{head + `run matmul(any) if act = "ge`, `line 3, column 26: "\"ge" is not closed`},
		{head + "run *", `line 3, column 5: found "*"; want the name of an op`},
		{head + "run add(any) if x = NaN", "line 3, column 21: "},
		{head + "run add(any) \x01", "line 3, column 14: "},
		{head + "run add(any)\nrun add( any )", "line 4, column 1: the rule is in line 3 already"},
		{head + "take add(any)", `line 3, column 1: found "take"; want target, levels,`},
		{head + "\xff", "not UTF-8"},
		{head + strings.Repeat("#", target.MaxText), "at most 1048576"},
	} {
		if _, err := target.Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v; want %s", c.text, err, c.want)
		}
	}
}

// TestCheck checks that Check reports rules that do not match the ops.
func TestCheck(t *testing.T) {
	for rule, want := range map[string]string{
		"run mathmul(f32)":                       `line 3: op "mathmul" is unknown`,
		"run add(f32, f32, f32)":                 "line 3: op add has the operands a, b; the rule has 3 without a name, want 2",
		"run fused_matmul(f32, f32, f32, f32)":   "line 3: op fused_matmul has the operands x, w, bias?, residual?; the rule has 4 without a name, want 2",
		"run fused_matmul(f32, f32, f32...)":     "",
		"run fused_matmul(f32, b: f32)":          "op fused_matmul has no operand b that the rule does not list already; it has x, w, bias?, residual?",
		"run matmul(f32, a: f32)":                "op matmul has no operand a that the rule does not list already",
		"run concat(f32..., x: f32)":             "op concat has no operand x",
		"run conv2d(f32, f32, f32)":              "",
		"run add(f32) if parts = run":            "op add has no parts",
		"run softmax(f32) if axes = last":        `op softmax has no attribute "axes"; it has axis`,
		"run softmax(f32) if axis = \"x\"":       "attribute axis is of type int",
		"run softmax(f32) if axis = true":        "attribute axis is of type int",
		"run reduce_sum(f32) if keep_dims <= 1":  "attribute keep_dims is of type bool",
		"run reduce_sum(f32) if axes = 1":        "attribute axes is of type ints",
		"run fused_matmul(f32...) if act = last": "attribute act is of type string",
		"run layer_norm(f32...) if eps = 1":      "",
		"run layer_norm(f32...) if eps <= 0.5":   "",
		"run conv2d(f32...) if stride >= 1":      "",
		"run cast(any) if to = f32|f16":          "",
	} {
		d, err := target.Parse("target t 1\ntypes f32\n" + rule)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check(); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", rule, err, want)
		}
	}
}

// TestTakes checks Takes for each named node of a graph.
func TestTakes(t *testing.T) {
	d, err := target.Parse(strings.ReplaceAll(npu, "reference *\n", "reference cumsum(f32)\nreference silu(f32)\n"))
	if err != nil {
		t.Fatal(err)
	}
	const in = `graph g
sym N = 1..4
x = input : f32[2,3,4]
h = input : f16[2,3,4]
i = input : i32[5]
n = input : f32[2,N]
w = param : f32[4,4]
wh = param : f16[4,4]
row = param : f32[4]
col = param : f32[3,1]
big = input : f32[1,1,1,2,2]
p = input : f32[1,4,4,3]
k = param : f32[2,3,1,1]
`
	for node, want := range map[string]string{
		"y = add x, x : f32[2,3,4]":                                "native",
		"y = add x, row : f32[2,3,4]":                              "native",
		"y = add x, col : f32[2,3,4]":                              "operand b is f32[3,1] and the result f32[2,3,4]; want broadcast = suffix",
		"y = add i, i : i32[5]":                                    "operand a of add is i32; want f32 or f16",
		"y = gather x, i {axis=1} : f32[2,5,4]":                    "gather: axis is 1; want axis = 0",
		"y = gather x, i : f32[5,3,4]":                             "native",
		"y = matmul x, w : f32[2,3,4]":                             "native",
		"y = matmul x, wh : f32[2,3,4]":                            "operand b of matmul is f16; want f32, the type of a",
		"y = matmul x, x {trans_b=true} : f32[2,3,3]":              "operand b of matmul is computed; want a weight",
		"y = matmul w, w {trans_a=true} : f32[4,4]":                "trans_a is true; want trans_a = false",
		"y = softmax x {axis=2} : f32[2,3,4]":                      "native",
		"y = softmax x {axis=1} : f32[2,3,4]":                      "axis is 1; want axis = last",
		"y = softmax n {axis=1} : f32[2,N]":                        "operand x of softmax is f32[2,N]; want sizes without symbols",
		"y = softmax p {axis=3} : f32[1,4,4,3]":                    "operand x of softmax is f32[1,4,4,3]; want rank 1..3",
		"y = neg x : f32[2,3,4]":                                   "npu has no rule for neg",
		"y = silu x : f32[2,3,4]":                                  "reference",
		"y = relu big : f32[1,1,1,2,2]":                            "npu takes at most rank 4; f32[1,1,1,2,2] has rank 5",
		"y = reshape big : f32[4]":                                 "native",
		"y = cast x {to=f64} : f64[2,3,4]":                         "npu has no f64; its values are f32, f16, i32, bool",
		"y = cast x {to=f32} : f32[2,3,4]":                         "native",
		"y = concat i, i, i, i, i, i, i, i, i : i32[45]":           "npu takes at most 8 operands; concat has 9",
		"y = concat i, i, i, i, i, i, i, i : i32[40]":              "native",
		"y = reduce_sum x {axes=[2], keep_dims=true} : f32[2,3,1]": "native",
		"y = reduce_sum x {axes=[1], keep_dims=true} : f32[2,1,4]": "axes is [1]; want axes = last",
		"y = transpose x {perm=[0,2,1]} : f32[2,4,3]":              "native",
		"y = transpose x {perm=[2,1,0]} : f32[4,3,2]":              "perm is [2,1,0]; want perm = [0,2,1]|[1,0]",
		"y = iota : i32[5]":                                        "native",
		"y = iota : f32[5]":                                        "result 0 of iota is f32; want i32",
		"y = gelu h : f16[2,3,4]":                                  "native",

		`y = conv2d p, k {dilation=[1,1], groups=1, layout="nhwc", padding=[0,0], stride=[1,2]} : f32[1,4,2,2]`: "native",
		`y = conv2d p, k {dilation=[1,1], groups=1, layout="nhwc", padding=[0,0], stride=[3,1]} : f32[1,2,4,2]`: "stride is [3,1]; want stride <= 2",
		`y = elementwise_region x, row {expr="v0=add(i0,i1); v1=relu(v0)"} : f32[2,3,4]`:                        "native",
		`y = elementwise_region x, row {expr="v0=add(i0,i1); v1=silu(v0)"} : f32[2,3,4]`:                        "elementwise_region: silu runs by reference",
		`y = elementwise_region x, row {expr="v0=add(i0,i1); v1=neg(v0)"} : f32[2,3,4]`:                         "elementwise_region: npu has no rule for neg",
	} {
		g, err := ir.Parse(in + node + "\nreturn y")
		if err != nil {
			t.Errorf("%s: %v", node, err)
			continue
		}
		n, _ := g.Find("y")
		how, why := d.Takes(n)
		if got := how.String(); how == target.No && !strings.Contains(why, want) || how != target.No && got != want {
			t.Errorf("%s: %s %q; want %q", node, got, why, want)
		}
	}
}

// TestReferenceForAll checks that "reference *" accepts every op with a definition, and that a kernel is preferred.
func TestReferenceForAll(t *testing.T) {
	d, err := target.Parse(npu)
	if err != nil {
		t.Fatal(err)
	}
	g, err := ir.Parse("x = input : f32[4]\ny = neg x : f32[4]\nz = relu y : f32[4]\nreturn z")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]target.How{"x": target.Native, "y": target.Reference, "z": target.Native} {
		n, _ := g.Find(name)
		if got, why := d.Takes(n); got != want {
			t.Errorf("%s: %v %s", name, got, why)
		}
	}
}

// FuzzParse checks that no text makes the parser panic, and that printing an accepted text and parsing it again changes
// nothing.
func FuzzParse(f *testing.F) {
	f.Add(npu)
	for line := range strings.Lines(npu) {
		f.Add("target t 1\ntypes f32\n" + line)
	}
	f.Add("target t 1\ntypes f32\nrun a(f32) if x = \"a|b and (\"|[1, 2]|-0.0|f16|true and y >= -1.5e3")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := target.Parse(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") && !strings.HasPrefix(err.Error(), "a target description") {
				t.Errorf("%q: the error has no position: %v", text, err)
			}
			return
		}
		_ = d.Check()
		printed := d.String()
		again, err := target.Parse(printed)
		if err != nil {
			t.Fatalf("%q prints as %q: %v", text, printed, err)
		}
		if second := again.String(); second != printed {
			t.Errorf("%q prints as %q, and that as %q", text, printed, second)
		}
	})
}

// TestOptionalOperands checks which optional operands of a node each form of a rule takes, and how the rule is written.
func TestOptionalOperands(t *testing.T) {
	const in = "graph g\nx = input : f32[2,2]\nb = input : f32[2]\nh = input : f16[2]\n"
	for _, c := range []struct {
		rule, written, node, want string
	}{
		{"fused_matmul(f32, f32)", "", "fused_matmul x, x", ""},
		{"fused_matmul(f32, f32)", "", "fused_matmul x, x, bias=b",
			"fused_matmul has an operand bias, which the rule does not take"},
		{"fused_matmul(f32, f32, bias: f32)", "", "fused_matmul x, x, bias=b", ""},
		{"fused_matmul(f32, f32, bias: f32)", "", "fused_matmul x, x", ""},
		{"fused_matmul(f32, f32, bias: f32)", "", "fused_matmul x, x, bias=b, residual=x",
			"fused_matmul has an operand residual, which the rule does not take"},
		{"fused_matmul(f32, f32, residual: f32, bias: f16)", "", "fused_matmul x, x, bias=b",
			"operand bias of fused_matmul is f32; want f16"},
		{"fused_matmul(f32, f32, f32...)", "fused_matmul(f32, f32, bias: f32, residual: f32)",
			"fused_matmul x, x, residual=x", ""},
		{"fused_matmul(f32, f32, f32..., bias: f16)", "fused_matmul(f32, f32, bias: f16, residual: f32)",
			"fused_matmul x, x, residual=x", ""},
		{"fused_matmul(f32..., bias: f16)", "", "fused_matmul x, x, bias=b",
			"operand bias of fused_matmul is f32; want f16"},
		{"fused_matmul(f32...)", "", "fused_matmul x, x, bias=b, residual=x", ""},
		{"fused_matmul(f32, f32, residual: same param)", "", "fused_matmul x, x, residual=x",
			"operand residual of fused_matmul is computed; want a weight"},
		{"qmatmul(i8, i8, f32, i32)", "qmatmul(i8, i8, f32, bias: i32)", "", ""},
	} {
		d, err := target.Parse("target t 1\ntypes f32 f16 i8 i32\nrun " + c.rule)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		if c.written == "" {
			c.written = c.rule
		}
		if got := d.Rules[0].String(); got != "run "+c.written {
			t.Errorf("%s is written %s; want run %s", c.rule, got, c.written)
		}
		if c.node == "" {
			continue
		}
		g, err := ir.Parse(in + "y = " + c.node + " : f32[2,2]\nreturn y=y\n")
		if err != nil {
			t.Fatal(err)
		}
		how, why := d.Takes(g.Outputs[0].Node)
		if (how == target.Native) != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%s takes %s: %v, %q; want %q", c.rule, c.node, how, why, c.want)
		}
	}
}
