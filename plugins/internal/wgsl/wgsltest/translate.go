package wgsltest

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// Around returns a kernel with a body, which may use the buffer y of u32.
func Around(body string) string {
	return "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n" +
		"@compute @workgroup_size(1) fn main() {\n" + body + "\n}\n"
}

// empty is a kernel that does nothing.
const empty = "@compute @workgroup_size(1) fn main() {}\n"

// CheckErrors checks the errors of a translator: those of WGSL, which are the same for all, and its own. Each of own is
// a text that the translator refuses, and the end of the error: position and message.
func CheckErrors(t *testing.T, translate func(source string) error, own ...[2]string) {
	t.Helper()
	for _, c := range append([][2]string{
		{"", "1:1: there is no entry point"},
		{"fn f() {", `1:9: the text ends here; want "}"`},
		{"let a = 1;", `1:1: "let"; want struct, var, const or fn`},
		{"fn f() { $ }", "1:10: character '$' is not supported"},
		{"fn f() {}\nfn f() {}\n", "2:1: f is declared twice"},
		{"@compute @workgroup_size(1) fn main() { f(); }\nfn f() { g(); }\nfn g() { f(); }", "2:1: f calls itself"},
		{"@compute @workgroup_size(8, 8) fn main() {}", "1:27: a workgroup of several dimensions; want one"},
		{"@compute @workgroup_size(2000) fn main() {}", "1:32: 2000 invocations of a workgroup; want 1 to 1024"},
		{"@group(0) @binding(1) var<storage, read> x: array<u32>;\n" + empty, "1:23: x has binding 1; want 0, the next one"},
		{"var<workgroup> x: bool;\n" + empty, "1:1: bool in workgroup memory"},
		{"var<uniform> x: u32;\n" + empty, `1:1: address space "uniform" is not supported`},
		{"struct S { s: S }\n" + empty, "1:15: type S is not declared or not supported"},
		{"var<private> x: array<u32, 0>;\n" + empty, "1:28: the size of an array is not a constant from 1 to 65536"},
		{"var<private> x: array<array<vec4<f32>, 4096>, 4096>;\n" + empty, "1:17: an array of more than 1048576 bytes"},
		{Around("y[0] = 1.0;"), "3:8: a value of a number; want u32"},
		{Around("y[0] = -1;"), "3:8: -1 does not fit in u32"},
		{Around("y[0] = 4294967296u;"), "3:8: 4294967296 does not fit in u32"},
		{Around("let a = 1; a = 2;"), "3:12: an assignment to a value that is not a variable"},
		{Around("let a = b;"), "3:9: b is not declared"},
		{Around("let a = 1u + 1i;"), "3:12: operator + of u32 and i32"},
		{Around("let a = 1 / 0;"), "3:11: a division by 0"},
		{Around("if (1u) {}"), "3:5: a value of u32; want bool"},
		{Around("y[0] += 1u;"), `3:6: "+="; want "="`},
		{Around("let a = 2.0f % 1.5f;"), "3:14: operator % of f32 and f32"},
		{Around("let a = frexp(1.0);"), "3:9: function frexp is not declared or not supported"},
		{Around("let a = vec2<f32>(1.0, 2.0, 3.0);"), "3:9: vec2<f32> of 3 elements"},
		{Around("let a = vec2<f32>(1.0).z;"), "3:23: vec2<f32> has no member z"},
		{Around("return 1u;"), "3:1: the return does not match the result type of the function"},
		{Around("let a = " + strings.Repeat("(", 500)), "more than 200 levels of statements and expressions"},
		{Around("break;"), "3:1: break outside of a loop"},
		{empty + empty, "2:29: main is declared twice"},
		{empty + "@compute @workgroup_size(1) fn second() {}", "2:29: a second entry point; the first is main"},
		{"var<workgroup> x: u32 = 1;\n" + empty, "1:1: an initial value of a variable in address space workgroup"},
		{"fn f() { f(); }\n" + empty, "1:1: f calls itself"},
		{"fn f() -> u32 { switch (1u) { case f(): {} default: {} } return 1u; }\n" + empty, "1:1: f calls itself"},
		{Around("main();"), "3:1: a call of the entry point"},
		{Around("let a = min(1);"), "3:9: min has 1 arguments; want 2"},
		{Around("let a = dot(1.0, 2.0);"), "3:9: dot of f32"},
		{Around("let a = transpose(1.0);"), "3:9: transpose of f32"},
		{Around("let a = any(vec2<f32>());"), "3:9: any of vec2<f32>"},
		{Around("let a = select(1, 2, 3);"), "3:9: select of i32 by i32"},
		{Around("let a = atomicLoad(y[0]);"), "3:21: argument 1 of atomicLoad; want the address of an atomic"},
		{Around("let a = bitcast<bool>(1);"), "3:9: a bitcast of i32 to bool"},
		{Around("let a = y[1.0];"), "3:11: an index of f32; want i32 or u32"},
		{Around("var a = vec2<f32>(); a[2] = 1.0;"), "3:24: index 2 of vec2<f32>"},
		{Around("switch (1.0) { default: {} }"), "3:1: a switch over f32; want i32 or u32"},
	}, own...) {
		err := translate(c[0])
		var at *wgsl.Error
		if !errors.As(err, &at) || !strings.HasSuffix(err.Error(), c[1]) {
			t.Errorf("%s\nerror %v; want %s", c[0], err, c[1])
		}
	}
}

// FuzzTranslate checks that any text is translated or refused with a *wgsl.Error, and that a second translation gives
// the same result. ok checks a result. Example is the name of a file with a kernel.
func FuzzTranslate[K comparable](
	f *testing.F, example string, translate func(source string) (*K, error), ok func(*K) bool,
) {
	src, err := os.ReadFile(example)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(src))
	f.Add(Around("var a = array<vec2<f32>, 2>(vec2<f32>(0x1p-3), vec2<f32>()); " +
		"switch (y[0]) { case 1u, 2u: { return; } default: {} }"))
	f.Add(Around("for (var i = 0u; i < 3u; i = i + 1u) { y[i] = select(1u << i, 2u % y[0], y[i] > -1u); }"))
	f.Fuzz(func(t *testing.T, src string) {
		k, err := translate(src)
		again, err2 := translate(src)
		if err != nil {
			var at *wgsl.Error
			if !errors.As(err, &at) || at.Line < 1 || at.Col < 1 || err2 == nil || err2.Error() != err.Error() {
				t.Fatalf("%v, %v", err, err2)
			}
			return
		}
		if *again != *k || !ok(k) {
			t.Fatalf("%+v, %+v", k, again)
		}
	})
}
