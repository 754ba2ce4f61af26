//go:build cgo && (darwin || amd64)

package backend

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"
)

// source is the input of a pipeline: a complete WGSL text and its number of storage bindings, of which the parameters are last.
type source struct {
	label, text string
	bindings    int
}

// pipeline is a compiled shader.
type pipeline struct {
	*wgpu.ComputePipeline
	layout *wgpu.BindGroupLayout
}

// compilePipeline makes a pipeline on a device.
func compilePipeline(d *wgpu.Device, s source) (p *pipeline, err error) {
	entries := make([]wgpu.BindGroupLayoutEntry, s.bindings)
	for i := range entries {
		typ := wgpu.BufferBindingType_Storage
		if i == s.bindings-1 {
			typ = wgpu.BufferBindingType_ReadOnlyStorage
		}
		entries[i] = wgpu.BindGroupLayoutEntry{Binding: uint32(i), Visibility: wgpu.ShaderStage_Compute, Buffer: wgpu.BufferBindingLayout{Type: typ}}
	}
	layout, err := d.CreateBindGroupLayout(&wgpu.BindGroupLayoutDescriptor{Label: s.label, Entries: entries})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			layout.Release()
		}
	}()
	whole, err := d.CreatePipelineLayout(&wgpu.PipelineLayoutDescriptor{Label: s.label, BindGroupLayouts: []*wgpu.BindGroupLayout{layout}})
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	module, err := d.CreateShaderModule(&wgpu.ShaderModuleDescriptor{Label: s.label, WGSLDescriptor: &wgpu.ShaderModuleWGSLDescriptor{Code: s.text}})
	if err != nil {
		return nil, err
	}
	defer module.Release()
	c, err := d.CreateComputePipeline(&wgpu.ComputePipelineDescriptor{
		Label: s.label, Layout: whole, Compute: wgpu.ProgrammableStageDescriptor{Module: module, EntryPoint: "main"},
	})
	if err != nil {
		return nil, err
	}
	return &pipeline{c, layout}, nil
}

// compile makes the pipelines of all dispatches, one for each text.
func (x *executable) compile() error {
	var texts []*text
	seen := map[string]bool{}
	for i := range x.dispatches {
		d := &x.dispatches[i]
		if t := d.source.text; x.g.pipelines[t] == nil && !seen[t] {
			seen[t] = true
			texts = append(texts, &text{source: d.source, of: d})
		}
	}
	if t, err := x.g.compileAll(texts); err != nil {
		return x.unprepared(t.of, err)
	}
	for i := range x.dispatches {
		d := &x.dispatches[i]
		d.pipeline = x.g.pipelines[d.source.text]
	}
	return nil
}

// text is a source to compile.
type text struct {
	source
	of    *dispatch     // the first that needs it
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
	g *gpu

	mu      sync.Mutex
	changed *sync.Cond
	todo    []*text // the longest first
	busy    []*text // that helpers compile now
	warm    []*text // that helpers have compiled
	started bool    // helpers have been started
	alone   bool    // helpers take no more texts, and are not waited for
}

func newCompiling(g *gpu, todo []*text) *compiling {
	c := &compiling{g: g, todo: todo}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// compileAll compiles texts. With an error it returns the text that failed.
func (g *gpu) compileAll(texts []*text) (*text, error) {
	slices.SortStableFunc(texts, func(a, b *text) int { return len(b.text) - len(a.text) })
	c := newCompiling(g, texts)
	defer c.stop()
	for t := c.next(); t != nil; t = c.next() {
		g.calls.Lock()
		slow := time.AfterFunc(g.helpAfter(), c.help)
		begin := time.Now()
		p, err := compilePipeline(g.device, t.source)
		taken := time.Since(begin)
		slow.Stop()
		g.calls.Unlock()
		if err != nil {
			return t, err
		}
		g.pipelines[t.text] = p
		if t.taken > slowPipeline && taken > t.taken/2 { // it did not come from a cache
			c.stop()
		}
	}
	return nil, nil
}

// helpAfter is how long this device compiles a pipeline alone.
func (g *gpu) helpAfter() time.Duration {
	if g.opts.Help {
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
	if c.started || c.alone || c.g.adapter.info.Type == typeSoftware && !c.g.opts.Help {
		return // software adapters compile when a pipeline first runs
	}
	c.started = true
	for range min(mostHelpers, runtime.GOMAXPROCS(0)-1, len(c.todo)) {
		go c.helper()
	}
}

// helper compiles on a device of its own until no texts are left.
func (c *compiling) helper() {
	d, release := c.g.another()
	if d == nil {
		return // no second device: the first compiles alone
	}
	defer release()
	for t := c.give(); t != nil; t = c.give() {
		begin := time.Now()
		if p, err := compilePipeline(d, t.source); err == nil { // else the first device reports the same error
			p.Release()
			p.layout.Release()
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
func (g *gpu) another() (d *wgpu.Device, release func()) {
	a, instance, ok := g.adapter.again()
	if !ok {
		return nil, nil
	}
	d, err := a.request(g.timestamps)
	release = func() {
		if d != nil {
			d.Release()
		}
		a.Adapter.Release()
		instance.Release()
	}
	if err != nil {
		release()
		return nil, nil
	}
	return d, release
}
