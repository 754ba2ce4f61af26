package driver

import (
	"bytes"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/rlx-go/rlx/plugins/cuda/matrix"
	"github.com/rlx-go/rlx/plugins/cuda/ptx"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// pipeline is a compiled kernel.
type pipeline struct {
	d                *opened
	module, function uintptr
	threads          int // of a block
	shared           int // bytes of shared memory that a launch asks for
	overlaps         bool
	bindings         int
}

func (p *pipeline) Release() {
	defer p.d.enter()()
	p.d.call(cuModuleUnload, p.module)
}

// Compile compiles the sources in parallel, on all cores.
func (d *opened) Compile(sources []gpu.Source) (made []gpu.Pipeline, failed int, err error) {
	made = make([]gpu.Pipeline, len(sources))
	errs := make([]error, len(sources))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range sources {
		g.Go(func() error {
			p, err := d.compile(s)
			errs[i] = err
			if err == nil {
				made[i] = p
			}
			return nil
		})
	}
	_ = g.Wait()
	if d.linked.Swap(false) {
		d.cubins().trim()
	}
	for i, err := range errs {
		if err != nil {
			return made, i, err
		}
	}
	return made, 0, nil
}

// translated is a kernel as PTX.
type translated struct {
	*ptx.Kernel
	overlaps bool
	key      string // in cubins
	code     []byte // from cubins; nil if there is none
}

// Translate does what compiling does without the device.
func (a *adapter) Translate(sources []gpu.Source) {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, s := range sources {
		g.Go(func() error {
			if k, err := a.translate(s.Text); err == nil { // Compile returns the error
				a.translated.Store(s.Text, k)
			}
			return nil
		})
	}
	_ = g.Wait()
}

func (a *adapter) translate(source string) (t translated, err error) {
	k, ok := matrix.Kernel(source)
	if !ok {
		if k, err = ptx.Translate(source); err != nil {
			return t, fmt.Errorf("%w, of\n%s", err, source)
		}
	}
	t.Kernel = k
	if a.capability >= overlapCapability && a.version >= overlapVersion {
		k.Text, t.overlaps = overlapping(k.Text)
	}
	t.key = a.cubins().key(k.Text, a.info.Name, strconv.Itoa(a.capability), a.cuda())
	t.code = a.cubins().find(t.key)
	return t, nil
}

func (a *adapter) cubins() cubins { return cubins{dir: a.api.cache} }

func (d *opened) compile(s gpu.Source) (*pipeline, error) {
	var k translated
	if early, ok := d.translated.LoadAndDelete(s.Text); ok {
		k = early.(translated)
	} else {
		var err error
		if k, err = d.translate(s.Text); err != nil {
			return nil, err
		}
	}
	p := &pipeline{d: d, bindings: s.Bindings, threads: k.Threads, shared: k.Dynamic, overlaps: k.overlaps}
	defer d.enter()()
	if k.code == nil || !p.load(k.code, k.Entry) {
		code, err := d.link(k.Text)
		if err != nil {
			return nil, err
		}
		d.cubins().add(k.key, code)
		d.linked.Store(true)
		if !p.load(code, k.Entry) {
			return nil, fmt.Errorf("the driver does not load the code that it made of\n%s", k.Text)
		}
	}
	const attributeDynamicShared = 8
	if p.shared > 0 {
		r := d.call(cuFuncSetAttribute, p.function, attributeDynamicShared, uintptr(p.shared))
		if r != success {
			p.Release()
			return nil, fmt.Errorf("%d bytes of shared memory: %s", p.shared, explain(d, r))
		}
	}
	return p, nil
}

// Devices from this compute capability on, times 10, and drivers from this version on can overlap launches, also in
// graphs.
const (
	overlapCapability = 90
	overlapVersion    = 12040
)

var (
	targetOf = regexp.MustCompile(`(?m)^\.version .*\n\.target sm_\d+`)
	bodyOf   = regexp.MustCompile(`(?m)^\{$`)
)

// overlapping changes a kernel so that it may be launched while the one before it ends: it first lets the next kernel
// be launched, and then waits for the end of the one before. This hides the time that a launch takes. As all kernels of
// a stream do so, each sees what all before it have written. A text of package matrix may say where it waits, see
// matrix.Waits.
func overlapping(text string) (string, bool) {
	at, target := bodyOf.FindStringIndex(text), targetOf.FindStringIndex(text)
	if at == nil || target == nil || target[0] > at[0] {
		return text, false
	}
	body := launch + text[at[1]:]
	if strings.Contains(body, matrix.Waits) {
		body = strings.ReplaceAll(body, matrix.Waits, wait)
	} else {
		body = launch + wait + text[at[1]+1:]
	}
	return text[:target[0]] + ".version 8.0\n.target sm_90" + text[target[1]:at[1]] + body, true
}

// launch lets the next kernel be launched, and wait waits for the end of the one before.
const (
	launch = "\n  griddepcontrol.launch_dependents;\n"
	wait   = "  griddepcontrol.wait;\n"
)

// load loads machine code. The caller has called enter.
func (p *pipeline) load(code []byte, entry string) bool {
	module, function, name := made[uintptr](), made[uintptr](), cString(entry)
	if p.d.call(cuModuleLoadData, address(module), uintptr(unsafe.Pointer(&code[0]))) != success {
		return false
	}
	p.module = *module
	r := p.d.call(cuModuleGetFunction, address(function), p.module, uintptr(unsafe.Pointer(&name[0])))
	runtime.KeepAlive(name)
	runtime.KeepAlive(code)
	if r != success {
		p.d.call(cuModuleUnload, p.module)
		return false
	}
	p.function = *function
	return true
}

// Options and kinds of input of the driver's linker.
const (
	jitErrorLog     = 5
	jitErrorLogSize = 6
	jitInputPTX     = 1
)

// link compiles PTX to machine code. The caller has called enter.
func (d *opened) link(text string) ([]byte, error) {
	type linking struct {
		options [2]int32
		values  [2]uintptr
		log     [8 << 10]byte
		state   uintptr
		code    uintptr
		size    uint64
	}
	m := made[linking]()
	m.options = [2]int32{jitErrorLog, jitErrorLogSize}
	m.values = [2]uintptr{address(&m.log), uintptr(len(m.log))}
	refused := func(r result) error {
		log, _, _ := bytes.Cut(m.log[:], []byte{0})
		return fmt.Errorf("the kernel is refused by the driver: %s; %s; of\n%s", explain(d, r),
			strings.Join(strings.Fields(string(log)), " "), text)
	}
	if r := d.call(cuLinkCreate, 2, address(&m.options), address(&m.values), address(&m.state)); r != success {
		return nil, d.failure("compiling", r)
	}
	defer d.call(cuLinkDestroy, m.state)
	source, name := cString(text), cString("kernel")
	r := d.call(cuLinkAddData, m.state, jitInputPTX, uintptr(unsafe.Pointer(&source[0])), uintptr(len(source)),
		uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
	runtime.KeepAlive(source)
	runtime.KeepAlive(name)
	if r != success {
		return nil, refused(r)
	}
	if r := d.call(cuLinkComplete, m.state, address(&m.code), address(&m.size)); r != success {
		return nil, refused(r)
	}
	code := bytes.Clone(memory(m.code, int64(m.size)))
	runtime.KeepAlive(m)
	return code, nil
}
