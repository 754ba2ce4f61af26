//go:build linux || darwin

package host

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
	"github.com/rlx-go/rlx/plugins/rpc/internal/sandbox"
)

func TestConfine(t *testing.T) {
	all, none := sandbox.Layers{Landlock: 7, Seccomp: true}, sandbox.Layers{}
	nothing, gpu, cannot := declaration{path: "b.sandbox"}, declaration{path: "b.sandbox", gpu: true},
		declaration{path: "b.sandbox", none: true}
	for _, c := range []struct {
		asked    Sandbox
		declared declaration
		has      sandbox.Layers
		want     string // expected confinement, as text
		code     diag.Code
	}{
		{"", nothing, all, "landlock 7, seccomp", ""},
		{SandboxOn, gpu, all, "landlock 7, seccomp, allows gpu", ""},
		{SandboxOn, cannot, all, "none (the backend's declaration asks for none)", ""},
		{SandboxOn, nothing, none, "none (this system has no Landlock, no seccomp)", ""},
		{SandboxOn, nothing, sandbox.Layers{Seccomp: true}, "seccomp (this system has no Landlock)", ""},
		{SandboxOn, gpu, sandbox.Layers{Landlock: 1}, "landlock 1, allows gpu (this system has no seccomp)", ""},
		{SandboxOff, gpu, all, "none (turned off)", ""},
		{SandboxRequire, gpu, all, "landlock 7, seccomp, allows gpu", ""},
		{SandboxRequire, cannot, all, "declares in b.sandbox that it runs without a sandbox", code.Sandbox},
		{SandboxRequire, nothing, none, "cannot be confined: this system has no Landlock, no seccomp", code.Sandbox},
		{SandboxRequire, nothing, sandbox.Layers{Landlock: 7}, "cannot be confined: this system has no seccomp",
			code.Sandbox},
		{SandboxRequire, nothing, sandbox.Layers{Seccomp: true}, "cannot be confined: this system has no Landlock",
			code.Sandbox},
		{"yes", nothing, all, "sandbox yes: is unknown; allowed are on, off, require", diag.Usage},
	} {
		got, err := confine("backend b", c.asked, c.declared, c.has)
		if c.code != "" {
			wantCode(t, err, c.code, c.want)
		} else if err != nil || got.String() != c.want {
			t.Errorf("%s, %+v, %+v: %q, %v; want %q", c.asked, c.declared, c.has, got, err, c.want)
		}
	}
}

// linkedBackend makes a link to the scripted backend, so that a declaration can be put next to it.
func linkedBackend(t *testing.T, mode string) (Options, *rpctest.LogBuffer) {
	opts, log := testOptions(t, mode)
	path := filepath.Join(opts.TempDir, "rlx-backend-ref")
	if err := os.Symlink(opts.Path, path); err != nil {
		t.Fatal(err)
	}
	opts.Path = path
	return opts, log
}

// TestSandboxRequire checks that with SandboxRequire no backend starts if a layer is missing, and that a session
// reports its layers.
func TestSandboxRequire(t *testing.T) {
	defer func() { availableLayers = sandbox.Available }()
	has := sandbox.Available()
	for _, layers := range []sandbox.Layers{has, {Landlock: has.Landlock}, {Seccomp: has.Seccomp}, {}} {
		availableLayers = func() sandbox.Layers { return layers }
		opts, _ := testOptions(t, "good")
		opts.Sandbox = SandboxRequire
		s, err := Start(t.Context(), opts)
		if layers.Landlock == 0 || !layers.Seccomp {
			wantCode(t, err, code.Sandbox, "this system has no ")
			wantEmpty(t, opts.TempDir)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Sandbox(); got.layers() != layers || got.Reason != "" {
			t.Errorf("%+v under %+v", got, layers)
		}
		s.Close()
	}
}

func TestDeclaration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "",
		"# why\n\n  gpu # devices":   "gpu",
		"none\n":                     "none",
		"gpu none":                   "none",
		"gpu\nhome\n":                `rlx-backend-ref.sandbox says "home"; allowed are gpu, none`,
		"\x1b[31m":                   `rlx-backend-ref.sandbox says `,
		strings.Repeat("#", 1<<12+1): "rlx-backend-ref.sandbox is not a file of at most 4096 bytes",
	} {
		opts, _ := linkedBackend(t, "good")
		if err := os.WriteFile(opts.Path+".sandbox", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Start(t.Context(), opts)
		if strings.Contains(want, " ") {
			wantCode(t, err, code.Sandbox, want)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got := s.Sandbox()
		if got.allows(wordGPU) != (want == wordGPU && got.confined()) || want == wordNone && got.confined() {
			t.Errorf("%q: %+v", text, got)
		}
		s.Close()
	}
	// A FIFO must not block a start.
	opts, _ := linkedBackend(t, "good")
	if err := syscall.Mkfifo(opts.Path+".sandbox", 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), opts)
	wantCode(t, err, code.Sandbox, "is not a file")
	wantEmpty(t, opts.TempDir)
}
