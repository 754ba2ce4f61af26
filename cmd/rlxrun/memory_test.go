package main

import (
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

func TestCheckMemory(t *testing.T) {
	m := tinyModel(t)
	h := hostOf(t, m, debugFlags{})
	n := &ir.Node{}
	n.In = []*ir.Node{n, n} // two operands of 256 bytes, in the host and in the backend
	p := &program.Program{Method: "encode", ArenaSize: 100e6, IOSize: 10e6, Graph: &ir.Graph{Nodes: []*ir.Node{n}}}
	m.weights, m.structure = 50e6, 1e6
	const need = 170e6 + 2*32e6 + 2*2*256
	allow := func(limit, free int64) error {
		h.memory = &memory{subject: m.path, limit: limit, free: free}
		return h.checkMemory([]*program.Program{p})
	}
	if err := allow(need, 1); err != nil {
		t.Errorf("as much as is and allowed: %v", err)
	}
	wantError(t, "a byte less", allow(need-1, -1), device.ErrMemory, "tiny.rlx: needs 234 MB (arena 100 MB, inputs and outputs 20.0 MB, weights 50.0 MB, structure 64.0 MB); --memory allows 234 MB")
	if err := allow(0, need); err != nil {
		t.Errorf("as much as is and free: %v", err)
	}
	wantError(t, "a byte less", allow(0, need-1), device.ErrMemory, "free are 234 MB; --memory SIZE")
	h.device.Memory = 160e6
	if err := allow(0, -1); err != nil {
		t.Errorf("160 MB needed of the device, and there: %v", err)
	}
	h.device.Memory--
	wantError(t, "a byte less", allow(0, -1), device.ErrMemory, "needs 160 MB of device cpu:0, which has 160 MB")
	p.ArenaSize = 1 << 62
	p.IOSize = 1 << 61
	wantError(t, "a sum beyond 2^63", allow(0, 1<<62), device.ErrMemory, "needs 9223372 TB")
	h.info.MaxAlloc = 1 << 30
	wantError(t, "device limit", allow(0, -1), device.ErrMemory, "allows 1.1 GB")
}

// Parts add up; what only must fit now is not kept.
func TestMemoryParts(t *testing.T) {
	m := &memory{subject: "x", limit: 100}
	if err := m.fits(part{"inputs", 100}); err != nil {
		t.Error(err)
	}
	if err := m.need(part{"image", 60}); err != nil {
		t.Error(err)
	}
	wantError(t, "beside the image", m.fits(part{"inputs", 41}), device.ErrMemory, "needs 101 B (image 60 B, inputs 41 B)")
	if err := m.need(part{"masks", 40}); err != nil {
		t.Error(err)
	}
	wantError(t, "full", m.need(part{"arena", 1}), device.ErrMemory, "image 60 B, masks 40 B, arena 1 B")
	var none *memory
	if err := none.need(part{"arena", 1 << 60}); err != nil {
		t.Error(err)
	}
}

// What --check and --dump-tensors hold of a program, worked out by hand.
func TestDebugMemory(t *testing.T) {
	p := programOf(t, `graph f
sym N = 1..10
x = input : f32[N,8]
w = const {value=0.25} : f32[8,4]
h = matmul x, w : f32[N,4]
g = neg h : f32[N,4]
y = add g, h : f32[N,4]
return y=y
`, "cpu")
	for _, c := range []struct {
		check bool
		dumps []string
		want  int64
	}{
		{false, nil, 0},
		// A dumped value: 2 x 160 bytes in transit, 40 numbers of 8 bytes.
		{false, []string{"*=d"}, 2*160 + 320},
		// The matmul is the peak: x, w and h (80, 32 and 40 numbers) are live, h is in transit, and the reference has its own
		// result and allocates as much as its operands and result.
		{true, nil, 8*(80+32+40) + (2*160 + 320) + 8*40 + 8*(80+32+40)},
	} {
		d := debugFlags{check: c.check}
		d.dumps.Values = c.dumps
		if got := d.memory(p); got != c.want {
			t.Errorf("check %v, dumps %v: %d; want %d", c.check, c.dumps, got, c.want)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "300M": 300e6, "300MB": 300e6, "1.5g": 1500e6, "2Gi": 2 << 30, "512KiB": 512 << 10, "4096 B": 4096} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "M", "-3M", "0", "ten", "1e99", "3X"} {
		_, err := parseSize(text)
		wantError(t, text, err, diag.Usage, "is not a size")
	}
}
