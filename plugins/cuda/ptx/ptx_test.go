package ptx

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/golden"
	"github.com/rlx-go/rlx/plugins/internal/wgsl/wgsltest"
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
	translate := func(source string) error {
		_, err := Translate(source)
		return err
	}
	wgsltest.CheckErrors(t, translate, [][2]string{
		{wgsltest.Around("let a = &y[0];"), "3:9: a pointer; & is supported only in arguments of atomic functions"},
		{wgsltest.Around("var a: array<u32, 40>; y[0] = a[y[0]];"),
			"3:32: an index of array<u32, 40> that is not constant; want at most 32 elements"},
		{wgsltest.Around("var a: array<u32, 2000>;"),
			"3:8: array<u32, 2000> in registers: 2000 scalars; want at most 1024"},
		{doubling(24), "27:29: more than 131072 calls"},
	}...)
}

// FuzzTranslate checks that any text is translated or refused with a *wgsl.Error, and always in the same way.
func FuzzTranslate(f *testing.F) {
	wgsltest.FuzzTranslate(f, sums, Translate,
		func(k *Kernel) bool { return strings.Count(k.Text, ".entry ") == 1 })
}
