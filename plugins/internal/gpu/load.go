package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// executable is a loaded program.
type executable struct {
	gpu     *gpu
	program *program.Program
	limits  kernels.Limits // those of the device, with the precision of the load
	kernels []device.Kernel

	arena, io, scratch, status *space
	kept                       *space        // what shaders make of weights, see kernels.Kept
	keptAt                     map[int]int64 // where that of a node begins
	keptBytes                  int64
	rounded                    rounded
	section                    []byte     // the weights section; nil once it is uploaded
	mapped                     bool       // device.Load.Mapped
	hostIO                     []byte     // device.Load.IO
	resident                   []interval // ranges of the weights section that the program reads
	weights                    []*space   // memory for these ranges
	passing                    passing    // ranges that are only read for kept
	state                      *space     // state that is bound to the stateful dispatches; nil if no state is bound
	stateShape                 *space     // a space without buffers that is divided like a state
	params                     Buffer     // parameters of all dispatches
	early                      early
	pinned                     Buffer     // hostIO, if the device copies from and to it; nil to use up and down
	up                         *staging   // for inputs
	down                       []*staging // for results; all but the last have chunk bytes
	upAt                       []int64    // offset of each input in up
	paramBytes, scratchBytes   int64
	upBytes, downBytes, chunk  int64
	clock                      Clock // made by the first profiled run
	dispatches                 []dispatch
	loops                      []*loop // by step
	// slots in status, one for each dispatch that can refuse values and for the control of each loop, also in loops
	statuses int
	unclear  bool // status may hold nonzero words
	groups   int  // number of groups of dispatches, see dispatch.group

	// A loop's program has a region of the arena of its root, the executable of the loaded program. It shares the
	// root's weights, scratch memory and status slots. Its offsets of the arena and of the IO space are offsets in the
	// root's arena.
	root          *executable // nil if the program was loaded
	arenaAt, ioAt int64
	control       int        // slot of the control of the loop that the program belongs to
	grouped       []bool     // which groups run as one, for the last sizes
	snaps         []*staging // for the status slots while a loop runs

	tape   *tape          // recording of the next run, for the sizes of the last one; nil if nothing is recorded
	tapes  []*tape        // those of other sizes and outputs, the last used first
	sizes  *sizes         // those of bound
	bound  *program.Bound // sizes for which the parameters on the device were computed; nil before the first run
	syms   map[string]int64
	recent program.Recent[*sizes]
	binder *program.Binder // made by the first bind
	pace   time.Duration   // average time of a dispatch in the last plain run of any sizes; 0 before the first
}

// dispatch is one execution of a shader. It runs a step, a part of a step, or a group of consecutive steps. The
// dispatches of a group's single steps are kept, for runs in which the group cannot be used.
type dispatch struct {
	step     int      // index of the step, or of the last step of a group
	node     *ir.Node // the node of step
	shader   kernels.Shader
	source   Source
	pipeline Pipeline
	bound    Bindings
	at, size int64 // range of its parameters in the parameter buffer
	status   int   // slot in the status buffer, or -1
	stateful bool  // the shader accesses the state, so bound is made when a run names the state

	// memory of each binding, in place of the operands and results of node; only for shaders of loops
	memory []memory

	steps []*ir.Node // nodes of the steps that the shader runs as a group; nil if it is for a single step
	group int        // number of the group that the dispatch belongs to, or -1

	x, y uint32 // workgroups for the last sizes; 0 if there is nothing to do
}

// Load plans the program, compiles its shaders and uploads its weights.
func (b *Backend) Load(_ context.Context, l device.Load) (device.Executable, error) {
	if l.Threads < 0 {
		return nil, diag.New(device.ErrInput, b.api.Name(), "%d threads; want 0 or more", l.Threads)
	}
	return guard(b.api, func() (device.Executable, error) {
		g, err := b.begin(l.Device)
		if err != nil {
			return nil, err
		}
		if err := b.refuse(l.Program); err != nil {
			return nil, err
		}
		limits := g.limits.Kernels
		switch p := l.Precision; {
		case p == "" || p == device.DefaultPrecision:
		case slices.Contains(g.limits.Precisions, p):
			limits.Precision = p
		default:
			return nil, diag.New(device.ErrUnsupported, b.api.Name(), "%s does not compute in %s", g.name, p).
				WithHint("run with --precision f32")
		}
		for {
			x := &executable{gpu: g, program: l.Program, limits: limits, section: l.Weights, mapped: l.Mapped,
				hostIO: l.IO}
			err := x.load()
			if errors.Is(err, device.ErrMemory) && x.keptBytes > 0 {
				limits.Keeps = false
				continue
			}
			if err != nil {
				return nil, err
			}
			return x, nil
		}
	})
}

