//go:build linux

package shim

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/metal/msl"
	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// backend is a device.Backend over a Device, as simple as can be: it runs each step by itself, with one threadgroup dispatch for each of
// its shaders. Without a device it collects the kernels that programs need, and runs nothing.
type backend struct {
	dev     *Device
	numbers map[string]int // of kernels, by their WGSL
	most    int            // kernels to collect
	kernels []*msl.Kernel
	used    int64 // bytes of dev.Memory
	loaded  int   // executables and states in it
}

// errCollecting is the error of Load without a device, and for a kernel that was not collected.
var errCollecting = diag.New(device.ErrUnavailable, "shim", "kernels are collected, or this one was not")

// limits are those of an Apple GPU.
var limits = kernels.Limits{WorkgroupStorage: 32 << 10}

func (b *backend) Info(context.Context) (device.Info, error) {
	d := *kernels.Description()
	d.Name = "metal"
	return device.Info{Name: "metal", Version: "test", Target: &d, Devices: []device.Device{{ID: "shim", Name: "this processor", Type: "cpu", Memory: 1 << 28}}}, nil
}

// reserve finds n bytes of memory, aligned as pages are. All of it is free again once nothing is loaded.
func (b *backend) reserve(n int64) int64 {
	const page = 4096
	at := b.used
	b.used += (n + 2*page - 1) &^ (page - 1)
	if b.used > int64(len(b.dev.Memory)) {
		panic(fmt.Sprintf("BUG: shim: %d bytes of memory are too few", len(b.dev.Memory)))
	}
	clear(b.dev.Memory[at:b.used])
	return at
}

func (b *backend) free() {
	if b.loaded--; b.loaded == 0 {
		b.used = 0
	}
}

// NewState keeps a state where kernels can bind it.
func (b *backend) NewState(_ context.Context, _ string, size int64) (device.State, error) {
	b.loaded++
	at := b.reserve(size)
	return &state{device.NewHostState(b.dev.Memory[at:at+size:at+size], b.free), at}, nil
}

type state struct {
	*device.HostState
	at int64
}

// executable is a program whose spaces are in the device's memory.
type executable struct {
	b                      *backend
	p                      *program.Program
	weights, arena, io     int64
	scratch, status, param int64
	dispatches             []dispatch
	ops                    []device.Kernel
}

type dispatch struct {
	step   int
	shader kernels.Shader
	number int // of the kernel
}

