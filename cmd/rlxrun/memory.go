package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
)

// checkMemory compares what the programs need together with what is allowed (--memory), free (the system's account and
// that of the control groups around the process), and there on the device. Running out later would end a process
// somewhere without a word.
func (h *host) checkMemory(progs []*program.Program) error {
	var arena, io int64
	for _, p := range progs {
		arena, io = arena+p.ArenaSize, io+p.IOSize
		if h.info.MaxAlloc > 0 && p.ArenaSize > h.info.MaxAlloc {
			return diag.New(device.ErrMemory, "arena of "+p.Method, "has %s; backend %s allows %s", cli.Size(p.ArenaSize), h.backend, cli.Size(h.info.MaxAlloc))
		}
	}
	// The host has its own copy of inputs and outputs, and both sides their own of the programs.
	structure := 2 * format.StructureMemory(h.model.structure, progs...)
	need := arena + 2*io + h.model.weights + structure
	parts := fmt.Sprintf("arena %s, inputs and outputs %s, weights %s, structure %s", cli.Size(arena), cli.Size(2*io), cli.Size(h.model.weights), cli.Size(structure))
	tooMuch := func(have int64, what string) *diag.Error {
		return diag.New(device.ErrMemory, h.model.path, "needs %s (%s); %s %s", cli.Size(need), parts, what, cli.Size(have))
	}
	if h.limit > 0 {
		if need > h.limit {
			return tooMuch(h.limit, "--memory allows")
		}
		return nil
	}
	if free, ok := freeMemory(); ok && need > free {
		return tooMuch(free, "free are").WithHint("--memory SIZE overrides this check")
	}
	if m := h.device.Memory; m > 0 && need > m {
		return tooMuch(m, "device "+h.backend+":"+h.device.ID+" has")
	}
	return nil
}

// parseSize reads 4096, 300M or 1.5G: bytes, in units of 1000 as in all of rlxrun's messages, or of 1024 with an i
// (300Mi).
func parseSize(s string) (int64, error) {
	num := strings.TrimRight(strings.TrimSpace(s), "bB")
	unit := 1.0
	base := 1000.0
	if n, ok := strings.CutSuffix(num, "i"); ok {
		num, base = n, 1024
	}
	for i, u := range []string{"k", "m", "g", "t"} {
		if n, ok := strings.CutSuffix(strings.ToLower(num), u); ok {
			num = n
			for range i + 1 {
				unit *= base
			}
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	if err != nil || !(v*unit >= 1 && v*unit < 1<<62) {
		return 0, cli.Usagef("--memory "+s, "is not a size such as 300M, 1.5G or 2Gi")
	}
	return int64(v * unit), nil
}
