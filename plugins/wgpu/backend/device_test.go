//go:build cgo && (darwin || amd64)

package backend

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
)

// TestAPIs checks that WGPU_BACKEND selects APIs, and an unknown name is an error.
func TestAPIs(t *testing.T) {
	t.Setenv(apiVariable, "")
	all, err := apis()
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]uint32{
		"vulkan": uint32(apiFlags["vulkan"]), " Metal ,VULKAN": uint32(apiFlags["metal"] | apiFlags["vulkan"]),
		"vulkan,metal,dx12": uint32(all),
	} {
		t.Setenv(apiVariable, value)
		if got, err := apis(); err != nil || uint32(got) != want {
			t.Errorf("%q: %b, %v; want %b", value, got, err, want)
		}
	}
	for _, value := range []string{"nonsense", "vulkan,gl", ","} {
		t.Setenv(apiVariable, value)
		_, err := New(Options{}).Info(t.Context())
		if !errors.Is(err, code.API) || !strings.Contains(err.Error(), "dx12, metal, vulkan") {
			t.Errorf("%q: %v; want what is allowed", value, err)
		}
	}
}
