//go:build linux || darwin

package backend_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/rpc/host"
	"github.com/rlx-go/rlx/sdk/backend"
)

// kernels use all that a Kernel has: several rules, a table made for a node, scratch memory, updates of states, an
// error for a bad value.
var kernels = []backend.Kernel{
	{Op: "abs", Takes: []string{"(f32)", "(f64)"}, Run: func(c *backend.Call) error {
		if c.In[0].DType.Size() == 4 {
			return each[float32](c)
		}
		return each[float64](c)
	}},
	{Op: "leaky_relu", Takes: []string{"(f32)"}, Prepare: func(n *ir.Node) (func(*backend.Call) error, error) {
		slope := n.Attrs.(op.LeakyReluAttrs).Slope
		return func(c *backend.Call) error {
			x, y := backend.View[float32](c.In[0]), backend.View[float32](c.Out[0])
			for i, v := range x {
				y[i] = v
				if v < 0 {
					y[i] = float32(float64(v) * slope)
				}
			}
			return nil
		}, nil
	}},
	{Op: "flip", Takes: []string{"(f32) if axes = last"}, Scratch: func(n *ir.Node) int64 {
		return 4 * n.Graph.Syms.MaxElems(n.Type)
	}, Run: flip},
	{Op: "acme.wave", Takes: []string{"(f32) if alpha <= 4"},
		Prepare: func(n *ir.Node) (func(*backend.Call) error, error) {
			alpha := backend.Attr(n, "alpha").(float64)
			return func(c *backend.Call) error {
				x, y := backend.View[float32](c.In[0]), backend.View[float32](c.Out[0])
				for i, v := range x {
					y[i] = float32(math.Sin(float64(v)) * alpha)
				}
				return nil
			}, nil
		}},
	{Op: "kv_append", Takes: []string{"(f32, same, i32) if axis = 0"}, Run: func(c *backend.Call) error {
		row := len(c.In[1].Data) / max(1, c.In[1].Shape[0])
		at := int(int32(binary.LittleEndian.Uint32(c.In[2].Data)))
		if last := c.In[0].Shape[0] - c.In[1].Shape[0]; at < 0 || at > last {
			return fmt.Errorf("position is %d; want 0 to %d", at, last)
		}
		copy(c.Out[0].Data[at*row:], c.In[1].Data)
		return nil
	}},
}

func each[T float32 | float64](c *backend.Call) error {
	x, y := backend.View[T](c.In[0]), backend.View[T](c.Out[0])
	for i, v := range x {
		y[i] = T(math.Abs(float64(v)))
	}
	return nil
}

// flip reverses rows through scratch memory, though it needs none.
func flip(c *backend.Call) error {
	copy(c.Scratch, c.In[0].Data)
	n := c.In[0].Shape[len(c.In[0].Shape)-1] * 4
	for row := 0; row < len(c.In[0].Data); row += n {
		for i := 0; i < n; i += 4 {
			copy(c.Out[0].Data[row+i:row+i+4], c.Scratch[row+n-4-i:])
		}
	}
	return nil
}

