//go:build cgo && (darwin || amd64)

package backend

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"
	"golang.org/x/sync/errgroup"

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
	up, down                            *staging
	paramBytes, scratchBytes            int64
	upBytes, downBytes                  int64
	clock                               *clock // made by the first run that is profiled
	dispatches                          []dispatch
	statuses                            int // slots in status

	tape  *tape          // of the next run, if it has the sizes of the last one; nil: not recorded yet
	b     *program.Bound // of the last run, whose parameters lie on the device
	syms  map[string]int64
	bound bool
	pace  time.Duration // of a dispatch, in the last plain run; 0: there was none
}

// dispatch is one start of a shader.
type dispatch struct {
	step     int
	node     *ir.Node
	shader   kernels.Shader
	source   source
	pipeline *pipeline
	group    *wgpu.BindGroup
	at, size int64 // of its parameters, in the parameter buffer
	status   int   // slot in the status buffer, or -1

	x, y uint32 // workgroups under the sizes bound last; 0: nothing to do
}

// interval is a range of the weights section and where it lies on the device.
type interval struct{ from, to, at int64 }

// Load makes everything that runs of the program need.
func (b *Backend) Load(_ context.Context, l device.Load) (exe device.Executable, err error) {
	if l.Threads < 0 {
		return nil, diag.New(device.ErrInput, "wgpu", "%d threads; want 0 or more", l.Threads)
	}
	return exe, guard(func() error {
		g, err := b.begin(l.Device)
		if err != nil {
			return err
		}
		x := &executable{g: g, p: l.Program}
		if err := x.load(l.Weights); err != nil {
			return err
		}
		exe = x
		return nil
	})
}

// load makes a plan, for which the device need not be open yet, and then what it says.
func (x *executable) load(weights []byte) (err error) {
	if err := x.plan(); err != nil {
		return err
	}
	if err := x.g.ready(); err != nil {
		return err
	}
	x.g.mu.Lock()
	defer x.g.mu.Unlock()
	defer keepCallbacks()()
	defer func() {
		if err != nil {
			x.release()
		}
	}()
	if err := x.checkMemory(); err != nil {
		return err
	}
	allocated, uploaded := make(chan error, 1), make(chan error, 1)
	go func() {
		err := x.allocate()
		allocated <- err
		if err == nil {
			err = x.upload(weights)
		}
		uploaded <- err
	}()
	err = x.compile()
	err = cmp.Or(<-allocated, err)
	if err == nil {
		err = x.bindAll()
	}
	return cmp.Or(err, <-uploaded)
}

// plan chooses the shaders, lays the memory out and writes the shaders' texts.
func (x *executable) plan() error {
	names := map[string]bool{}
	for i, s := range x.p.Steps {
		n := x.p.Graph.Nodes[s.Node]
		k, ok := kernels.Find(n)
		if !ok {
			return diag.New(device.ErrUnsupported, n.Op.Name, "step %d, %s: the wgpu backend has no kernel for %v", i, n.Label(), n)
		}
		names[n.Op.Name] = true
		if k.Scratch != nil {
			x.scratchBytes = max(x.scratchBytes, k.Scratch(n))
		}
		for _, s := range k.Shaders(n, x.g.limits) {
			d := dispatch{step: i, node: n, shader: s, status: -1}
			if slices.ContainsFunc(s.Bindings, func(b kernels.Binding) bool { return b.Operand == kernels.Status }) {
				d.status = x.statuses
				x.statuses++
			}
			d.at, d.size = x.paramBytes, fieldBytes(s.Fields)
			x.paramBytes += program.AlignUp(d.size)
			x.dispatches = append(x.dispatches, d)
		}
	}
	x.paramBytes = max(x.paramBytes, program.Align)
	for name := range names {
		x.kernels = append(x.kernels, device.Kernel{Op: name, Native: true})
	}
	slices.SortFunc(x.kernels, func(a, b device.Kernel) int { return strings.Compare(a.Op, b.Op) })
	for _, n := range x.p.Graph.Inputs() {
		x.upBytes += program.AlignUp(x.p.Places[n.ID].Size)
	}
	for _, o := range x.p.Graph.Outputs {
		x.downBytes += program.AlignUp(x.p.Places[o.Node.ID].Size)
	}
	x.downBytes += int64(x.statuses) * program.Align
	x.weights = x.g.planSpace(x.planWeights())
	x.arena, x.io = x.g.planSpace(x.p.ArenaSize), x.g.planSpace(x.p.IOSize)
	x.scratch, x.status = x.g.planSpace(x.scratchBytes), x.g.planSpace(int64(x.statuses)*program.Align)
	return x.planTexts()
}

// allocate makes the buffers.
func (x *executable) allocate() (err error) {
	for _, s := range []struct {
		*space
		what string
	}{{x.weights, "weights"}, {x.arena, "arena"}, {x.io, "inputs and outputs"}, {x.scratch, "scratch"}, {x.status, "status"}} {
		if err := s.make(x.g, s.what); err != nil {
			return err
		}
	}
	if x.params, err = x.g.newBuffer("parameters", x.paramBytes, wgpu.BufferUsage_Storage|wgpu.BufferUsage_CopyDst); err != nil {
		return err
	}
	if x.up, err = x.g.newStaging(wgpu.MapMode_Write, x.upBytes); err != nil {
		return err
	}
	x.down, err = x.g.newStaging(wgpu.MapMode_Read, x.downBytes)
	return err
}

