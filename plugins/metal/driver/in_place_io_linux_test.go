package driver

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// sums returns a program with the results y = x+x and z = x+y.
func sums(t *testing.T) *program.Program {
	t.Helper()
	g := ir.NewGraph("sums")
	typ := ir.TypeOf(dtype.F32, elems)
	x := op.Input(g, "x", typ)
	y := op.Add(x, x)
	g.Return("y", y)
	g.Return("z", op.Add(x, y))
	p, _, err := sched.Build(g, sched.Options{Target: "metal"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestInPlaceIO checks that inputs and results are not copied if Load gets their memory and Metal accepts it, and
// copied otherwise.
func TestInPlaceIO(t *testing.T) {
	const copied = "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"
	p := sums(t)
	at := func(n *ir.Node) int64 { return p.Places[n.ID].Offset }
	x, y, z := at(p.Graph.Inputs()[0]), at(p.Graph.Outputs[0].Node), at(p.Graph.Outputs[1].Node)
	for _, c := range []struct {
		name    string
		skip    int
		private bool // Load is not told the memory
		with    func(f *fake)
		buffers int // expected number of buffers over the memory
	}{
		{"in place", 0, false, nil, 1},
		{"not told", 0, true, nil, 0},
		{"within a page", 256, false, nil, 0},
		{"refused", 0, false, func(f *fake) { f.failing[noCopy] = true }, 0},
		{"of length 0", 0, false, func(f *fake) { f.flat = true }, 0},
		{"small buffers", 0, false, func(f *fake) { f.most = 32<<10 + 256 }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, b := start(t, "")
			if c.with != nil {
				c.with(f)
			}
			io, unmap := mapPages(t, make([]byte, p.IOSize), c.skip, true)
			l := device.Load{Program: p, IO: io}
			if c.private {
				l.IO = nil
			}
			before := f.sent[copied]
			e, err := b.Load(t.Context(), l) // also records the first run
			if err != nil {
				t.Fatal(err)
			}
			over := 0
			for _, o := range f.objects {
				if o.over != nil {
					over++
				}
			}
			if over != c.buffers {
				t.Errorf("%d buffers over the memory; want %d", over, c.buffers)
			}
			for n, r := range []device.Run{{}, {}, {Outputs: []bool{false, true}},
				{Opts: device.RunOptions{Profile: true}}, {Opts: device.RunOptions{CheckNaN: true}}, {}} {
				r.IO = io
				clear(io)
				for i := range elems {
					binary.LittleEndian.PutUint32(io[x+int64(4*i):], math.Float32bits(float32(n*i)))
				}
				if _, err := e.Run(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				// a check for NaN reads all values
				if sent := f.sent[copied] - before; n < 4 && (sent > 0) != (c.buffers == 0) {
					t.Errorf("%d copies until run %d", sent, n)
				}
				for i := range elems {
					for k, place := range []int64{x, y, z} {
						got, want := math.Float32frombits(binary.LittleEndian.Uint32(io[place+int64(4*i):])),
							float32((k+1)*n*i)
						if got != want && (k == 0 || r.Wants(k-1)) {
							t.Fatalf("run %d: element %d of tensor %d is %v; want %v", n, i, k, got, want)
						}
					}
				}
			}
			_, err = e.Run(t.Context(), device.Run{IO: tensor.AlignedBytes(int(p.IOSize))})
			if (c.buffers > 0) != errors.Is(err, device.ErrInput) || c.buffers > 0 &&
				!strings.Contains(err.Error(), "not in the memory that Load was given") {
				t.Errorf("a run in other memory: %v", err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			unmap()
			f.checkReleased(t)
		})
	}
}

// TestInPlaceIOAfterFailure checks that a run that fails returns only after all its command buffers have ended, because
// the host may reuse the memory then.
func TestInPlaceIOAfterFailure(t *testing.T) {
	f, b := start(t, "")
	p := sums(t)
	io, unmap := mapPages(t, make([]byte, p.IOSize), 0, true)
	x, err := b.Load(t.Context(), device.Load{Program: p, IO: io})
	if err != nil {
		t.Fatal(err)
	}
	profiled := device.Run{IO: io, Opts: device.RunOptions{Profile: true}} // a command buffer for each step
	if _, err := x.Run(t.Context(), profiled); err != nil {
		t.Fatal(err)
	}
	f.status, f.late = &failure{domain: commandBufferErrorDomain, code: commandBufferErrorPageFault,
		faulted: "step 1 ("}, 100
	if _, err := x.Run(t.Context(), profiled); !errors.Is(err, device.ErrDevice) {
		t.Errorf("%v; want %v", err, device.ErrDevice)
	}
	for _, o := range f.objects {
		if o.class == "MTLCommandBuffer" && o.values["status"] != 0 {
			t.Error("a committed command buffer is left after the run")
		}
	}
	f.status = nil
	if _, err := x.Run(t.Context(), device.Run{IO: io}); err != nil {
		t.Error(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	unmap()
}
