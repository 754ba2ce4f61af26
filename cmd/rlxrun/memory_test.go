package main

import (
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
)

func TestCheckMemory(t *testing.T) {
	m := tinyModel(t)
	h := hostOf(t, m, debugFlags{})
	p := &program.Program{Method: "encode", ArenaSize: 100e6, IOSize: 10e6}
	m.weights = 50e6
	h.limit = 170e6
	if err := h.checkMemory([]*program.Program{p}); err != nil {
		t.Errorf("170 MB needed and allowed: %v", err)
	}
	h.limit--
	wantError(t, "a byte less", h.checkMemory([]*program.Program{p}), device.ErrMemory, "needs 170 MB (arena 100 MB, inputs and outputs 20.0 MB, weights 50.0 MB)")
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
