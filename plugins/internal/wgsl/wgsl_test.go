package wgsl

import (
	"errors"
	"go/constant"
	"os"
	"strings"
	"testing"
)

// parse parses a text that is correct.
func parse(t *testing.T, src string) *Module {
	t.Helper()
	m, err := Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestParse looks at a tree of each kind of declaration.
func TestParse(t *testing.T) {
	m := parse(t, `
struct S { a: f32, b: array<vec2<u32>, 3> }
@group(0) @binding(1) var<storage, read> x: array<f32>;
var<workgroup> w: S;
const n = 3;
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) g: vec3<u32>) {
  for (var i = 0u; i < 4u; i = i + 1u) { w.a = x[i] * 2.0 + 1.0; }
  if (true) { return; } else if (false) { workgroupBarrier(); }
}`)
	x, main := m.Globals[0], m.Functions[0]
	if x.Space != "storage" || !x.ReadOnly || x.Binding != 1 || x.Pos != (Pos{3, 23}) || m.Globals[1].Binding != -1 {
		t.Errorf("%+v, %+v", x, m.Globals[1])
	}
	if !main.Entry || main.Threads != 64 || main.Params[0].Builtin != "workgroup_id" || len(main.Body.List) != 2 {
		t.Errorf("%+v", main)
	}
	loop := main.Body.List[0].(*Loop)
	sum := loop.Body.List[0].(*Assign).Value.(*Binary)
	if product, ok := sum.X.(*Binary); sum.Op != "+" || !ok || product.Op != "*" || product.At() != (Pos{7, 53}) {
		t.Errorf("%+v", sum)
	}
	if other, ok := main.Body.List[1].(*If).Else.(*If); !ok || other.Else != nil {
		t.Errorf("%+v", main.Body.List[1])
	}
}

// expr parses an expression.
func expr(t *testing.T, src string) Expr {
	t.Helper()
	return parse(t, "const x = "+src+";").Globals[0].Init
}

func TestTypes(t *testing.T) {
	r := &Resolver{Structs: map[string]*Type{}, Constant: func(e Expr) (constant.Value, error) {
		switch e := e.(type) {
		case *Literal:
			c, err := e.Constant()
			return c.Value, err
		case *Ident:
			if e.Name == "four" {
				return constant.MakeInt64(4), nil
			}
			return nil, e.Errorf("%s is not declared", e.Name)
		}
		return nil, nil
	}}
	if _, err := r.Declare(parse(t, "struct S { a: vec3<f32>, b: f32, c: array<u32, 2> }").Structs[0]); err != nil {
		t.Fatal(err)
	}
	for src, want := range map[string]struct {
		kind         Kind
		bytes, align int
	}{
		"u32": {Scalar, 4, 4}, "vec2<f32>": {Vector, 8, 8}, "vec3<i32>": {Vector, 12, 16},
		"mat4x4<f32>":            {Matrix, 64, 16},
		"array<vec3<f32>, four>": {Array, 64, 16}, "S": {Structure, 32, 16}, "array<S, 0x2u>": {Array, 64, 16},
		"atomic<u32>": {Atomic, 4, 4},
	} {
		typ, err := r.Resolve(parse(t, "var<private> x: "+src+";").Globals[0].Type)
		if err != nil {
			t.Error(err)
			continue
		}
		if bytes, align := typ.Size(); typ.Kind != want.kind || bytes != want.bytes || align != want.align {
			t.Errorf("%s has kind %d, %d bytes and alignment %d; want %v", typ, typ.Kind, bytes, align, want)
		}
	}
	for src, want := range map[string]string{
		"vec2<S>":                  "1:17: a vector of S; want bool, i32, u32 or f32",
		"mat4x4<i32>":              "1:17: a matrix of i32; want f32",
		"atomic<i32>":              "1:17: an atomic i32; want u32",
		"f32<u32>":                 "1:17: type f32 has 1 arguments; want 0",
		"array<array<f32>, 2>":     "1:17: an array of array<f32>",
		"array<f32, nope>":         "1:28: nope is not declared",
		"array<f32, 70000>":        "1:28: the size of an array is not a constant from 1 to 65536",
		"array<vec3<f32>, 65536u>": "",
		"array<S, 65536>":          "1:17: an array of more than 1048576 bytes",
		"T":                        "1:17: type T is not declared or not supported",
	} {
		_, err := r.Resolve(parse(t, "var<private> x: "+src+";").Globals[0].Type)
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != "wgsl "+want) {
			t.Errorf("%s: %v; want %q", src, err, want)
		}
	}
	if _, err := r.Constructible(parse(t, "var<private> x: array<f32>;").Globals[0].Type); err == nil {
		t.Error("an array without a size is constructible")
	}
}

