package rlx_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/task"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/testbin"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
	"github.com/rlx-go/rlx/plugins/rpc"
)

// TestMain also acts as the backend: if a host starts this program as a backend, it is the cpu backend.
func TestMain(m *testing.M) {
	if os.Getenv("RLX_FDS") != "" {
		if lacks := os.Getenv("RLX_FEW_LACKS"); lacks != "" {
			rpc.Serve(rpc.ServeConfig{Name: "few", Backend: few{lacks: lacks}, Decode: format.DecodeProgram})
			return
		}
		rpc.Serve(rpc.ServeConfig{Name: "cpu", Backend: faulty{}, Decode: format.DecodeProgram})
		return
	}
	status := m.Run()
	if scratch != "" {
		os.RemoveAll(scratch)
	}
	os.Exit(status)
}

// cpu returns the cpu backend.
func cpu() rlx.Backend { return faultyBackend("cpu") }

// faultyBackend returns the cpu backend under a name. Some names have faults; see faulty.
func faultyBackend(name string) rlx.Backend {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return rlx.Backend{Name: name, Path: self}
}

// faulty is the cpu backend, unless an environment variable sets a fault. A variable reaches only the backend with its name:
// RLX_CRASHES_FAULT=crash ends the process in a run, RLX_WAITS_FAULT=wait makes the first run wait until it is cancelled,
// RLX_LOADS_FAULT=wait the first load, and RLX_WRONG_FAULT=wrong makes results differ.
type faulty struct{ backend.Backend }

func (b faulty) Load(ctx context.Context, l device.Load) (device.Executable, error) {
	if os.Getenv("RLX_SOFT_DEVICES") != "" {
		l.Device = "" // the processor
	}
	if os.Getenv("RLX_LOADS_FAULT") != "" && !waited.Swap(true) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	e, err := b.Backend.Load(ctx, l)
	return faultyRun{e}, err
}

// Info reports devices of the types in RLX_SOFT_DEVICES, if it is set.
func (b faulty) Info(ctx context.Context) (device.Info, error) {
	info, err := b.Backend.Info(ctx)
	if types := os.Getenv("RLX_SOFT_DEVICES"); types != "" {
		info.Devices = nil
		for i, t := range strings.Split(types, ",") {
			info.Devices = append(info.Devices, device.Device{ID: fmt.Sprint(i), Name: "test " + t, Type: t})
		}
	}
	return info, err
}

type faultyRun struct{ device.Executable }

var waited atomic.Bool

func (e faultyRun) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	switch {
	case os.Getenv("RLX_CRASHES_FAULT") != "":
		os.Exit(3)
	case os.Getenv("RLX_WAITS_FAULT") != "" && !waited.Swap(true):
		<-ctx.Done()
		return device.Stats{FirstNaN: -1}, ctx.Err()
	case os.Getenv("RLX_WRONG_FAULT") != "" && r.Opts.Observe != nil:
		tell := r.Opts.Observe
		r.Opts.Observe = func(node int, shape []int, data []byte) error {
			clear(data[:4])
			return tell(node, shape, data)
		}
	}
	return e.Executable.Run(ctx, r)
}

var scratch string // empty before the first use

// demoModel and demoLlama return the demo models, compiled once.
var (
	demoModel = sync.OnceValue(func() string { return compiled("demo/sam-nano.safetensors", "sam.rlx") })
	demoLlama = sync.OnceValue(func() string { return compiled("demo/llama", "llama.rlx") })
)

// compiler returns the path of rlxc, built in the scratch folder.
var compiler = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "rlx")
	if err != nil {
		panic(err)
	}
	scratch = dir
	path := filepath.Join(dir, "rlxc")
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

// compiled compiles a checkpoint to a file in the scratch folder.
func compiled(checkpoint, name string) string {
	rlxc := compiler()
	file := filepath.Join(scratch, name)
	run(rlxc, checkpoint, "-o", file)
	return file
}

// cacheModel returns the model that keeps a cache, compiled once.
var cacheModel = sync.OnceValue(func() string {
	compiler() // creates the folder
	programs, err := tinymodel.Compile("cpu", tinymodel.Cache, tinymodel.Peek)
	path := filepath.Join(scratch, "cache.rlx")
	if err == nil {
		_, err = format.Write(context.Background(), path, format.Artifact{Programs: programs, Meta: format.Meta{Model: "cache", Precisions: []string{"f32"}}}, nil)
	}
	if err != nil {
		panic(err)
	}
	return path
})

// artifact writes a model with programs and a task, which may be nil.
func artifact(t testing.TB, about task.Task, programs ...*program.Program) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.rlx")
	a := format.Artifact{Programs: programs, Meta: format.Meta{Model: "test", Architecture: "none", Producer: format.Producer{Name: "test", Version: "0"},
		Precisions: []string{"f32", "bf16"}, Task: about, Pairs: []format.Pair{{Key: "blocks", Value: "1"}}}}
	if _, err := format.Write(t.Context(), path, a, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// open opens a model until the end of the test.
func open(t testing.TB, path string) *rlx.Model {
	t.Helper()
	m, err := rlx.Open(t.Context(), path, rlx.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// session starts a backend until the end of the test.
func session(t testing.TB, m *rlx.Model, o rlx.Options) *rlx.Session {
	t.Helper()
	if o.Backend.Path == "" {
		o.Backend = cpu()
	}
	s, err := m.NewSession(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// tiny opens a model with one method.
func tiny(t testing.TB, text string) *rlx.Model {
	t.Helper()
	return open(t, artifact(t, nil, tinymodel.Program(t, text, "cpu")))
}

func tensorOf[T rlx.Element](t testing.TB, data []T, shape ...int) rlx.Tensor {
	t.Helper()
	x, err := rlx.NewTensor(data, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func wantError(t testing.TB, what string, err error, targets ...error) {
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
