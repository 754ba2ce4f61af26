//go:build cgo && (darwin || amd64)

package backend

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// TestPanics: a panic in what a load does on goroutines of its own is a panic of the load, which its caller can recover.
func TestPanics(t *testing.T) {
	x := load(t, shared, sums(t, 3, 16), nil).(*executable)
	x.dispatches[1].shader.Bindings = []kernels.Binding{{Operand: 99}}
	for name, f := range map[string]func() error{
		"texts":  x.planTexts,
		"upload": func() error { return (&executable{g: x.g, resident: []interval{{from: 99, to: 100}}}).upload(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, "out of range") || !strings.Contains(text, "goroutine ") {
					t.Errorf("the panic is %q", text)
				}
			}()
			_, err := guard(func() (struct{}, error) { return struct{}{}, f() })
			t.Errorf("the error is %v; want a panic", err)
		})
	}
}
