//go:build cgo && (darwin || amd64)

package backend

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// executable is a program on a device.
type executable struct {
	g       *gpu
	p       *program.Program
	kernels []device.Kernel

	weights, arena, io, scratch, status *space
	resident                            []interval // parts of the weights section that lie in weights
	params                              *wgpu.Buffer
	paramBytes                          int64
	up, down                            *staging
	clock                               *clock // made by the first run that is profiled
	dispatches                          []dispatch
	statuses                            int // slots in status

	b     *program.Bound // of the last run, whose parameters lie on the device
	syms  map[string]int64
	bound bool
	pace  time.Duration // of a dispatch, in the last plain run; 0: there was none
}

// dispatch is one start of a shader.
type dispatch struct {
	step     int
	shader   kernels.Shader
	pipeline *pipeline
	group    *wgpu.BindGroup
	at, size int64 // of its parameters, in the parameter buffer
	status   int   // slot in the status buffer, or -1

	x, y uint32 // workgroups under the sizes bound last; 0: nothing to do
}

// interval is a range of the weights section and where it lies on the device.
type interval struct{ from, to, at int64 }

// Load makes everything that runs of the program need.
func (b *Backend) Load(_ context.Context, l device.Load) (device.Executable, error) {
	g, err := b.open(l.Device)
	if err != nil {
		return nil, err
	}
	if l.Threads < 0 {
		return nil, diag.New(device.ErrInput, "wgpu", "%d threads; want 0 or more", l.Threads)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	x := &executable{g: g, p: l.Program}
	if err := x.load(l.Weights); err != nil {
		x.release()
		return nil, err
	}
	return x, nil
}

func (x *executable) load(weights []byte) error {
	var scratch int64
	names := map[string]bool{}
	for i, s := range x.p.Steps {
		n := x.p.Graph.Nodes[s.Node]
		k, ok := kernels.Find(n)
		if !ok {
			return diag.New(device.ErrUnsupported, n.Op.Name, "step %d, %s: the wgpu backend has no kernel for %v", i, n.Label(), n)
		}
		names[n.Op.Name] = true
		if k.Scratch != nil {
			scratch = max(scratch, k.Scratch(n))
		}
		for _, s := range k.Shaders(n, x.g.limits) {
			d := dispatch{step: i, shader: s, status: -1}
			if slices.ContainsFunc(s.Bindings, func(b kernels.Binding) bool { return b.Operand == kernels.Status }) {
				d.status = x.statuses
				x.statuses++
			}
			x.dispatches = append(x.dispatches, d)
		}
	}
	for name := range names {
		x.kernels = append(x.kernels, device.Kernel{Op: name, Native: true})
	}
	slices.SortFunc(x.kernels, func(a, b device.Kernel) int { return strings.Compare(a.Op, b.Op) })
	if err := x.allocate(weights, scratch); err != nil {
		return err
	}
	return x.prepare()
}

// allocate makes the buffers and uploads the weights that the program reads.
func (x *executable) allocate(weights []byte, scratch int64) (err error) {
	total := x.plan()
	var in, out int64
	for _, n := range x.p.Graph.Inputs() {
		in += program.AlignUp(x.p.Places[n.ID].Size)
	}
	for _, o := range x.p.Graph.Outputs {
		out += program.AlignUp(x.p.Places[o.Node.ID].Size)
	}
	out += int64(x.statuses) * program.Align
	if err := x.checkMemory(total, scratch, in+out); err != nil {
		return err
	}
	for _, s := range []struct {
		to    **space
		what  string
		bytes int64
	}{
		{&x.weights, "weights", total}, {&x.arena, "arena", x.p.ArenaSize}, {&x.io, "inputs and outputs", x.p.IOSize},
		{&x.scratch, "scratch", scratch}, {&x.status, "status", int64(x.statuses) * program.Align},
	} {
		if *s.to, err = x.g.newSpace(s.what, s.bytes); err != nil {
			return err
		}
	}
	for _, r := range x.resident {
		if err := x.g.upload(x.weights, r.at, weights[r.from:min(r.to, int64(len(weights)))]); err != nil {
			return err
		}
	}
	if len(x.resident) > 0 {
		x.g.queue.Submit()
		x.g.wait()
	}
	if x.up, err = x.g.newStaging(wgpu.MapMode_Write, in); err != nil {
		return err
	}
	x.down, err = x.g.newStaging(wgpu.MapMode_Read, out)
	return err
}

// driverMemory is what is left to the driver for pipelines, command buffers and the ends of its own blocks.
const driverMemory = 64 << 20

// checkMemory refuses a program that does not fit the memory that is free, before anything is uploaded.
func (x *executable) checkMemory(weights, scratch, staging int64) error {
	free := x.g.free()
	need := weights + x.p.ArenaSize + x.p.IOSize + scratch + staging + driverMemory
	if free == 0 || need <= free {
		return nil
	}
	var largest *ir.Node
	for _, n := range x.p.Graph.Nodes {
		if largest == nil || x.p.Places[n.ID].Size > x.p.Places[largest.ID].Size {
			largest = n
		}
	}
	return diag.New(device.ErrMemory, x.p.Method, "needs %s of the memory of %s (weights %s, arena %s, inputs and outputs %s, scratch %s, driver %s); free are %s; the largest tensor, %s, has %s",
		megabytes(need), x.g.name, megabytes(weights), megabytes(x.p.ArenaSize), megabytes(x.p.IOSize+staging), megabytes(scratch), megabytes(driverMemory),
		megabytes(free), largest.Label(), megabytes(x.p.Places[largest.ID].Size)).
		WithHint(memoryHint)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// plan lists the parts of the weights section that steps read, and their size on the device.
func (x *executable) plan() (total int64) {
	var used []interval
	for _, s := range x.p.Steps {
		for _, in := range x.p.Graph.Nodes[s.Node].In {
			if pl := x.p.Places[in.ID]; pl.Space == program.Weights {
				used = append(used, interval{from: pl.Offset &^ (program.Align - 1), to: pl.Offset + pl.Size})
			}
		}
	}
	slices.SortFunc(used, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	for _, r := range used {
		if k := len(x.resident) - 1; k >= 0 && r.from <= program.AlignUp(x.resident[k].to) {
			x.resident[k].to = max(x.resident[k].to, r.to)
		} else {
			x.resident = append(x.resident, r)
		}
	}
	for i := range x.resident {
		x.resident[i].at = total
		total += program.AlignUp(x.resident[i].to - x.resident[i].from)
	}
	return total
}

// locate finds a place on the device.
func (x *executable) locate(pl program.Place) (*space, int64) {
	switch pl.Space {
	case program.Arena:
		return x.arena, pl.Offset
	case program.IO:
		return x.io, pl.Offset
	}
	i, found := slices.BinarySearchFunc(x.resident, pl.Offset, func(r interval, off int64) int { return cmp.Compare(r.from, off) })
	if !found {
		i--
	}
	return x.weights, x.resident[i].at + pl.Offset - x.resident[i].from
}

// prepare compiles the shaders and makes the bind groups.
func (x *executable) prepare() error {
	var at int64
	for i := range x.dispatches {
		d := &x.dispatches[i]
		d.at, d.size = at, fieldBytes(d.shader.Fields)
		at += program.AlignUp(d.size)
	}
	x.paramBytes = max(at, program.Align)
	var err error
	if x.params, err = x.g.newBuffer("parameters", x.paramBytes, wgpu.BufferUsage_Storage|wgpu.BufferUsage_CopyDst); err != nil {
		return err
	}
	for i := range x.dispatches {
		if err := x.prepareOne(&x.dispatches[i]); err != nil {
			return err
		}
	}
	return nil
}

func (x *executable) prepareOne(d *dispatch) error {
	n := x.p.Graph.Nodes[x.p.Steps[d.step].Node]
	var entries []wgpu.BindGroupEntry
	views := make([]kernels.View, len(d.shader.Bindings))
	for i, b := range d.shader.Bindings {
		s, offset, bytes := x.operand(n, d, b)
		ps, v := x.g.view(s, offset, bytes, b.DType.Size())
		if b.Vec == 4 && v.Skip%4 != 0 {
			return fmt.Errorf("BUG: wgpu: vectors at element %d of a binding of %v", v.Skip, n)
		}
		views[i] = v
		for _, p := range ps {
			entries = append(entries, wgpu.BindGroupEntry{Binding: uint32(len(entries)), Buffer: p.buffer, Offset: uint64(p.offset), Size: uint64(p.size)})
		}
	}
	entries = append(entries, wgpu.BindGroupEntry{Binding: uint32(len(entries)), Buffer: x.params, Offset: uint64(d.at), Size: uint64(d.size)})
	if len(entries) > x.g.limits.StorageBuffers {
		return diag.New(device.ErrUnsupported, n.Op.Name, "step %d, %s: needs %d bindings; %s has %d", d.step, n.Label(), len(entries), x.g.name, x.g.limits.StorageBuffers)
	}
	text, err := d.shader.Text(views)
	if err == nil {
		d.pipeline, err = x.g.compile(d.shader.Name, text, len(entries))
	}
	if err == nil {
		d.group, err = x.g.device.CreateBindGroup(&wgpu.BindGroupDescriptor{Label: n.Label(), Layout: d.pipeline.layout, Entries: entries})
	}
	if err != nil {
		return diag.New(device.ErrDevice, n.Label(), "step %d (%s) cannot be prepared: %w", d.step, n.Op.Name, oneLine(err))
	}
	return nil
}

// operand is where a binding's bytes lie, at the symbols' upper bounds.
func (x *executable) operand(n *ir.Node, d *dispatch, b kernels.Binding) (s *space, offset, bytes int64) {
	switch b.Operand {
	case kernels.Scratch:
		k, _ := kernels.Find(n)
		return x.scratch, 0, k.Scratch(n)
	case kernels.Status:
		return x.status, int64(d.status) * program.Align, 4
	}
	node := n
	if b.Operand != kernels.Out {
		node = n.In[b.Operand]
	}
	pl := x.p.Places[node.ID]
	s, offset = x.locate(pl)
	return s, offset, pl.Size
}

// fieldBytes is the size of a parameter struct.
func fieldBytes(fields []string) int64 {
	n := int64(0)
	for _, f := range fields {
		count := int64(1)
		if _, typ, ok := strings.Cut(f, ":"); ok && typ != "f32" {
			fmt.Sscan(typ, &count)
		}
		n += 4 * count
	}
	return max(n, 4)
}

// memory is the sum of the program's buffers, in bytes, those included through which values travel.
func (x *executable) memory() int64 {
	n := x.paramBytes + x.clock.bytes()
	for _, s := range []*space{x.weights, x.arena, x.io, x.scratch, x.status} {
		n += s.bytes
	}
	return n + x.up.size + x.down.size
}

// Kernels reports the ops of the program; all run on the device.
func (x *executable) Kernels() []device.Kernel { return x.kernels }

// Close frees the program's memory on the device.
func (x *executable) Close() error {
	x.g.mu.Lock()
	defer x.g.mu.Unlock()
	x.release()
	return nil
}

func (x *executable) release() {
	for _, d := range x.dispatches {
		if d.group != nil {
			d.group.Release()
		}
	}
	x.dispatches = nil
	if x.params != nil {
		x.params.Destroy()
		x.params.Release()
		x.params = nil
	}
	for _, s := range []**space{&x.weights, &x.arena, &x.io, &x.scratch, &x.status} {
		(*s).release()
		*s = nil
	}
	x.up.release()
	x.down.release()
	x.clock.release()
	x.up, x.down, x.clock = nil, nil, nil
}
