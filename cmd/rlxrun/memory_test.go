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
	h.limit = 170e6 + 2*32e6 + 2*2*256
	if err := h.checkMemory([]*program.Program{p}); err != nil {
		t.Errorf("as much as is allowed: %v", err)
	}
	h.limit--
	wantError(t, "a byte less", h.checkMemory([]*program.Program{p}), device.ErrMemory, "needs 234 MB (arena 100 MB, inputs and outputs 20.0 MB, weights 50.0 MB, structure 64.0 MB)")
	h.limit = 0
	p.ArenaSize = 1 << 60
	wantError(t, "an exabyte", h.checkMemory([]*program.Program{p}), device.ErrMemory, "--memory SIZE")
	h.info.MaxAlloc = 1 << 30
	wantError(t, "device limit", h.checkMemory([]*program.Program{p}), device.ErrMemory, "allows 1.1 GB")
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
