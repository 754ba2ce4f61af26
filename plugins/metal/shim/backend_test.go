//go:build linux

package shim

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/metal/msl"
	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// backend is a device.Backend over a Device, as simple as can be: one dispatch after the other, and the host waits for each. Without a device it
// collects the kernels that programs need, and runs nothing.
type backend struct {
	mu      sync.Mutex
	dev     *Device
	numbers map[string]int // of kernels, by their WGSL
	most    int            // kernels to collect
	kernels []*msl.Kernel
	used    int64 // bytes of dev.Memory
	loaded  int   // executables and states in it
}

// errCollecting is the error of a run without a device, and of Load for a kernel that was not collected.
var errCollecting = diag.New(device.ErrUnavailable, "shim", "kernels are collected, or this one was not")

// limits are those of an Apple GPU.
var limits = kernels.Limits{WorkgroupStorage: 32 << 10}

func (b *backend) Info(context.Context) (device.Info, error) {
	d := *kernels.Description()
	d.Name = "metal"
	return device.Info{Name: d.Name, Version: d.Version, Target: &d, Devices: []device.Device{{ID: "0", Name: "shim", Type: "cpu", Memory: 1 << 28}}}, nil
}

// reserve finds n bytes of memory, aligned as pages are. All of it is free again once nothing is loaded.
func (b *backend) reserve(n int64) (at int64) {
	const page = 4096
	at = b.used
	b.used += (n + 2*page - 1) &^ (page - 1)
	if b.used > int64(len(b.dev.Memory)) {
		panic(fmt.Sprintf("BUG: shim: %d bytes of memory are too few", len(b.dev.Memory)))
	}
	clear(b.dev.Memory[at:b.used])
	b.loaded++
	return at
}

func (b *backend) free(reserved int) {
	if b.dev == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loaded -= reserved; b.loaded == 0 {
		b.used = 0
	}
}

// NewState keeps a state in the memory of the device. What follows it there stays in the capacity of its bytes, which tells their offset.
func (b *backend) NewState(_ context.Context, id string, size int64) (device.State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dev == nil {
		return device.NewHostState(make([]byte, size), nil), nil
	}
	at := b.reserve(size)
	return device.NewHostState(b.dev.Memory[at:at+size], func() { b.free(1) }), nil
}

func (b *backend) stateOffset(s device.State) int64 {
	return int64(cap(b.dev.Memory) - cap(device.HostBytes(s)))
}

// executable is a program whose spaces are in the device's memory.
type executable struct {
	b                                          *backend
	p                                          *program.Program
	weights, arena, io, scratch, status, param int64
	dispatches                                 []dispatch
	ops                                        []device.Kernel
}

// spaces is how often an executable reserves memory.
const spaces = 6

// dispatch is one start of a kernel.
type dispatch struct {
	steps  []*ir.Node // whose operands it binds: one, or those of a group
	last   int        // the last of them in the program
	group  int        // that this is, or that may run in its place; -1 for none
	shader kernels.Shader
	number int // of the kernel
}

func (b *backend) Load(_ context.Context, l device.Load) (device.Executable, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.Device != "" && l.Device != "0" {
		return nil, diag.New(device.ErrUnavailable, "shim", "device %q; there is only 0", l.Device)
	}
	x := &executable{b: b, p: l.Program}
	var nodes []*ir.Node
	var found []kernels.Kernel
	var scratch int64
	for i, s := range l.Program.Steps {
		n := l.Program.Graph.Nodes[s.Node]
		k, why := kernels.Find(n)
		if why != "" {
			return nil, diag.New(device.ErrUnsupported, n.Op.Name, "step %d: %s", i, why)
		}
		nodes, found = append(nodes, n), append(found, k)
		if k.Scratch != nil {
			scratch = max(scratch, k.Scratch(n, limits))
		}
		if op := (device.Kernel{Op: n.Op.Name, Native: true}); !slices.Contains(x.ops, op) {
			x.ops = append(x.ops, op)
		}
	}
	uses := l.Program.Graph.UseCounts()
	for i, groups := 0, 0; i < len(nodes); {
		g, ok := kernels.FindGroup(nodes[i:min(i+8, len(nodes))], uses, limits)
		ok = ok && x.apart(nodes[i:], g)
		steps, group := 1, -1
		if ok {
			steps, group = g.Steps, groups
			groups++
		}
		first := i
		for ; i < first+steps; i++ {
			for _, s := range found[i].Shaders(nodes[i], limits) {
				if err := x.add(dispatch{steps: nodes[i : i+1], last: i, group: group, shader: s}); err != nil {
					return nil, err
				}
			}
		}
		if ok {
			if err := x.add(dispatch{steps: nodes[first:i], last: i - 1, group: group, shader: g.Shader}); err != nil {
				return nil, err
			}
		}
	}
	if b.dev == nil {
		return x, nil
	}
	x.weights, x.arena, x.io = b.reserve(int64(len(l.Weights))), b.reserve(l.Program.ArenaSize), b.reserve(l.Program.IOSize)
	x.scratch, x.status, x.param = b.reserve(scratch), b.reserve(program.Align), b.reserve(4096)
	copy(b.dev.Memory[x.weights:], l.Weights)
	return x, nil
}