func TestConstants(t *testing.T) {
	for src, want := range map[string]string{
		"0x10": "a whole number 16", "7u": "u32 7", "1e2": "a number 100", "2f": "f32 2",
		"0x1p-1": "a number 0.5", "true": "bool true",
		"08": "08 is not a valid number", "4294967296u": "4294967296 does not fit in u32",
		"1e39f":               "1e+39 does not fit in f32",
		"9223372036854775808": "9223372036854775808 does not fit in 64 bits",
	} {
		c, err := expr(t, src).(*Literal).Constant()
		got := ""
		if err != nil {
			_, got, _ = strings.Cut(err.Error(), ": ")
		} else {
			got = c.Type.Name + " " + c.Value.String()
		}
		if got != want {
			t.Errorf("%s: %s; want %s", src, got, want)
		}
	}
	for src, want := range map[string]string{
		"7 / 2": "a whole number 3", "7.0 / 2": "a number 3.5", "7 % 4u": "u32 3", "1 / 0": "a division by 0",
		"2u - 3u": "", "1f + 1f": "", "1 << 2": "", "1i * 1u": "", "2147483647i + 1i": "",
	} {
		e := expr(t, src).(*Binary)
		x, errX := e.X.(*Literal).Constant()
		y, errY := e.Y.(*Literal).Constant()
		c, ok, err := e.Fold(x, y)
		got := ""
		if err != nil {
			_, got, _ = strings.Cut(err.Error(), ": ")
		} else if ok {
			got = c.Type.Name + " " + c.Value.String()
		}
		if got != want || errX != nil || errY != nil {
			t.Errorf("%s: %q; want %q (%v, %v)", src, got, want, errX, errY)
		}
	}
}

// TestOperators tries every binary operator on operands of every shape and element type.
func TestOperators(t *testing.T) {
	var types []*Type
	for _, s := range []*Type{Bool, I32, U32, F32} {
		types = append(types, s, VectorOf(s, 2), VectorOf(s, 4))
	}
	vectors := func(x, y *Type) bool { return x.Kind == Vector && y.Kind == Vector }
	for op := range operators {
		for _, x := range types {
			for _, y := range types {
				s, same := x.Scalar(), x.Is(y)
				mixed := s == y.Scalar() && (same || !vectors(x, y)) // https://www.w3.org/TR/WGSL/#arithmetic-expr
				want, ok := x, false
				switch op {
				case "+", "-", "*", "/", "%":
					ok = mixed && s != Bool && !(op == "%" && s == F32)
					if y.Kind == Vector {
						want = y
					}
				case "<<", ">>":
					ok = x.Integer() && y.Is(x.Like(U32))
				case "&", "|", "^":
					ok = same && s != F32 && !(op == "^" && s == Bool)
				case "&&", "||":
					ok = same && x == Bool
				default:
					ok, want = same && (s != Bool || op == "==" || op == "!="), x.Like(Bool)
				}
				got, err := (&Binary{Op: op}).Type(x, y)
				if ok != (err == nil) || ok && !got.Is(want) {
					t.Errorf("%s %s %s is %v, %v", x, op, y, got, err)
				}
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"fn f() {", `1:9: the text ends here; want "}"`},
		{"let a = 1;", `1:1: "let"; want struct, var, const or fn`},
		{"fn f() { $ }", "1:10: character '$' is not supported"},
		{"@compute @workgroup_size(8, 8) fn main() {}", "1:27: a workgroup of several dimensions; want one"},
		{"@group(1) var<private> x: u32;", "1:8: group 1; only group 0 is supported"},
		{"@size(4) var<private> x: u32;", "1:2: attribute size is not supported"},
		{"var<storage, write> x: u32;", "1:14: access mode write is not supported"},
		{"var<private> x;", "1:1: var x has no initial value"},
		{"fn f() { y[0] += 1u; }", `1:15: "+="; want "="`},
		{"fn f() { let a = vec2<f32>; }", `1:27: ";"; want "("`},
		{"const a = " + strings.Repeat("(", 500), "more than 200 levels of statements and expressions"},
		{"const a = " + strings.Repeat("- ", 500) + "1;", "more than 200 levels of statements and expressions"},
		{"fn f() {" + strings.Repeat("{", 500), "more than 200 levels of statements and expressions"},
	} {
		tree, err := Parse(c.src)
		if at := (*Error)(nil); tree != nil || !errors.As(err, &at) || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s\nerror %v; want %s", c.src, err, c.want)
		}
	}
}

// FuzzParse checks that any text is parsed or rejected with an *Error at a place in it.
func FuzzParse(f *testing.F) {
	src, err := os.ReadFile("testdata/sums.wgsl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(src))
	f.Add("fn f() { switch (y[0]) { case 1u, 2u: { continue; } default: {} } }")
	f.Fuzz(func(t *testing.T, src string) {
		m, err := Parse(src)
		if err == nil {
			return
		}
		lines := 1 + strings.Count(src, "\n")
		if at := (*Error)(nil); m != nil || !errors.As(err, &at) || at.Line < 1 || at.Line > lines || at.Col < 1 {
			t.Fatalf("%v, %v", m, err)
		}
	})
}
