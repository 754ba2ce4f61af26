package main

import (
	"math"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/units"
)

// memory adds up what a run needs in the host and the backend, and refuses what is more than is allowed (--memory) or free
// (by the system's account and that of the control groups around the process). It is asked before memory is allocated:
// running out would end a process somewhere without a word. A nil memory allows everything.
type memory struct {
	subject string // of errors: the artifact
	limit   int64  // of --memory; 0: what is free
	free    int64  // at the start; negative where the system does not tell
	parts   []part
}

// part is what one thing takes, in bytes.
type part struct {
	what  string
	bytes int64
}

// newMemory looks at what is free now. Everything that is counted is allocated later.
func newMemory(subject string, limit int64) *memory {
	m := &memory{subject: subject, limit: limit, free: -1}
	if free, ok := freeMemory(); ok {
		m.free = free
	}
	return m
}

// need counts parts for good. The error is a *diag.Error with code device.ErrMemory.
func (m *memory) need(parts ...part) error {
	if m == nil {
		return nil
	}
	m.parts = append(m.parts, parts...)
	return m.fits()
}

// fits is need for parts that something else will count again.
func (m *memory) fits(parts ...part) error {
	if m == nil {
		return nil
	}
	total, texts := int64(0), []string{}
	for _, p := range slices.Concat(m.parts, parts) {
		if total += p.bytes; total < 0 {
			total = math.MaxInt64
		}
		if p.bytes > 0 {
			texts = append(texts, p.what+" "+cli.Size(p.bytes))
		}
	}
	tooMuch := func(what string, have int64) *diag.Error {
		return diag.New(device.ErrMemory, m.subject, "needs %s (%s); %s %s", cli.Size(total), strings.Join(texts, ", "), what, cli.Size(have))
	}
	switch {
	case m.limit > 0 && total > m.limit:
		return tooMuch("--memory allows", m.limit)
	case m.limit == 0 && m.free >= 0 && total > m.free:
		return tooMuch("free are", m.free).WithHint("--memory SIZE overrides this check")
	}
	return nil
}

// checkMemory counts what the programs need together, and compares what they need of the device with what it has.
func (h *host) checkMemory(progs []*program.Program) error {
	var arena, io, looks int64
	for _, p := range progs {
		arena, io, looks = arena+p.ArenaSize, io+p.IOSize, max(looks, h.debug.memory(p))
		if h.info.MaxAlloc > 0 && p.ArenaSize > h.info.MaxAlloc {
			return diag.New(device.ErrMemory, "arena of "+p.Method, "has %s; backend %s allows %s", cli.Size(p.ArenaSize), h.backend, cli.Size(h.info.MaxAlloc))
		}
	}
	// The host has its own copy of inputs and outputs, and both sides their own of the programs.
	structure := 2 * format.StructureMemory(h.model.structure, progs...)
	if err := h.memory.need(part{"arena", arena}, part{"inputs and outputs", 2 * io}, part{"weights", h.model.weights}, part{"structure", structure},
		part{"values of --check and --dump-tensors", looks}); err != nil {
		return err
	}
	if need, have := arena+io+h.model.weights, h.device.Memory; h.memory != nil && h.memory.limit == 0 && have > 0 && need > have {
		return diag.New(device.ErrMemory, h.model.path, "needs %s of device %s:%s, which has %s", cli.Size(need), h.backend, h.device.ID, cli.Size(have)).
			WithHint("--memory SIZE overrides this check")
	}
	return nil
}

// parseSize reads the value of --memory.
func parseSize(s string) (int64, error) {
	n, ok := units.ParseBytes(s)
	if !ok {
		return 0, cli.Usagef("--memory "+s, "is not a size such as 300M, 1.5G or 2Gi")
	}
	return n, nil
}
