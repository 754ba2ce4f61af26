package compile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlx-go/rlx/compile"
	"github.com/rlx-go/rlx/core/code"
)

// TestLeftOut compiles a model that one of the default targets cannot run: wgpu does not divide 64-bit integers.
func TestLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ids.txt")
	if err := os.WriteFile(path, []byte(`graph f
x = input : f32[4]
y = neg x : f32[4]
return y=y

graph g
a = input : i64[4]
b = input : i64[4]
y = div a, b : i64[4]
return y=y
`), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := compile.Load(t.Context(), path, compile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r, err := m.Compile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.LeftOut) != 1 || r.LeftOut[0].Target != "wgpu" || !errors.Is(r.LeftOut[0].Err, code.Untaken) {
		t.Errorf("left out are %v, want wgpu", r.LeftOut)
	}
	for _, p := range r.Programs {
		if p.Target != "cpu" {
			t.Errorf("%s was compiled for %s", p.Method, p.Target)
		}
	}
	for _, targets := range [][]string{{"wgpu"}, {"cpu", "wgpu"}} {
		m, err := compile.Load(t.Context(), path, compile.Options{Targets: targets})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := m.Compile(t.Context()); !errors.Is(err, code.Untaken) {
			t.Errorf("targets %v: error is %v, want %v", targets, err, code.Untaken)
		}
	}
}
