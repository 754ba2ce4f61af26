//go:build cgo && (darwin || amd64)

package backend

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// pipeline is a compiled shader.
type pipeline struct {
	*wgpu.ComputePipeline
	layout *wgpu.BindGroupLayout
}

func (p *pipeline) Release() {
	p.ComputePipeline.Release()
	p.layout.Release()
}

// compilePipeline makes a pipeline on a device.
func compilePipeline(d *wgpu.Device, s gpu.Source) (p *pipeline, err error) {
	entries := make([]wgpu.BindGroupLayoutEntry, s.Bindings)
	for i := range entries {
		typ := wgpu.BufferBindingType_Storage
		if i == s.Bindings-1 {
			typ = wgpu.BufferBindingType_ReadOnlyStorage
		}
		entries[i] = wgpu.BindGroupLayoutEntry{Binding: uint32(i), Visibility: wgpu.ShaderStage_Compute, Buffer: wgpu.BufferBindingLayout{Type: typ}}
	}
	layout, err := d.CreateBindGroupLayout(&wgpu.BindGroupLayoutDescriptor{Label: s.Label, Entries: entries})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			layout.Release()
		}
	}()
	whole, err := d.CreatePipelineLayout(&wgpu.PipelineLayoutDescriptor{Label: s.Label, BindGroupLayouts: []*wgpu.BindGroupLayout{layout}})
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	module, err := d.CreateShaderModule(&wgpu.ShaderModuleDescriptor{Label: s.Label, WGSLDescriptor: &wgpu.ShaderModuleWGSLDescriptor{Code: s.Text}})
	if err != nil {
		return nil, err
	}
	defer module.Release()
	c, err := d.CreateComputePipeline(&wgpu.ComputePipelineDescriptor{
		Label: s.Label, Layout: whole, Compute: wgpu.ProgrammableStageDescriptor{Module: module, EntryPoint: "main"},
	})
	if err != nil {
		return nil, err
	}
	return &pipeline{c, layout}, nil
}

// text is a source to compile.
type text struct {
	gpu.Source
	index int           // in the list
	taken time.Duration // by a helper; 0 if none has compiled it
}

// The library compiles one pipeline at a time, because it holds a lock of its instance meanwhile. A driver takes long to compile
// a shader that it has not seen, and most drivers keep the result in a cache that all devices of the machine share. So once a
// pipeline takes longer than slowPipeline, helpers compile the rest in parallel, each with a device and an instance of its own.
// They fill that cache, from which this device then gets the results. If the driver turns out to have no cache, nothing but the
// helpers' work is lost.
const (
	slowPipeline = 50 * time.Millisecond
	mostHelpers  = 4 // opening a device is serial in drivers, too
)

// compiling is the state of compileAll.
type compiling struct {
	d *opened

	mu      sync.Mutex
	changed *sync.Cond
	todo    []*text // the longest first
	busy    []*text // that helpers compile now
	warm    []*text // that helpers have compiled
	started bool    // helpers have been started
	alone   bool    // helpers take no more texts, and are not waited for
}

func newCompiling(d *opened, todo []*text) *compiling {
	c := &compiling{d: d, todo: todo}
	c.changed = sync.NewCond(&c.mu)
	return c
}

func (d *opened) Compile(sources []gpu.Source) (made []gpu.Pipeline, failed int, err error) {
	made = make([]gpu.Pipeline, len(sources))
	var texts []*text
	for i, s := range sources {
		texts = append(texts, &text{Source: s, index: i})
	}
	slices.SortStableFunc(texts, func(a, b *text) int { return len(b.Text) - len(a.Text) })
	c := newCompiling(d, texts)
	defer c.stop()
	for t := c.next(); t != nil; t = c.next() {
		d.calls.Lock()
		slow := time.AfterFunc(d.helpAfter(), c.help)
		begin := time.Now()
		p, err := compilePipeline(d.device, t.Source)
		taken := time.Since(begin)
		slow.Stop()
		d.calls.Unlock()
		if err != nil {
			return made, t.index, oneLine(err)
		}
		made[t.index] = p
		if t.taken > slowPipeline && taken > t.taken/2 { // it did not come from a cache
			c.stop()
		}
	}
	return made, 0, nil
}

// helpAfter is how long this device compiles a pipeline alone.
func (d *opened) helpAfter() time.Duration {
	if d.adapter.opts.Help {
		return 0
	}
	return slowPipeline
}

// next is the text that this device compiles next: one that a helper has compiled, else one that nobody has begun, else one that
// a helper compiles now.
func (c *compiling) next() *text {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.alone && len(c.busy) > 0 && len(c.warm) == 0 && len(c.todo) == 0 {
		c.changed.Wait()
	}
	for _, from := range []*[]*text{&c.warm, &c.todo, &c.busy} {
		if len(*from) > 0 {
			t := (*from)[0]
			*from = (*from)[1:]
			return t
		}
	}
	return nil
}

// stop ends the use of helpers.
func (c *compiling) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alone = true
}

// help starts the helpers, once.
func (c *compiling) help() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.alone || c.d.adapter.info.Type == typeSoftware && !c.d.adapter.opts.Help {
		return // software adapters compile when a pipeline first runs
	}
	c.started = true
	for range min(mostHelpers, runtime.GOMAXPROCS(0)-1, len(c.todo)) {
		go c.helper()
	}
}

// helper compiles on a device of its own until no texts are left.
func (c *compiling) helper() {
	d, release := c.d.adapter.another()
	if d == nil {
		return // no second device: the first compiles alone
	}
	defer release()
	for t := c.give(); t != nil; t = c.give() {
		begin := time.Now()
		if p, err := compilePipeline(d, t.Source); err == nil { // else the first device reports the same error
			p.Release()
		}
		c.done(t, time.Since(begin))
	}
}

// done records that a helper has finished a text.
func (c *compiling) done(t *text, taken time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.busy, t); i >= 0 {
		t.taken = taken
		c.busy = slices.Delete(c.busy, i, i+1)
		c.warm = append(c.warm, t)
		c.changed.Broadcast()
	}
}

// give returns a helper's next text, nil if there is none.
func (c *compiling) give() *text {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alone || len(c.todo) == 0 {
		return nil
	}
	t := c.todo[0]
	c.todo = c.todo[1:]
	c.busy = append(c.busy, t)
	return t
}

// another opens a second device of the same adapter, in an instance of its own; nil if that fails.
func (a *adapter) another() (d *wgpu.Device, release func()) {
	other, instance, ok := a.again()
	if !ok {
		return nil, nil
	}
	d, err := other.request()
	release = func() {
		if d != nil {
			d.Release()
		}
		other.Adapter.Release()
		instance.Release()
	}
	if err != nil {
		release()
		return nil, nil
	}
	return d, release
}
