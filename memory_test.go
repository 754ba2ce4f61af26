package rlx

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/budget"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

func wantMemory(t *testing.T, what string, err error, text string) {
	t.Helper()
	if !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v; want an error of memory that says %q", what, err, text)
	}
}

// TestBudget checks that reservations add up until they are released, and that Fits and failed reservations are not
// counted.
func TestBudget(t *testing.T) {
	b := NewBudget(100)
	if err := errors.Join(b.Fits("inputs", 100), b.Reserve("image", 60)); err != nil {
		t.Error(err)
	}
	wantMemory(t, "beside the image", b.Fits("inputs", 41),
		"needs 101 B (image 60 B, inputs 41 B); rlx.Budget allows 100 B")
	wantMemory(t, "another image", b.Reserve("image", 41), "needs 101 B (image 101 B)")
	if err := b.Reserve("masks", 40); err != nil {
		t.Error(err)
	}
	wantMemory(t, "full", b.Reserve("arena", 1), "image 60 B, masks 40 B, arena 1 B")
	b.Release("image", 60)
	if err := b.Reserve("image", 60); err != nil {
		t.Error(err)
	}
	wantMemory(t, "a sum beyond 2^63", b.Reserve("arena", 1<<63-1), "needs 9223372 TB")
	free := &Budget{budget.With(0, 10)}
	wantMemory(t, "more than is free", free.Reserve("arena", 11), "10 B is free; an rlx.Budget with a limit overrides")
	if err := (&Budget{budget.With(0, -1)}).Reserve("arena", 1<<60); err != nil {
		t.Errorf("a system that does not tell: %v", err)
	}
}

// TestReserve checks the memory that a session reserves before it loads methods.
func TestReserve(t *testing.T) {
	g := &ir.Graph{}
	p := &program.Program{Method: "encode", ArenaSize: 100e6, IOSize: 10e6, Graph: g}
	n := &ir.Node{Op: op.AddDef}
	n.In = []*ir.Node{n, n} // two operands of 256 bytes, on the host and in the backend
	g.Nodes = []*ir.Node{n}
	path := t.TempDir() + "/m.rlx"
	if _, err := format.Write(
		t.Context(), path, format.Artifact{Programs: []*program.Program{tinymodel.Program(t, tinymodel.MLP, "cpu")},
			Meta: format.Meta{Model: "m", Producer: format.Producer{Name: "test", Version: "0"}}}, nil); err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), path, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	need := 100e6 + 2*10e6 + 2*(format.MemoryPerByte*m.verified.StructureSize()+2*256)
	s := &Session{model: m, worker: &worker{backend: &host.Session{}}, loaded: map[string]*loaded{}}
	allow := func(limit, free int64) error {
		s.memory = &Budget{budget.With(limit, free)}
		_, err := s.reserve([]*loaded{{pieces: []*piece{{worker: s.worker, prog: p}}}})
		return err
	}
	if err := allow(need, 1); err != nil {
		t.Errorf("as much as is allowed: %v", err)
	}
	wantMemory(t, "a byte less", allow(need-1, -1),
		"m.rlx: needs 120 MB (arena 100 MB, inputs and outputs 20.0 MB, structure ")
	if err := allow(0, need); err != nil {
		t.Errorf("as much as is free: %v", err)
	}
	wantMemory(t, "a byte less", allow(0, need-1), "120 MB is free")
	s.device = device.Device{ID: "0", Memory: 110e6}
	if err := allow(0, -1); err != nil {
		t.Errorf("110 MB needed of the device, and there: %v", err)
	}
	s.device.Memory--
	wantMemory(t, "a byte less", allow(0, -1), "needs 110 MB of device .:0, which has 110 MB")
	if n := s.memory.budget.Reserved(); n != 0 {
		t.Errorf("%d bytes were counted after all", n)
	}
	p.ArenaSize, p.IOSize = 1<<62, 1<<61
	wantMemory(t, "a sum beyond 2^63", allow(0, 1<<62), "needs 9223372 TB")
	s.info.MaxAlloc = 1 << 30
	wantMemory(t, "the backend's limit", allow(0, -1), "allows 1.1 GB")
}

// TestObserveMemory compares the memory for Check and Observe with values computed by hand.
func TestObserveMemory(t *testing.T) {
	s := Schedule{split: program.Whole(tinymodel.Program(t, `graph f
sym N = 1..10
x = input : f32[N,8]
w = const {value=0.25} : f32[8,4]
h = matmul x, w : f32[N,4]
g = neg h : f32[N,4]
y = add g, h : f32[N,4]
return y=y
`, "cpu"))}
	// One value: 2 x 160 bytes in transit, and 40 numbers of 8 bytes.
	if got := s.observeMemory(false); got != 2*160+320 {
		t.Errorf("Observe: %d", got)
	}
	// The peak is at the matmul: x, w and h (80, 32 and 40 numbers) are live, h is in transit, and the reference has
	// its own result and allocates as much as its operands and result.
	if got := s.observeMemory(true); got != 8*(80+32+40)+(2*160+320)+8*40+8*(80+32+40) {
		t.Errorf("Check: %d", got)
	}
}