// apart reports whether nothing that a group writes lies where it reads.
func (x *executable) apart(nodes []*ir.Node, g kernels.Group) bool {
	d := dispatch{steps: nodes[:g.Steps]}
	for i, b := range g.Shader.Bindings {
		for _, other := range g.Shader.Bindings[:i] {
			n, o := d.operand(b), d.operand(other)
			if n != nil && o != nil && n != o && (b.Operand < 0 || other.Operand < 0) && x.p.Places[n.ID].Overlaps(x.p.Places[o.ID]) {
				return false
			}
		}
	}
	return true
}

// add plans a dispatch after those before, whose kernel it finds.
func (x *executable) add(d dispatch) error {
	var views []kernels.View
	for _, bind := range d.shader.Bindings {
		_, view := x.place(&d, bind, nil)
		views = append(views, view)
	}
	text, err := d.shader.Text(views)
	if err == nil {
		d.number, err = x.b.number(text)
	}
	x.dispatches = append(x.dispatches, d)
	return err
}

// number is the kernel of a WGSL text.
func (b *backend) number(wgsl string) (int, error) {
	if n, ok := b.numbers[wgsl]; ok {
		return n, nil
	}
	if b.dev != nil || len(b.kernels) >= b.most {
		return 0, errCollecting
	}
	k, err := msl.Translate(wgsl)
	if err != nil {
		return 0, fmt.Errorf("%w, of\n%s", err, wgsl)
	}
	b.kernels = append(b.kernels, k)
	b.numbers[wgsl] = len(b.kernels) - 1
	return len(b.kernels) - 1, nil
}

// operand is the node whose value is bound, nil if no value is.
func (d *dispatch) operand(bind kernels.Binding) *ir.Node {
	n := d.steps[bind.Of]
	if bind.Operand >= 0 {
		return n.In[bind.Operand]
	}
	for k, r := range n.Values() {
		if kernels.Result(k) == bind.Operand {
			return r
		}
	}
	return nil
}

// place is what a binding binds, and how the shader sees it. Only the view is known before memory is reserved.
func (x *executable) place(d *dispatch, bind kernels.Binding, s device.State) (Buffer, kernels.View) {
	view := kernels.View{Windows: []kernels.Window{{}}}
	switch bind.Operand {
	case kernels.Scratch:
		n := d.steps[len(d.steps)-1]
		k, _ := kernels.Find(n)
		return Buffer{x.scratch, vectors(k.Scratch(n, limits))}, view
	case kernels.Status:
		return Buffer{x.status, vectors(4)}, view
	}
	pl := x.p.Places[d.operand(bind).ID]
	begin := pl.Offset &^ (program.Align - 1)
	view.Skip = (pl.Offset - begin) / int64(bind.DType.Size())
	bytes := vectors(pl.Size + pl.Offset - begin)
	switch pl.Space {
	case program.Weights:
		begin += x.weights
	case program.Arena:
		begin += x.arena
	case program.IO:
		begin += x.io
	case program.State:
		if s != nil {
			begin += x.b.stateOffset(s)
		}
	}
	return Buffer{begin, bytes}, view
}

// vectors is a size in bytes that is one of whole vectors, and at least one.
func vectors(bytes int64) uint32 { return uint32(max(bytes, 1)+15) &^ 15 }

func (x *executable) Kernels() []device.Kernel { return x.ops }
func (x *executable) Memory() int64            { return 0 }
func (x *executable) Close() error             { x.b.free(spaces); return nil }