// upload copies the weights that the program reads.
func (x *executable) upload(weights []byte) (err error) {
	u := &x.g.uploader
	for _, r := range x.resident {
		if err == nil {
			err = u.write(x.weights, r.at, weights[r.from:min(r.to, int64(len(weights)))])
		}
	}
	return cmp.Or(u.wait(), err)
}

// driverMemory is what is left to the driver for pipelines, command buffers and the ends of its own blocks.
const driverMemory = 64 << 20

// checkMemory refuses a program that does not fit the memory that is free, before anything is uploaded.
func (x *executable) checkMemory() error {
	free, staging := x.g.free(), x.upBytes+x.downBytes
	need := x.weights.bytes + x.p.ArenaSize + x.p.IOSize + x.scratchBytes + staging + driverMemory
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
		megabytes(need), x.g.name, megabytes(x.weights.bytes), megabytes(x.p.ArenaSize), megabytes(x.p.IOSize+staging), megabytes(x.scratchBytes), megabytes(driverMemory),
		megabytes(free), largest.Label(), megabytes(x.p.Places[largest.ID].Size)).
		WithHint(memoryHint)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// planWeights lists the parts of the weights section that steps read, and gives their size on the device.
func (x *executable) planWeights() (total int64) {
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

// bindings are what a dispatch's shader sees, one for each of its operands, and all of them cut into pieces.
func (x *executable) bindings(d *dispatch) (views []kernels.View, pieces []piece, err error) {
	for _, b := range d.shader.Bindings {
		s, offset, bytes := x.operand(d, b)
		ps, v := x.g.view(s, offset, bytes, b.DType.Size())
		if b.Vec == 4 && v.Skip%4 != 0 {
			return nil, nil, fmt.Errorf("BUG: wgpu: vectors at element %d of a binding of %v", v.Skip, d.node)
		}
		views, pieces = append(views, v), append(pieces, ps...)
	}
	return views, pieces, nil
}

// planTexts writes the WGSL of all dispatches, on all cores. There are hundreds, and few that differ.
func (x *executable) planTexts() error {
	type written struct {
		once sync.Once
		text string
		err  error
	}
	type key struct{ name, body, rest string } // what a text is made of
	var texts sync.Map                         // of *written, by key
	var e errgroup.Group
	e.SetLimit(runtime.GOMAXPROCS(0))
	for i := range x.dispatches {
		d := &x.dispatches[i]
		e.Go(func() error {
			views, pieces, err := x.bindings(d)
			if err != nil {
				return err
			}
			n := len(pieces) + 1
			if n > x.g.limits.StorageBuffers {
				return diag.New(device.ErrUnsupported, d.node.Op.Name, "step %d, %s: needs %d bindings; %s has %d", d.step, d.node.Label(), n, x.g.name, x.g.limits.StorageBuffers)
			}
			s := d.shader
			found, _ := texts.LoadOrStore(key{s.Name, s.Body, fmt.Sprintf("%#v", []any{s.Bindings, s.Consts, s.Fields, views})}, &written{})
			w := found.(*written)
			w.once.Do(func() { w.text, w.err = s.Text(views) })
			if w.err != nil {
				return x.unprepared(d, w.err)
			}
			d.source = source{s.Name, w.text, n}
			return nil
		})
	}
	return e.Wait()
}

// bindAll makes the bind groups.
func (x *executable) bindAll() error {
	for i := range x.dispatches {
		d := &x.dispatches[i]
		_, pieces, err := x.bindings(d)
		if err != nil {
			return err
		}
		pieces = append(pieces, piece{x.params, d.at, d.size})
		var entries []wgpu.BindGroupEntry
		for i, p := range pieces {
			entries = append(entries, wgpu.BindGroupEntry{Binding: uint32(i), Buffer: p.buffer, Offset: uint64(p.offset), Size: uint64(p.size)})
		}
		x.g.calls.Lock()
		d.group, err = x.g.device.CreateBindGroup(&wgpu.BindGroupDescriptor{Label: d.node.Label(), Layout: d.pipeline.layout, Entries: entries})
		x.g.calls.Unlock()
		if err != nil {
			return x.unprepared(d, err)
		}
	}
	return nil
}

func (x *executable) unprepared(d *dispatch, err error) error {
	return diag.New(device.ErrDevice, d.node.Label(), "step %d (%s) cannot be prepared: %w", d.step, d.node.Op.Name, oneLine(err))
}

// operand is where a binding's bytes lie, at the symbols' upper bounds.
func (x *executable) operand(d *dispatch, b kernels.Binding) (s *space, offset, bytes int64) {
	n := d.node
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
	return guard(func() error {
		x.g.mu.Lock()
		defer x.g.mu.Unlock()
		x.release()
		return nil
	})
}

func (x *executable) release() {
	x.tape.release()
	x.tape = nil
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
