//go:build cgo && (darwin || amd64)

package backend

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"
)

// source is what a pipeline is made of: a complete WGSL text with so many storage bindings, the parameters last.
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

// text is a source that is to be compiled.
type text struct {
	source
	of    *dispatch     // the first that needs it
	taken time.Duration // by a helper; 0: none has compiled it
}

// The library compiles one pipeline at a time on a device, because it holds locks meanwhile, and the locks are those of its
// instance. A driver that meets a shader for the first time takes long over it, and most drivers keep the result in a cache
// that all devices of the machine share. So once a pipeline takes longer than slowPipeline, other devices of other instances
// compile what is left side by side, for the sake of that cache; this device then gets the results from there. Where a
// driver shows that it keeps nothing, all that is lost is the helpers' work.
const (
	slowPipeline = 50 * time.Millisecond
	mostHelpers  = 4 // opening a device is serial in drivers, too
)

// compiling is how far compileAll has come.
type compiling struct {
	g *gpu

	mu      sync.Mutex
	changed *sync.Cond
	todo    []*text // the longest first
	busy    []*text // that helpers are at
	warm    []*text // that helpers have compiled
	started bool    // helpers are
	alone   bool    // helpers begin nothing more, and are not waited for
}

func newCompiling(g *gpu, todo []*text) *compiling {
	c := &compiling{g: g, todo: todo}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// compileAll compiles texts; after an error it says at which.
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
		if t.taken > slowPipeline && taken > t.taken/2 { // it came from no cache
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

// next is what this device compiles next: what a helper has compiled, what nobody has begun, or what a helper is at.
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

// stop goes on without helpers.
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

// helper compiles on a device of its own until nothing is left.
func (c *compiling) helper() {
	d, release := c.g.another()
	if d == nil {
		return // this device compiles all alone
	}
	defer release()
	for t := c.give(); t != nil; t = c.give() {
		begin := time.Now()
		if p, err := compilePipeline(d, t.source); err == nil { // else this device meets the same error
			p.Release()
			p.layout.Release()
		}
		c.done(t, time.Since(begin))
	}
}

// done takes a text back from a helper.
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

// give hands a helper its next text; nil: there is none.
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

// another opens a second device of the same adapter, in an instance of its own; nil where that fails.
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
