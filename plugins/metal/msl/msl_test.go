package msl

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/golden"
	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// TestGolden compares the translation of a kernel that uses the whole supported language with a file. Whether such
// texts compile and compute the right values is tested in package shim. Run with -update after a change of the
// translation.
func TestGolden(t *testing.T) {
	src, err := os.ReadFile("../../internal/wgsl/testdata/sums.wgsl")
	if err != nil {
		t.Fatal(err)
	}
	k, err := Translate(string(src))
	if err != nil {
		t.Fatal(err)
	}
	golden.Text(t, "testdata/sums.metal", k.Text)
	k.Text = ""
	if want := (Kernel{Entry: "rlx_main", Threads: 64, Buffers: 3, Shared: 260, Barrier: true}); *k != want {
		t.Errorf("%+v; want %+v", *k, want)
	}
}

// around returns a kernel with the given body.
func around(body string) string {
	return "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n" +
		"@compute @workgroup_size(1) fn main() {\n" + body + "\n}\n"
}

// matrices returns a kernel with the given body, which may use matrices m and n, an array w in workgroup memory, and
// the invocation's index i.
func matrices(body string) string {
	return "var<workgroup> w: array<f32, 64>;\n@compute @workgroup_size(32) fn main(@builtin(local_invocation_index) i: u32) { var m: rlx_matrix8x8; var n: rlx_matrix8x8;\n" +
		body + "\n}\n"
}

