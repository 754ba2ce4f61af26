// Package rlxtest serves the tests of packages that run models: package rlx and those for tasks. Their test programs
// are the cpu backend, too, and compile models with rlxc.
package rlxtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/testbin"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
	"github.com/rlx-go/rlx/plugins/rpc/serve"
	"github.com/rlx-go/rlx/task"
)

// Main runs the tests of a package. If a host has started the test program as a backend, Main serves b as the backend
// cpu instead; nil means the cpu backend itself. rlx.FindBackend finds the program under the name cpu.
func Main(m *testing.M, b device.Backend) {
	if os.Getenv("RLX_FDS") != "" {
		if b == nil {
			b = backend.Backend{}
		}
		serve.Backend(serve.Config{Name: "cpu", Backend: b, Decode: format.DecodeProgram})
		return
	}
	var err error
	if scratch, err = os.MkdirTemp("", "rlx"); err == nil {
		err = os.Symlink(self(), filepath.Join(scratch, "rlx-backend-cpu"))
	}
	if err != nil {
		panic(err)
	}
	os.Setenv("RLX_PLUGIN_PATH", scratch)
	os.Setenv("XDG_DATA_HOME", filepath.Join(scratch, "data")) // no plugins of the user
	status := m.Run()
	os.RemoveAll(scratch)
	os.Exit(status)
}

var scratch string // removed after the tests

func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// CPU returns the cpu backend under a name.
func CPU(name string) rlx.Backend { return rlx.Backend{Name: name, Path: self()} }

// SAM and Llama return the demo models, compiled once.
var (
	SAM   = sync.OnceValue(func() string { return compiled("sam.rlx", "demo/sam-nano.safetensors") })
	Llama = sync.OnceValue(func() string { return compiled("llama.rlx", "demo/llama") })
)

func compiled(name, checkpoint string) string {
	path := Scratch(name)
	Compile(path, filepath.Join(root(), checkpoint))
	return path
}

// Scratch returns the path of a file in a folder that exists during the tests.
func Scratch(name string) string { return filepath.Join(scratch, name) }

// Compile compiles a checkpoint with rlxc and flags.
func Compile(artifact, checkpoint string, flags ...string) {
	run(append([]string{compiler(), checkpoint, "-o", artifact}, flags...)...)
}

// CompileGolden compiles the language model of a folder of goldens, whose weights are those of its manifest, and
// returns the artifact's path. The folder may have a tokenizer, a chat template and the settings of an image processor.
func CompileGolden(t *testing.T, folder string, flags ...string) string {
	t.Helper()
	es, err := synth.ReadManifest(filepath.Join(folder, "manifest.json"))
	dir := t.TempDir()
	if err == nil {
		err = synth.Write(filepath.Join(dir, "model.safetensors"), es, dtype.F32)
	}
	for _, name := range []string{"config.json", "preprocessor_config.json", "tokenizer.json", "chat_template.jinja"} {
		var file []byte
		if err == nil {
			file, err = os.ReadFile(filepath.Join(folder, name))
		}
		if errors.Is(err, fs.ErrNotExist) && name != "config.json" {
			err = nil
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), file, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.rlx")
	Compile(path, dir, flags...)
	return path
}

// compiler returns the path of rlxc.
var compiler = sync.OnceValue(func() string {
	path := filepath.Join(scratch, "rlxc")
	if err := testbin.Build(path, "cmd/rlxc"); err != nil {
		panic(err)
	}
	return path
})

func run(args ...string) {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %v\n%s", args, err, out))
	}
}

// root returns the folder of the module.
func root() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	panic(err)
}

// Artifact writes a model with programs and a task, which may be nil.
func Artifact(t testing.TB, about task.Task, programs ...*program.Program) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.rlx")
	a := format.Artifact{Programs: programs,
		Meta: format.Meta{Model: "test", Architecture: "none", Producer: format.Producer{Name: "test", Version: "0"},
			Precisions: []string{"f32", "bf16"}, Task: about, Pairs: []format.Pair{{Key: "blocks", Value: "1"}}}}
	if _, err := format.Write(t.Context(), path, a, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// Open opens a model until the end of the test.
func Open(t testing.TB, path string) *rlx.Model {
	t.Helper()
	m, err := rlx.Open(t.Context(), path, rlx.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// Session starts a backend, by default the cpu backend, until the end of the test.
func Session(t testing.TB, m *rlx.Model, o rlx.Options) *rlx.Session {
	t.Helper()
	if o.Backend.Path == "" {
		o.Backend = CPU("cpu")
	}
	s, err := m.NewSession(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// OnGPU builds the wgpu backend and returns options for a session with it, on a software device if there is no other.
// It skips the test unless RLX_REQUIRE_GPU is set.
func OnGPU(t *testing.T) rlx.Options {
	if os.Getenv("RLX_REQUIRE_GPU") == "" {
		t.Skip("set RLX_REQUIRE_GPU=1 to build and run the wgpu backend")
	}
	path := filepath.Join(t.TempDir(), "rlx-backend-wgpu")
	err := testbin.Build(path, "plugins/wgpu")
	declaration, err2 := os.ReadFile(filepath.Join(root(), "plugins/wgpu/rlx-backend-wgpu.sandbox"))
	if err := errors.Join(err, err2, os.WriteFile(path+".sandbox", declaration, 0o644)); err != nil {
		t.Fatal(err)
	}
	o := rlx.Options{Backend: rlx.Backend{Name: "wgpu", Path: path}}
	info, err := o.Backend.Describe(t.Context(), rlx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if info.Devices[0].Type == rlx.SoftwareDevice {
		o.Device = rlx.SoftwareDevice
	}
	return o
}

// WantError checks that an error matches targets.
func WantError(t testing.TB, what string, err error, targets ...error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error; want one", what)
	}
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%s: %v; want one that matches %v", what, err, target)
		}
	}
}

// A Runner is a session whose runs a function makes.
type Runner struct {
	*rlx.Session
	Do func(context.Context, rlx.Request) (*rlx.Result, error)
}

// Run calls Do.
func (r Runner) Run(ctx context.Context, q rlx.Request) (*rlx.Result, error) { return r.Do(ctx, q) }

// Children returns the processes that this one has started. It skips the test where the system does not tell.
func Children(t testing.TB) (out []int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		t.Skip("the system does not list the children of a process")
	}
	for _, path := range lists {
		b, _ := os.ReadFile(path) // a thread may have ended
		for _, f := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, pid)
		}
	}
	return out
}

// Kill kills the processes that this one has started, except some.
func Kill(t testing.TB, but []int) {
	t.Helper()
	for _, pid := range Children(t) {
		if p, err := os.FindProcess(pid); err == nil && !slices.Contains(but, pid) {
			p.Kill()
		}
	}
}