// load plans the program, and begins to compile it, while the device may still be opening. Then goroutines of their own
// upload weights and pin memory of the host while this one compiles. The shaders that read nothing but weights run
// while the first run is prepared.
func (x *executable) load() (err error) {
	end := Phase("plan")
	if err := x.plan(); err != nil {
		return err
	}
	end()
	x.translate()
	end = Phase("wait for the device")
	if err := x.gpu.ready(); err != nil {
		return err
	}
	end()
	x.gpu.mu.Lock()
	defer x.gpu.mu.Unlock()
	defer x.gpu.dev.Use()()
	defer func() {
		if err != nil {
			x.release()
		}
	}()
	if err := x.checkMemory(); err != nil {
		return err
	}
	allocated, uploaded, pinned := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		err := x.allocate()
		allocated <- err
		if err != nil {
			uploaded <- nil
			pinned <- nil
			return
		}
		go func() { pinned <- x.pin() }()
		uploaded <- x.upload()
	}()
	err = x.compile()
	if err = cmp.Or(<-allocated, err); err == nil {
		err = x.bindAll()
	}
	if err == nil {
		x.gpu.dev.Exclusive(func() { _ = x.bind(x.program.Graph.Syms.Min()) }) // the run reports the error
	}
	loaded, bound := err, x.bound != nil
	kept := make(chan error, 1)
	go func() {
		err := <-uploaded
		if err == nil && loaded == nil {
			err = x.makeKept(x.section, nil)
		}
		kept <- err
	}()
	if err = cmp.Or(err, <-pinned); err == nil && bound {
		x.prepareFirstRun()
	}
	if err = cmp.Or(err, <-kept); err != nil {
		return err
	}
	x.section = nil
	return nil
}

// prepareFirstRun records the first run, for the sizes that are bound: the smallest, which are the only sizes of most
// programs. It does not if the program has a state, because that is not known yet. If this fails, the run reports the
// error.
func (x *executable) prepareFirstRun() {
	defer Phase("prepare the first run")()
	x.gpu.dev.Exclusive(func() {
		if x.program.StateSize == 0 && len(x.loops) == 0 {
			x.tape, _ = x.record(nil)
		}
	})
}

// allocate makes the buffers of the program on the device.
func (x *executable) allocate() (err error) {
	defer caught(&err)
	defer Phase("allocate")()
	for _, s := range x.weights {
		if err := s.make(x.gpu, "weights"); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		*space
		what string
	}{{x.arena, "arena"}, {x.io, "inputs and outputs"}, {x.scratch, "scratch"}, {x.kept, "rounded weights"},
		{x.rounded.space, "rounded values"}, {x.status, "status"}, {x.passing.space, "weights"}} {
		if err := s.make(x.gpu, s.what); err != nil {
			return err
		}
	}
	for _, y := range x.all() {
		if y.params, err = x.gpu.dev.NewBuffer("parameters", y.paramBytes, Parameters); err != nil {
			y.params = nil
			return err
		}
	}
	return nil
}

// pin pins the host's memory for inputs and outputs, if the device can, and makes staging buffers.
func (x *executable) pin() (err error) {
	defer caught(&err)
	defer Phase("pin inputs and outputs")()
	if p, ok := x.gpu.dev.(Pinner); ok && x.io.host == nil && int64(len(x.hostIO)) >= x.program.IOSize &&
		x.program.IOSize > 0 {
		if x.pinned, err = p.Pin(x.hostIO); err != nil {
			x.pinned = nil // the host's memory is copied to staging buffers
		}
	}
	x.planTransfers() // again, now that it is known how the io space is reached
	if err := x.makeEarly(); err != nil {
		return err
	}
	return x.makeStaging()
}

// upload copies the weights that the program reads to the device, except weights that are used in place, and waits
// until that is done.
func (x *executable) upload() (err error) {
	defer caught(&err)
	defer Phase("upload weights")()
	for _, r := range x.resident {
		if err == nil && r.space.host == nil {
			err = x.gpu.upload(r.space, r.at, x.section[r.from:min(r.to, int64(len(x.section)))])
		}
	}
	return cmp.Or(err, x.gpu.seen(x.gpu.dev.Uploaded()))
}

// driverMemory is memory that is left to the driver, in bytes: for pipelines, command buffers and the unused ends of
// allocations.
const driverMemory = 64 << 20