// TestMatrixText checks the translation of the matrix functions to those of Metal.
func TestMatrixText(t *testing.T) {
	k, err := Translate(
		matrices(
			"rlx_matrix_load(&m, &w, i / 32u, 8u, true); rlx_matrix_multiply_add(&n, &m, &m); rlx_matrix_store(&n, &w, 2u, 16u);"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `
    metal::simdgroup_float8x8 m_ = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    metal::simdgroup_float8x8 n_ = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    metal::simdgroup_load(m_, (const threadgroup float*)(&shared->w_) + (i_ / 32u), 8u, metal::ulong2(0, 0), true);
    metal::simdgroup_multiply_accumulate(n_, m_, m_, n_);
    metal::simdgroup_store(n_, (threadgroup float*)(&shared->w_) + 2u, 16u, metal::ulong2(0, 0), false);
`
	if !strings.Contains(k.Text, want) || !k.Matrices || !k.Barrier {
		t.Errorf("%t, %t, and the text\n%s\nwant it to have%s", k.Matrices, k.Barrier, k.Text, want)
	}
}

// TestHalfText checks that matrices of halves are loaded from words, and that their products are added in f32.
func TestHalfText(t *testing.T) {
	k, err := Translate(
		"var<workgroup> v: array<vec2<u32>, 32>;\n" +
			matrices(
				"var h: rlx_half8x8; rlx_matrix_load(&h, &v, 4u * i, 8u, false); rlx_matrix_multiply_add(&n, &h, &h);"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `
    metal::simdgroup_half8x8 h_ = metal::make_filled_simdgroup_matrix<half, 8, 8>(half(0.0f));
    metal::simdgroup_load(h_, (const threadgroup half*)(&shared->v_) + (4u * i_), 8u, metal::ulong2(0, 0), false);
    metal::simdgroup_multiply_accumulate(n_, h_, h_, n_);
`
	if !strings.Contains(k.Text, want) {
		t.Errorf("the text\n%s\nwant it to have%s", k.Text, want)
	}
}

// TestErrors checks the position and the text of errors.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", "1:1: there is no entry point"},
		{"fn f() {", `1:9: the text ends here; want "}"`},
		{"let a = 1;", `1:1: "let"; want struct, var, const or fn`},
		{"fn f() { $ }", "1:10: character '$' is not supported"},
		{"fn f() {}\nfn f() {}\n", "2:1: f is declared twice"},
		{"@compute @workgroup_size(1) fn main() { f(); }\nfn f() { g(); }\nfn g() { f(); }", "2:1: f calls itself"},
		{"@compute @workgroup_size(8, 8) fn main() {}", "1:27: a workgroup of several dimensions; want one"},
		{"@compute @workgroup_size(2000) fn main() {}", "1:32: 2000 invocations of a workgroup; want 1 to 1024"},
		{"@group(0) @binding(1) var<storage, read> x: array<u32>;", "1:23: x has binding 1; want 0, the next one"},
		{"@group(0) @binding(0) var<storage, read> x: array<vec3<f32>>;",
			"1:23: array<vec3<f32>> in a buffer; its layout differs between WGSL and MSL"},
		{"var<workgroup> x: bool;", "1:1: bool in workgroup memory"},
		{"var<uniform> x: u32;", `1:1: address space "uniform" is not supported`},
		{"struct S { s: S }", "1:15: type S is not declared or not supported"},
		{"var<private> x: array<u32, 0>;", "1:28: the size of an array is not a constant from 1 to 65536"},
		{"var<private> x: array<array<vec4<f32>, 4096>, 4096>;", "1:17: an array of more than 1048576 bytes"},
		{around("y[0] = 1.0;"), "3:8: a value of a number; want u32"},
		{around("y[0] = -1;"), "3:8: -1 does not fit in u32"},
		{around("y[0] = 4294967296u;"), "3:8: 4294967296 does not fit in u32"},
		{around("let a = 1; a = 2;"), "3:12: an assignment to a value that is not a variable"},
		{around("let a = b;"), "3:9: b is not declared"},
		{around("let a = 1u + 1i;"), "3:12: operator + of u32 and i32"},
		{around("let a = 1 / 0;"), "3:11: a division by 0"},
		{around("if (1u) {}"), "3:5: a value of u32; want bool"},
		{around("y[0] += 1u;"), `3:6: "+="; want "="`},
		{around("let a = 2.0f % 1.5f;"), "3:14: operator % of f32 and f32"},
		{around("let a = vec2<i32>(1) / vec2<i32>(2);"), "3:22: operator / of vec2<i32> and vec2<i32>"},
		{around("let a = frexp(1.0);"), "3:9: function frexp is not declared or not supported"},
		{around("let a = vec2<f32>(1.0, 2.0, 3.0);"), "3:9: vec2<f32> of 3 elements"},
		{around("let a = vec2<f32>(1.0).z;"), "3:23: vec2<f32> has no member z"},
		{around("let a = &y[0];"),
			"3:9: a pointer; & is supported only in arguments of atomic functions and matrix functions"},
		{around("return 1u;"), "3:1: the return does not match the result type of the function"},
		{"@compute @workgroup_size(16) fn main() { var m: rlx_matrix8x8; rlx_matrix_multiply_add(&m, &m, &m); }",
			"1:64: matrices in a workgroup of 16 invocations; want a multiple of 32"},
		{matrices("let n = m;"), "3:1: let of rlx_matrix8x8; want a type whose values can be copied"},
		{matrices("m = n;"), "3:1: an assignment to a value that is not a variable"},
		{matrices("var k = array<rlx_matrix8x8, 2>();"), "3:9: array<rlx_matrix8x8, 2> has no constructor"},
		{matrices("rlx_matrix_multiply_add(&m, n, &m);"),
			"3:29: argument 2 of rlx_matrix_multiply_add; want the address of a matrix"},
		{matrices("rlx_matrix_multiply_add(&m, &m, &w);"),
			"3:33: argument 3 of rlx_matrix_multiply_add is the address of array<f32, 64>; want that of rlx_matrix8x8"},
		{matrices("var h: rlx_half8x8; rlx_matrix_multiply_add(&m, &h, &m);"),
			"3:53: argument 3 of rlx_matrix_multiply_add is the address of rlx_matrix8x8; want that of rlx_half8x8"},
		{matrices("var h: rlx_half8x8; rlx_matrix_multiply_add(&h, &h, &h);"),
			"3:45: argument 1 of rlx_matrix_multiply_add is the address of rlx_half8x8; want that of rlx_matrix8x8"},
		{matrices("var h: rlx_half8x8; rlx_matrix_load(&h, &w, 0u, 8u, true);"),
			"3:41: argument 2 of rlx_matrix_load is the address of array<f32, 64>; want that of an array of u32"},
		{matrices("rlx_matrix_load(&m, &m, 0u, 8u, true);"),
			"3:21: argument 2 of rlx_matrix_load is the address of rlx_matrix8x8; want that of an array of f32"},
		{matrices("var own: array<f32, 64>; rlx_matrix_load(&m, &own, 0u, 8u, true);"),
			"3:46: argument 2 of rlx_matrix_load; want the address of a variable in workgroup memory"},
		{matrices("rlx_matrix_load(&m, &w, 0u, i, true);"), "3:29: argument 4 of rlx_matrix_load; want a literal"},
		{matrices("rlx_matrix_load(&m, &w, 0u, 8u, i > 1u);"), "3:35: argument 5 of rlx_matrix_load; want a literal"},
		{matrices("rlx_matrix_store(&m, &w, 0u);"), "3:1: rlx_matrix_store has 3 arguments; want 4"},
		{"fn f(m: rlx_matrix8x8) {}", "1:9: rlx_matrix8x8; want a type whose values can be copied"},
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
	src, err := os.ReadFile("../../internal/wgsl/testdata/sums.wgsl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(src))
	f.Add(
		around(
			"var a = array<vec2<f32>, 2>(vec2<f32>(0x1p-3), vec2<f32>()); switch (y[0]) { case 1u, 2u: { continue; } default: {} }"))
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
		if *again != *k || strings.Count(k.Text, "kernel void ") != 1 {
			t.Fatalf("%+v, %+v", k, again)
		}
	})
}