func open(c backend.Config) func(t *testing.T) device.Backend {
	return func(t *testing.T) device.Backend {
		b, err := backend.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// wave defines the custom op that one of the kernels runs.
const wave = `op acme.wave
attr alpha = 0.5
case N=0
case N=33 alpha=-2
case N=200 alpha=3.5
case N=5 alpha=5

graph expansion
sym N = 0..1024
x = input : f32[N]
a = const {value=$alpha} : f32[]
s = sin x : f32[N]
y = mul s, a : f32[N]
return y=y
`

func TestConformance(t *testing.T) {
	var l custom.Library
	if err := l.Parse("wave", wave); err != nil {
		t.Fatal(err)
	}
	if err := devicetest.Define(&l); err != nil {
		t.Fatal(err)
	}
	devicetest.Run(t, open(backend.Config{Name: "sdk", Kernels: kernels}), devicetest.Options{MustHave: true})
}

// TestReference runs an op without a kernel, beside one that has one.
func TestReference(t *testing.T) {
	g := ir.NewGraph("m")
	g.Return("y", op.Abs(op.Tanh(op.Input(g, "x", ir.MustType("f32[3]")))))
	p, _, err := sched.Build(g, sched.Options{Method: "m", Target: "sdk"})
	if err != nil {
		t.Fatal(err)
	}
	x, err := open(backend.Config{Name: "sdk", Kernels: kernels, Reference: true})(t).Load(
		t.Context(), device.Load{Program: p})
	if err != nil {
		t.Fatal(err)
	}
	want := []device.Kernel{{Op: "abs", Native: true}, {Op: "tanh"}}
	if !slices.Equal(x.Kernels(), want) || x.Memory() < 2*3*8 {
		t.Errorf("kernels %v, %d bytes of scratch memory; want %v, and two arrays of three float64", x.Kernels(),
			x.Memory(), want)
	}
	inputs, outputs := program.NewBinder(p).IO(nil)
	io := tensor.AlignedBytes(int(p.IOSize))
	copy(tensor.View[float32](io[inputs[0].Offset:]), []float32{-1, 0, 2})
	if _, err = x.Run(t.Context(), device.Run{IO: io}); err != nil {
		t.Fatal(err)
	}
	for i, v := range []float64{1, 0, 2} {
		if got := tensor.View[float32](io[outputs[0].Offset:])[i]; got != float32(math.Tanh(v)) {
			t.Errorf("element %d is %v; want %v", i, got, math.Tanh(v))
		}
	}
}

func TestNew(t *testing.T) {
	run := func(*backend.Call) error { return nil }
	good := backend.Kernel{Op: "neg", Takes: []string{"(f32)"}, Run: run}
	for want, c := range map[string]backend.Config{
		`the name is "My Backend"; want lower-case letters, digits, _ and -`: {Name: "My Backend"},
		`backend x: op neg has two kernels`: {Name: "x",
			Kernels: []backend.Kernel{good, good}},
		`kernel of "neg": want Run or Prepare`: {Name: "x",
			Kernels: []backend.Kernel{{Op: "neg", Takes: []string{"(f32)"}}}},
		`kernel of "neg": no rule in Takes`: {Name: "x",
			Kernels: []backend.Kernel{{Op: "neg", Run: run}}},
		`kernel of "neg": rule "(f31)": column`: {Name: "x",
			Kernels: []backend.Kernel{{Op: "neg", Takes: []string{"(f31)"}, Run: run}}},
		`op "negg" is unknown`: {Name: "x",
			Kernels: []backend.Kernel{{Op: "negg", Takes: []string{"(f32)"}, Run: run}}},
		`kernel of "acme.x": rule "(f31)": column`: {Name: "x",
			Kernels: []backend.Kernel{{Op: "acme.x", Takes: []string{"(f31)"}, Run: run}}},
		`op neg has no attribute "axis"`: {Name: "x",
			Kernels: []backend.Kernel{{Op: "neg", Takes: []string{"(f32) if axis = 0"}, Run: run}}},
	} {
		if _, err := backend.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestOutside builds the example as a user does, in a module outside of this repository, and runs the conformance suite
// on it.
func TestOutside(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"main.go", "go.mod", "../../../go.sum"} {
		b, err := os.ReadFile(filepath.Join("example", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mod", "edit", "-replace", "github.com/rlx-go/rlx=" + root},
		{"build", "-mod=mod", "-o", "rlx-backend-example", "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	devicetest.Run(t, func(t *testing.T) device.Backend {
		s, err := host.Start(
			t.Context(), host.Options{Path: filepath.Join(dir, "rlx-backend-example"), IOSize: devicetest.MaxIO,
				Encode: format.EncodeProgram})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}, devicetest.Options{MustHave: true, Ops: 0.25}) // TestConformance tries the same definitions in this process
}
