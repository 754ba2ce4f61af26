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
		entries[i] = wgpu.BindGroupLayoutEntry{Binding: uint32(i), Visibility: wgpu.ShaderStage_Compute,
			Buffer: wgpu.BufferBindingLayout{Type: typ}}
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
	whole, err := d.CreatePipelineLayout(
		&wgpu.PipelineLayoutDescriptor{Label: s.Label, BindGroupLayouts: []*wgpu.BindGroupLayout{layout}})
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	module, err := d.CreateShaderModule(
		&wgpu.ShaderModuleDescriptor{Label: s.Label, WGSLDescriptor: &wgpu.ShaderModuleWGSLDescriptor{Code: s.Text}})
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
	taken time.Duration // time that a helper took to compile it; 0 if none did
}

// The library holds a lock of its instance while it compiles a pipeline, so it compiles one at a time. Drivers are slow
// to compile a shader that they have not seen, and most of them keep the result in a cache that all devices of the
// machine share. So once a pipeline takes longer than slowPipeline, helpers compile the rest in parallel, each with its
// own instance and device. They fill the cache, and this device then gets the results from there. If the driver has no
// cache, only the work of the helpers is lost.
const (
	slowPipeline = 50 * time.Millisecond
	mostHelpers  = 4 // drivers open one device at a time, so more would only wait
)

// compiling is the state of compileAll.
type compiling struct {
	d *opened

	mu      sync.Mutex
	changed *sync.Cond
	todo    []*text // longest first
	busy    []*text // being compiled by helpers
	warm    []*text // compiled by helpers
	started bool    // helpers have been started
	alone   bool    // helpers take no more texts, and nothing waits for them
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
		if t.taken > slowPipeline && taken > t.taken/2 { // the driver has no cache
			c.stop()
		}
	}
	return made, 0, nil
}

// helpAfter returns how long a pipeline may take before helpers start.
func (d *opened) helpAfter() time.Duration {
	if d.adapter.opts.Help {
		return 0
	}
	return slowPipeline
}

// next returns the text that this device compiles next. It prefers a text that a helper has compiled, then one that
// nobody has begun, then one that a helper is compiling.
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

// stop tells the helpers to take no more texts.
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
		return // software adapters compile a pipeline when it first runs
	}
	c.started = true
	for range min(mostHelpers, runtime.GOMAXPROCS(0)-1, len(c.todo)) {
		go c.helper()
	}
}

// helper compiles texts on its own device until none are left.
func (c *compiling) helper() {
	d, release := c.d.adapter.another()
	if d == nil {
		return // without a second device, the first one compiles alone
	}
	defer release()
	for t := c.give(); t != nil; t = c.give() {
		begin := time.Now()
		if p, err := compilePipeline(d, t.Source); err == nil { // the first device will report the same error
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

// give returns the next text for a helper, or nil if no text is left.
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

// another opens a second device of the adapter in its own instance. It returns nil if that fails.
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
