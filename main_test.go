package rlx_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
	"github.com/rlx-go/rlx/plugins/rpc/serve"
)

// TestMain also acts as the backend.
func TestMain(m *testing.M) {
	if lacks := os.Getenv("RLX_FEW_LACKS"); lacks != "" && os.Getenv("RLX_FDS") != "" {
		serve.Backend(serve.Config{Name: "few", Backend: few{lacks: lacks}, Decode: format.DecodeProgram})
		return
	}
	rlxtest.Main(m, faulty{})
}

// cpu returns the cpu backend.
func cpu() rlx.Backend { return rlxtest.CPU("cpu") }

// faultyBackend returns the cpu backend under a name. Some names have faults; see faulty.
func faultyBackend(name string) rlx.Backend { return rlxtest.CPU(name) }

// faulty is the cpu backend, unless an environment variable sets a fault. A variable reaches only the backend with its
// name: RLX_CRASHES_FAULT=crash ends the process in a run, RLX_WAITS_FAULT=wait makes the first run wait until it is
// cancelled, RLX_LOADS_FAULT=wait does the same for the first load, and RLX_WRONG_FAULT=wrong makes results differ.
// RLX_OLD_FAULT=old makes the backend unable to replace weights, and RLX_SETS_FAULT=fail makes SetWeights fail.
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
	info.SetsWeights = os.Getenv("RLX_OLD_FAULT") == ""
	if types := os.Getenv("RLX_SOFT_DEVICES"); types != "" {
		info.Devices = nil
		for i, t := range strings.Split(types, ",") {
			info.Devices = append(info.Devices, device.Device{ID: fmt.Sprint(i), Name: "test " + t, Type: t})
		}
	}
	return info, err
}

type faultyRun struct{ device.Executable }

func (e faultyRun) SetWeights(ctx context.Context, w device.NewWeights) error {
	if os.Getenv("RLX_SETS_FAULT") != "" {
		return diag.New(device.ErrMemory, "", "no memory for packed weights")
	}
	return e.Executable.(device.WeightSetter).SetWeights(ctx, w)
}

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

// demoModel returns an artifact, sam.rlx, that rlxc has made of the demo's checkpoint.
var demoModel = rlxtest.SAM

// cacheModel returns the model that keeps a cache, compiled once.
var cacheModel = sync.OnceValue(func() string {
	programs, err := tinymodel.Compile("cpu", tinymodel.Cache, tinymodel.Peek)
	path := rlxtest.Scratch("cache.rlx")
	if err == nil {
		_, err = format.Write(context.Background(), path,
			format.Artifact{Programs: programs, Meta: format.Meta{Model: "cache", Precisions: []string{"f32"}}}, nil)
	}
	if err != nil {
		panic(err)
	}
	return path
})

// The helpers of package rlxtest have short names here.
var (
	artifact  = rlxtest.Artifact
	open      = rlxtest.Open
	session   = rlxtest.Session
	wantError = rlxtest.WantError
)

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

// arrayOf returns a tensor for comparisons.
func arrayOf(t rlx.Tensor) *tensor.Array {
	return tensor.Tensor{DType: dtype.DType(t.DType), Shape: t.Shape, Data: t.Data}.Array()
}