func (b *backend) Load(_ context.Context, l device.Load) (device.Executable, error) {
	x := &executable{b: b, p: l.Program}
	var scratch int64
	var ops []string
	for i, s := range l.Program.Steps {
		n := l.Program.Graph.Nodes[s.Node]
		k, why := kernels.Find(n)
		if why != "" {
			return nil, diag.New(device.ErrUnsupported, n.Op.Name, "step %d: %s", i, why)
		}
		ops = append(ops, n.Op.Name)
		if k.Scratch != nil {
			scratch = max(scratch, k.Scratch(n, limits))
		}
		for _, shader := range k.Shaders(n, limits) {
			d := dispatch{step: i, shader: shader}
			var views []kernels.View
			for _, bind := range shader.Bindings {
				_, view := x.place(d, bind)
				views = append(views, view)
			}
			text, err := shader.Text(views)
			if err != nil {
				return nil, err
			}
			if d.number, err = b.number(text); err != nil {
				return nil, fmt.Errorf("%s: %w", n.Op.Name, err)
			}
			x.dispatches = append(x.dispatches, d)
		}
	}
	if b.dev == nil {
		return nil, errCollecting
	}
	slices.Sort(ops)
	for _, op := range slices.Compact(ops) {
		x.ops = append(x.ops, device.Kernel{Op: op, Native: true})
	}
	b.loaded++
	x.weights, x.arena, x.io = b.reserve(int64(len(l.Weights))), b.reserve(l.Program.ArenaSize), b.reserve(l.Program.IOSize)
	x.scratch, x.status, x.param = b.reserve(scratch), b.reserve(program.Align), b.reserve(4096)
	copy(b.dev.Memory[x.weights:], l.Weights)
	return x, nil
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

// place is where a binding begins, and how the shader sees it. Before Load has reserved memory only the view is valid.
func (x *executable) place(d dispatch, bind kernels.Binding) (int64, kernels.View) {
	whole := kernels.View{Windows: []kernels.Window{{}}}
	n := x.p.Graph.Nodes[x.p.Steps[d.step].Node]
	switch {
	case bind.Operand == kernels.Scratch:
		return x.scratch, whole
	case bind.Operand == kernels.Status:
		return x.status, whole
	case bind.Operand >= 0:
		n = n.In[bind.Operand]
	default:
		for k, r := range n.Values() {
			if kernels.Result(k) == bind.Operand {
				n = r
				break
			}
		}
	}
	pl := x.p.Places[n.ID]
	base := map[program.Space]int64{program.Weights: x.weights, program.Arena: x.arena, program.IO: x.io}[pl.Space]
	begin := pl.Offset &^ (program.Align - 1)
	whole.Skip = (pl.Offset - begin) / int64(bind.DType.Size())
	return base + begin, whole
}

func (x *executable) Kernels() []device.Kernel { return x.ops }
func (x *executable) Memory() int64            { return 0 }
func (x *executable) Close() error             { x.b.free(); return nil }

// mostGroups is the most threadgroups along x, so few that most grids have two dimensions.
const mostGroups = 7

func (x *executable) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	stats := device.Stats{FirstNaN: -1}
	bound, err := x.p.Bind(r.Syms)
	if err != nil {
		return stats, diag.New(device.ErrInput, x.p.Method, "%w", err)
	}
	start := time.Now()
	memory := x.b.dev.Memory
	io := memory[x.io : x.io+x.p.IOSize]
	copy(io, r.IO)
	for _, d := range x.dispatches {
		if ctx.Err() != nil {
			return stats, context.Cause(ctx)
		}
		s := bound.Steps[d.step]
		c := &kernels.Call{In: s.In, Out: s.Outs[0], Outs: s.Outs}
		params := d.shader.Params(c)
		if params == nil {
			continue
		}
		if want := fieldWords(d.shader.Fields); len(params) != want {
			return stats, fmt.Errorf("%s: %d words of parameters; want %d", d.shader.Name, len(params), want)
		}
		for i, v := range params {
			binary.LittleEndian.PutUint32(memory[x.param+4*int64(i):], v)
		}
		var offsets []int64
		for _, bind := range d.shader.Bindings {
			at, _ := x.place(d, bind)
			if p, ok := x.stateful(d, bind); ok {
				at = r.State.(*state).at + p.Offset&^(program.Align-1)
			}
			offsets = append(offsets, at)
		}
		clear(memory[x.status : x.status+4])
		n := d.shader.Groups(c)
		rows := (n + mostGroups - 1) / mostGroups
		if err := x.b.dev.Run(d.number, uint32((n+rows-1)/rows), uint32(rows), append(offsets, x.param)); err != nil {
			return stats, diag.New(device.ErrDevice, d.shader.Name, "%w", err)
		}
		if !bytes.Equal(memory[x.status:x.status+4], make([]byte, 4)) {
			return stats, diag.New(device.ErrInput, s.Node.Label(), "%s refuses a value", s.Node.Op.Name)
		}
	}
	for _, o := range bound.Outputs {
		copy(r.IO[o.Offset:o.Offset+o.Bytes], io[o.Offset:])
	}
	stats.Total = time.Since(start)
	return stats, nil
}

// stateful is the place of a binding in the run's state, if it is there.
func (x *executable) stateful(d dispatch, bind kernels.Binding) (program.Place, bool) {
	n := x.p.Graph.Nodes[x.p.Steps[d.step].Node]
	if bind.Operand >= 0 {
		n = n.In[bind.Operand]
	}
	pl := x.p.Places[n.ID]
	return pl, bind.Operand >= kernels.Out && pl.Space == program.State
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
