package driver

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// weightAt holds the offsets of the weights of sumOfWeights. About 2 MiB between a and b are not read; b begins within
// a page, and c ends within one.
var weightAt = map[string]int64{"a": 256, "b": 2<<20 + 256, "c": 2<<20 + 8*elems}

const elems = 4 << 10

// noCopy is the selector of the message that makes a buffer over memory.
const noCopy = "newBufferWithBytesNoCopy:length:options:deallocator:"

// sumOfWeights returns a program that adds the weights a, b and c to x.
func sumOfWeights(t *testing.T) *program.Program {
	t.Helper()
	g := ir.NewGraph("sum")
	typ := ir.TypeOf(dtype.F32, elems)
	y := op.Input(g, "x", typ)
	for _, name := range []string{"a", "b", "c"} {
		y = op.Add(y, op.Param(g, name, typ))
	}
	g.Return("y", y)
	p, _, err := sched.Build(
		g, sched.Options{Target: "metal", Weights: func(name string) (int64, bool) {
			at, ok := weightAt[name]
			return at, ok
		}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// weightsOfSum returns the weights section of sumOfWeights.
func weightsOfSum() []byte {
	section := make([]byte, weightAt["c"]+4*elems)
	for name, at := range weightAt {
		for i := range elems {
			binary.LittleEndian.PutUint32(section[at+int64(4*i):], math.Float32bits(weight(name, i)))
		}
	}
	return section
}

func weight(name string, i int) float32 { return float32(int(name[0])*1000 + i) }

// TestInPlace checks that mapped weights are used in place if possible, and copied otherwise. Either way the results
// must be right, also after a weight was replaced, and nothing may read the weights after Close.
func TestInPlace(t *testing.T) {
	p := sumOfWeights(t)
	for _, c := range []struct {
		name   string
		skip   int
		copied bool // the host says that the weights are not mapped
		with   func(f *fake)
		made   int // expected number of buffers over the weights
		asked  int // expected number of requests for one
	}{
		{"in place", 0, false, nil, 2, 2},
		{"not mapped", 0, true, nil, 0, 0},
		{"within a page", 256, false, nil, 0, 0},
		{"refused", 0, false, func(f *fake) { f.failing[noCopy] = true }, 0, 2},
		{"of length 0", 0, false, func(f *fake) { f.flat = true }, 0, 2},
		// the last two have 32 KiB and the rest of c
		{"small buffers", 0, false, func(f *fake) { f.most = 32<<10 + 256 }, 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, b := start(t, "")
			if c.with != nil {
				c.with(f)
			}
			section, unmap := mapped(t, weightsOfSum(), c.skip)
			x, err := b.Load(t.Context(), device.Load{Program: p, Weights: section, Mapped: !c.copied})
			if err != nil {
				t.Fatal(err)
			}
			over := 0
			for _, o := range f.objects {
				if o.over != nil {
					over++
				}
			}
			if over != c.made || f.sent[noCopy] != c.asked {
				t.Errorf("%d buffers over the weights, %d requested; want %d, %d", over, f.sent[noCopy], c.made,
					c.asked)
			}
			added := float32(0)
			for n := range 4 { // the commands of the second run were recorded during the first
				if n == 2 { // other values for a; what lay over the section gets memory of its own
					added = 7
					next := tensor.AlignedBytes(len(section))
					for i := range elems {
						binary.LittleEndian.PutUint32(next[weightAt["a"]+int64(4*i):],
							math.Float32bits(weight("a", i)+added))
					}
					a, _ := p.Graph.Find("a")
					err := x.(device.WeightSetter).SetWeights(t.Context(),
						device.NewWeights{Params: []int{a.ID}, Weights: next})
					if err != nil {
						t.Fatal(err)
					}
				}
				io := tensor.AlignedBytes(int(p.IOSize))
				for i := range elems {
					binary.LittleEndian.PutUint32(io[p.Places[p.Graph.Inputs()[0].ID].Offset+int64(4*i):],
						math.Float32bits(float32(n*i)))
				}
				if _, err := x.Run(t.Context(), device.Run{IO: io}); err != nil {
					t.Fatal(err)
				}
				for i := range elems {
					want := float32(n*i) + (weight("a", i) + added) + weight("b", i) + weight("c", i)
					if got := math.Float32frombits(
						binary.LittleEndian.Uint32(
							io[p.Places[p.Graph.Outputs[0].Node.ID].Offset+int64(4*i):])); got != want {
						t.Fatalf("run %d: element %d is %v; want %v", n, i, got, want)
					}
				}
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			unmap()
			f.checkReleased(t)
		})
	}
}

// TestInPlaceAfterFailure checks that Close waits for submissions that follow a failed one, because the host may unmap
// the weights after Close.
func TestInPlaceAfterFailure(t *testing.T) {
	f, b := start(t, "")
	p := sumOfWeights(t)
	section, unmap := mapped(t, weightsOfSum(), 0)
	x, err := b.Load(context.Background(), device.Load{Program: p, Weights: section, Mapped: true})
	if err != nil {
		t.Fatal(err)
	}
	// a command buffer for each step
	profiled := device.Run{IO: tensor.AlignedBytes(int(p.IOSize)), Opts: device.RunOptions{Profile: true}}
	if _, err := x.Run(t.Context(), profiled); err != nil {
		t.Fatal(err)
	}
	f.status, f.late = &failure{domain: commandBufferErrorDomain, code: commandBufferErrorPageFault,
		faulted: "step 1 ("}, 100
	if _, err := x.Run(t.Context(), profiled); !errors.Is(err, device.ErrDevice) {
		t.Errorf("%v; want %v", err, device.ErrDevice)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	unmap()
	f.checkReleased(t)
}

// mapped is mapPages for memory that is only read.
func mapped(t *testing.T, contents []byte, skip int) (section []byte, unmap func()) {
	t.Helper()
	return mapPages(t, contents, skip, false)
}