// checkMemory returns an error if the program does not fit into the free memory of the device. It runs before anything
// is allocated.
func (x *executable) checkMemory() error {
	free, staging := x.gpu.adapter.Free(), x.upBytes+x.downBytes
	weights := total(x.weights) + x.passing.space.bytes
	need := weights + x.program.ArenaSize + x.program.IOSize + x.scratchBytes + x.keptBytes + x.rounded.bytes +
		staging + driverMemory
	if free == 0 || need <= free {
		return nil
	}
	var largest *ir.Node
	for _, n := range x.program.Graph.Nodes {
		if largest == nil || x.program.Places[n.ID].Size > x.program.Places[largest.ID].Size {
			largest = n
		}
	}
	return diag.New(device.ErrMemory, x.program.Method,
		"needs %s of the memory of %s (weights %s, arena %s, inputs and outputs %s, scratch %s, rounded weights %s, driver %s); %s are free; the largest tensor, %s, has %s",
		megabytes(need), x.gpu.name, megabytes(weights), megabytes(x.program.ArenaSize),
		megabytes(x.program.IOSize+staging),
		megabytes(x.scratchBytes), megabytes(x.keptBytes), megabytes(driverMemory),
		megabytes(free), largest.Label(), megabytes(x.program.Places[largest.ID].Size)).
		WithHint(MemoryHint)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// bindAll makes the bind groups of all dispatches that are not stateful.
func (x *executable) bindAll() error {
	for _, y := range x.all() {
		for _, d := range y.each() {
			if !d.stateful {
				if err := y.bindGroup(d); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// bindGroup makes the bind group of a dispatch and releases the previous one.
func (x *executable) bindGroup(d *dispatch) error {
	_, pieces, err := x.bindings(d)
	if err != nil {
		return err
	}
	if d.bound != nil {
		d.bound.Release()
		d.bound = nil
	}
	bound, err := x.gpu.dev.Bind(fmt.Sprintf("step %d (%s %s)", d.step+1, d.node.OpName(), d.node.Label()), d.pipeline,
		append(pieces, Piece{x.params, d.at, d.size}))
	if err != nil {
		return x.unprepared(d, err)
	}
	d.bound = bound
	return nil
}

// compile makes the pipelines of all dispatches. Dispatches with the same text share one.
func (x *executable) compile() error {
	defer Phase("compile")()
	sources, of := x.sources(x.gpu.pipelines)
	made, failed, err := x.gpu.dev.Compile(sources)
	for i, p := range made {
		if p != nil {
			x.gpu.pipelines[sources[i].Text] = p
		}
	}
	if err != nil {
		return x.unprepared(of[failed], err)
	}
	for _, y := range x.all() {
		for _, d := range y.each() {
			d.pipeline = x.gpu.pipelines[d.source.Text]
		}
	}
	return nil
}

// sources returns the distinct sources of the dispatches that have no pipeline yet. of[i] is the first dispatch
// that needs sources[i].
func (x *executable) sources(have map[string]Pipeline) (sources []Source, of []*dispatch) {
	seen := map[string]bool{}
	for _, y := range x.all() {
		for _, d := range y.each() {
			if t := d.source.Text; have[t] == nil && !seen[t] {
				seen[t] = true
				sources, of = append(sources, d.source), append(of, d)
			}
		}
	}
	return sources, of
}

// translate uses the time until the device is open.
func (x *executable) translate() {
	select {
	case <-x.gpu.opened:
		return
	default:
	}
	if t, ok := x.gpu.adapter.(Translator); ok {
		defer Phase("translate")()
		sources, _ := x.sources(nil)
		t.Translate(sources)
	}
}

// unprepared returns the error for a dispatch whose shader cannot be generated, compiled or bound.
func (x *executable) unprepared(d *dispatch, err error) error {
	return diag.New(device.ErrDevice, d.node.Label(), "step %d (%s) cannot be prepared: %w", d.step+1, d.node.OpName(),
		err)
}

// memory returns the size of all buffers of the program in bytes.
func (x *executable) memory() int64 {
	bytes := int64(0)
	for _, y := range x.all() {
		bytes += y.paramBytes
	}
	return bytes + x.clockBytes() + total(x.weights) + total(x.own()) + x.stagingBytes()
}

// own returns the spaces that are not for weights.
func (x *executable) own() []*space {
	return []*space{x.arena, x.io, x.scratch, x.kept, x.rounded.space, x.status}
}

// total returns the size of spaces in bytes.
func total(list []*space) (n int64) {
	for _, s := range list {
		n += s.bytes
	}
	return n
}

// Memory returns the size of the buffers that are not part of the program's own plan, in bytes.
func (x *executable) Memory() int64 {
	return x.scratch.bytes + x.kept.bytes + x.rounded.space.bytes + x.status.bytes + x.clockBytes() + x.stagingBytes()
}

// Kernels lists the ops of the program, all of which run on the device.
func (x *executable) Kernels() []device.Kernel { return x.kernels }

// Close frees the program's memory on the device.
func (x *executable) Close() error {
	_, err := guard(x.gpu.api, func() (struct{}, error) {
		x.gpu.mu.Lock()
		defer x.gpu.mu.Unlock()
		x.release()
		return struct{}{}, nil
	})
	return err
}

func (x *executable) release() {
	x.dropTapes()
	if x.gpu.limits.Page > 0 {
		x.gpu.drain() // after a failure, later submissions may still use memory that the caller is about to unmap
	}
	for _, y := range x.all() {
		for _, d := range y.each() {
			if d.bound != nil {
				d.bound.Release()
			}
		}
		if y.params != nil {
			y.params.Release()
			y.params = nil
		}
	}
	x.dispatches, x.loops = nil, nil
	for _, s := range x.weights {
		s.release()
	}
	x.weights = nil
	for _, s := range []**space{&x.arena, &x.io, &x.scratch, &x.kept, &x.rounded.space, &x.status,
		&x.passing.space} {
		(*s).release()
		*s = nil
	}
	x.releaseStaging()
	x.releaseEarly()
	if x.pinned != nil {
		x.gpu.drain() // see above
		x.pinned.Release()
		x.pinned = nil
	}
	if x.clock != nil {
		x.clock.Release()
	}
	x.clock = nil
}
