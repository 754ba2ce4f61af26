package ptx

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/golden"
	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// sums is a kernel that uses most of the supported language.
const sums = "../../internal/wgsl/testdata/sums.wgsl"

// TestGolden compares the translation of a kernel with a file. Whether such texts compute the right values is tested in
// package shim. Run with -update after a change of the translation.
func TestGolden(t *testing.T) {
	src, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Translate(string(src))
	if err != nil {
		t.Fatal(err)
	}
	golden.Text(t, "testdata/sums.ptx", k.Text)
	k.Text = ""
	if want := (Kernel{Entry: "rlx_main", Threads: 64, Buffers: 3, Shared: 272}); *k != want {
		t.Errorf("%+v; want %+v", *k, want)
	}
}

// around returns a kernel with the given body.
func around(body string) string {
	return "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n" +
		"@compute @workgroup_size(1) fn main() {\n" + body + "\n}\n"
}

// doubling returns a kernel of n functions that call each other: the text of each is twice that of the one before it.
func doubling(n int) string {
	b := "var<private> x: u32;\nfn f0() { x = x * x; x = x + 1u; }\n"
	for i := range n {
		b += fmt.Sprintf("fn f%d() { f%[2]d(); f%[2]d(); }\n", i+1, i)
	}
	return b + fmt.Sprintf("@compute @workgroup_size(1) fn main() { f%d(); }\n", n)
}

// TestErrors checks the position and the text of errors.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", "1:1: there is no entry point"},
		{"fn f() {", `1:9: the text ends here; want "}"`},
		{"fn f() {}\nfn f() {}\n", "2:1: f is declared twice"},
		{"@compute @workgroup_size(1) fn main() { f(); }\nfn f() { g(); }\nfn g() { f(); }", "2:1: f calls itself"},
		{"@compute @workgroup_size(2000) fn main() {}", "1:32: 2000 invocations of a workgroup; want 1 to 1024"},
		{"@group(0) @binding(1) var<storage, read> x: array<u32>;\n@compute @workgroup_size(1) fn main() {}",
			"1:23: x has binding 1; want 0, the next one"},
		{"var<workgroup> x: bool;\n@compute @workgroup_size(1) fn main() {}", "1:1: bool in workgroup memory"},
		{"var<uniform> x: u32;\n@compute @workgroup_size(1) fn main() {}",
			`1:1: address space "uniform" is not supported`},
		{around("y[0] = 1.0;"), "3:8: a value of a number; want u32"},
		{around("y[0] = -1;"), "3:8: -1 does not fit in u32"},
		{around("let a = 1; a = 2;"), "3:12: an assignment to a value that is not a variable"},
		{around("let a = b;"), "3:9: b is not declared"},
		{around("let a = 1u + 1i;"), "3:12: operator + of u32 and i32"},
		{around("let a = 1 / 0;"), "3:11: a division by 0"},
		{around("if (1u) {}"), "3:5: a value of u32; want bool"},
		{around("let a = 2.0f % 1.5f;"), "3:14: operator % of f32 and f32"},
		{around("let a = frexp(1.0);"), "3:9: function frexp is not declared or not supported"},
		{around("let a = vec2<f32>(1.0, 2.0, 3.0);"), "3:9: vec2<f32> of 3 elements"},
		{around("let a = vec2<f32>(1.0).z;"), "3:23: vec2<f32> has no member z"},
		{around("let a = &y[0];"), "3:9: a pointer; & is supported only in arguments of atomic functions"},
		{around("return 1u;"), "3:1: the return does not match the result type of the function"},
		{around("break;"), "3:1: break outside of a loop"},
		{around("var a: array<u32, 40>; y[0] = a[y[0]];"),
			"3:32: an index of array<u32, 40> that is not constant; want at most 32 elements"},
		{around("var a: array<u32, 2000>;"),
			"3:8: array<u32, 2000> in registers: 2000 scalars; want at most 1024"},
		{doubling(24), "27:29: more than 131072 calls"},
		{around("let a = " + strings.Repeat("(", 500)), "more than 200 levels of statements and expressions"},
	} {
		_, err := Translate(c.src)
		var at *wgsl.Error
		if !errors.As(err, &at) || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s\nerror %v; want %s", c.src, err, c.want)
		}
	}
}

// FuzzTranslate checks that any text is translated or rejected with an *wgsl.Error, and that a second translation gives
// the same result.
func FuzzTranslate(f *testing.F) {
	src, err := os.ReadFile(sums)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(src))
	f.Add(around("var a = array<vec2<f32>, 2>(vec2<f32>(0x1p-3), vec2<f32>()); " +
		"switch (y[0]) { case 1u, 2u: { return; } default: {} }"))
	f.Add(around("for (var i = 0u; i < 3u; i = i + 1u) { y[i] = select(1u << i, 2u % y[0], y[i] > -1u); }"))
	f.Fuzz(func(t *testing.T, src string) {
		k, err := Translate(src)
		again, err2 := Translate(src)
		if err != nil {
			var at *wgsl.Error
			if !errors.As(err, &at) || at.Line < 1 || at.Col < 1 || err2 == nil || err2.Error() != err.Error() {
				t.Fatalf("%v, %v", err, err2)
			}
			return
		}
		if *again != *k || strings.Count(k.Text, ".entry ") != 1 {
			t.Fatalf("%+v, %+v", k, again)
		}
	})
}