func (x *executable) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	x.b.mu.Lock()
	defer x.b.mu.Unlock()
	stats, start := device.Stats{FirstNaN: -1}, time.Now()
	if x.b.dev == nil {
		return stats, errCollecting
	}
	b, err := x.p.Bind(r.Syms)
	if err != nil {
		return stats, diag.New(device.ErrInput, x.p.Method, "%w", err)
	}
	if int64(len(r.IO)) < x.p.IOSize {
		return stats, diag.New(device.ErrInput, x.p.Method, "%d bytes of inputs and outputs; want %d", len(r.IO), x.p.IOSize)
	}
	if err := r.CheckState(x.p, b.Inputs, b.Outputs); err != nil {
		return stats, err
	}
	memory := x.b.dev.Memory
	io := memory[x.io : x.io+x.p.IOSize]
	copy(io, r.IO)
	value := func(all []program.Operand) func(i int) []byte {
		return func(i int) []byte { return io[all[i].Offset : all[i].Offset+all[i].Bytes] }
	}
	if err := r.CopyFeeds(value(b.Inputs)); err != nil {
		return stats, err
	}
	needed := x.p.Needed(r.Computed(), r.Opts.Dump)
	whole := needed == nil && !r.Opts.CheckNaN && r.Opts.Observe == nil && !r.Opts.Profile // else single steps are looked at
	instead := map[int]bool{}                                                              // groups that run in place of their steps
	for i := range x.dispatches {
		if d := &x.dispatches[i]; len(d.steps) > 1 && whole && d.shader.Params(d.call(b)) != nil {
			instead[d.group] = true
		}
	}
	next := 0
	for i, s := range b.Steps {
		if ctx.Err() != nil {
			return stats, context.Cause(ctx)
		}
		skip := needed != nil && !needed[i]
		if r.Progress != nil && !skip {
			r.Progress(i)
		}
		begin := time.Since(start)
		for ; next < len(x.dispatches) && x.dispatches[next].last == i; next++ {
			d := &x.dispatches[next]
			if skip || d.group >= 0 && instead[d.group] != (len(d.steps) > 1) {
				continue
			}
			if err := x.dispatch(d, d.call(b), r.State); err != nil {
				return stats, err
			}
		}
		if skip {
			continue
		}
		if r.Opts.Profile {
			stats.Steps = append(stats.Steps, device.Step{Node: s.Node.ID, Start: begin, Time: time.Since(start) - begin})
		}
		if err := x.look(s, r, &stats); err != nil {
			return stats, err
		}
	}
	if err := r.CopyKeeps(value(b.Outputs)); err != nil {
		return stats, err
	}
	for i, o := range b.Outputs {
		if r.Wants(i) {
			copy(r.IO[o.Offset:o.Offset+o.Bytes], io[o.Offset:])
		}
	}
	if r.Progress != nil {
		r.Progress(len(b.Steps))
	}
	stats.Total = time.Since(start)
	return stats, nil
}

// look passes the results of a step to the observer and searches them for NaN, where the run asks for it.
func (x *executable) look(s program.BoundStep, r device.Run, stats *device.Stats) error {
	for _, out := range s.Outs {
		d := &dispatch{steps: []*ir.Node{x.p.Graph.Nodes[out.Node]}}
		from, view := x.place(d, kernels.Binding{Operand: kernels.Out, DType: out.DType}, r.State)
		at := from.Offset + view.Skip*int64(out.DType.Size())
		t := tensor.Tensor{DType: out.DType, Shape: out.Shape, Data: x.b.dev.Memory[at : at+out.Bytes]}
		if r.Opts.Observe != nil && slices.Contains(r.Opts.Dump, out.Node) {
			if err := r.Opts.Observe(out.Node, out.Shape, t.Data); err != nil {
				return err
			}
		}
		if r.Opts.CheckNaN && t.HasNaN() {
			stats.FirstNaN = out.Node
			return diag.New(device.ErrNaN, x.p.Graph.Nodes[out.Node].Label(), "%s produced a NaN", s.Node.Op.Name)
		}
	}
	return nil
}

// call has the sizes of a dispatch.
func (d *dispatch) call(b *program.Bound) *kernels.Call {
	var calls []*kernels.Call
	for i := range d.steps {
		s := b.Steps[d.last+1-len(d.steps)+i]
		calls = append(calls, &kernels.Call{In: s.In, Out: s.Outs[0], Outs: s.Outs})
	}
	calls[0].Group = calls
	return calls[0]
}

// mostGroups is the most threadgroups along x, so few that most grids have two dimensions.
const mostGroups = 7

func (x *executable) dispatch(d *dispatch, c *kernels.Call, s device.State) error {
	params, memory := d.shader.Params(c), x.b.dev.Memory
	if params == nil {
		return nil
	}
	n := d.steps[len(d.steps)-1]
	if want := fieldWords(d.shader.Fields); len(params) != want {
		return diag.New(diag.Internal, n.Label(), "%s: %d words of parameters; want %d", d.shader.Name, len(params), want)
	}
	for i, v := range params {
		binary.LittleEndian.PutUint32(memory[x.param+4*int64(i):], v)
	}
	var buffers []Buffer
	for _, bind := range d.shader.Bindings {
		b, _ := x.place(d, bind, s)
		buffers = append(buffers, b)
	}
	buffers = append(buffers, Buffer{x.param, uint32(4 * len(params))})
	status := memory[x.status : x.status+4]
	clear(status)
	groups := d.shader.Groups(c)
	rows := (groups + mostGroups - 1) / mostGroups
	if err := x.b.dev.Run(d.number, uint32((groups+rows-1)/rows), uint32(rows), buffers...); err != nil {
		return diag.New(device.ErrDevice, n.Label(), "%s: %w", n.Op.Name, err)
	}
	if binary.LittleEndian.Uint32(status) != 0 {
		return diag.New(device.ErrInput, n.Label(), "%s refuses a value", n.Op.Name)
	}
	return nil
}

// fieldWords is the size of a parameter struct.
func fieldWords(fields []string) (n int) {
	for _, f := range fields {
		count := 1
		if _, typ, ok := strings.Cut(f, ":"); ok && typ != "f32" {
			fmt.Sscan(typ, &count)
		}
		n += count
	}
	return n
}
