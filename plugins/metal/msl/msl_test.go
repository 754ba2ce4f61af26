package msl

import (
	"os"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/golden"
	"github.com/rlx-go/rlx/plugins/internal/wgsl/wgsltest"
)

// sums is a kernel that uses most of the supported language.
const sums = "../../internal/wgsl/testdata/sums.wgsl"

// TestGolden compares the translation of a kernel that uses the whole supported language with a file. Whether such
// texts compile and compute the right values is tested in package shim. Run with -update after a change of the
// translation.
func TestGolden(t *testing.T) {
	src, err := os.ReadFile(sums)
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
	translate := func(source string) error {
		_, err := Translate(source)
		return err
	}
	wgsltest.CheckErrors(t, translate, [][2]string{
		{"@group(0) @binding(0) var<storage, read> x: array<vec3<f32>>;\n@compute @workgroup_size(1) fn main() {}",
			"1:23: array<vec3<f32>> in a buffer; its layout differs between WGSL and MSL"},
		{wgsltest.Around("let a = vec2<i32>(1) / vec2<i32>(2);"), "3:22: operator / of vec2<i32> and vec2<i32>"},
		{wgsltest.Around("let a = &y[0];"),
			"3:9: a pointer; & is supported only in arguments of atomic functions and matrix functions"},
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
		{"fn f(m: rlx_matrix8x8) {}\n@compute @workgroup_size(1) fn main() {}",
			"1:9: rlx_matrix8x8; want a type whose values can be copied"},
	}...)
}

// FuzzTranslate checks that any text is translated or refused with a *wgsl.Error, and always in the same way.
func FuzzTranslate(f *testing.F) {
	wgsltest.FuzzTranslate(f, sums, Translate,
		func(k *Kernel) bool { return strings.Count(k.Text, "kernel void ") == 1 })
}
