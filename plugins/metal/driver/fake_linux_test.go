package driver

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/metal/msl"
)

// fake is a bridge that replaces Objective-C and Metal. It counts references, checks Metal's documented rules, and runs
// kernels and copies on the shim. It panics if a rule is broken. On a Mac that would raise an exception, which ends the
// process.
type fake struct {
	mu      sync.Mutex
	shim    gpu.Device
	kernels map[string]compiled // by MSL text
	next    uintptr             // address of the last object
	objects map[uintptr]*object
	pools   map[int][]*autoreleased // the open pools of each thread, the innermost last
	began   time.Time

	waiting int            // command buffers that have not ended
	encoded int            // command buffers that were made
	sent    map[string]int // number of messages by selector

	old    bool    // the system is older than macOS 15
	most   int     // maximum size of a buffer in bytes
	width  uintptr // threads in a simdgroup
	family uintptr // the Apple family of the GPU
	flat   bool    // buffers over memory of the process have length 0, as in some virtual machines

	// Errors to inject.
	// messages with these selectors return nil or NO, and an NSError if they have an argument for it
	failing map[string]bool
	status  *failure // failure of the command buffers that end next
	// after a failure, this many queries for the status of a completed command buffer answer that it has not ended
	late int

	seen    bool    // the status of a failed command buffer was queried
	infoKey uintptr // the variable MTLCommandBufferEncoderInfoErrorKey
}

// failure describes the error of a command buffer. If faulted or affected is set, only command buffers fail that have
// an encoder whose label contains it. The error reports the state of each encoder, unless silent is set: faulted or
// affected for that encoder, completed for earlier ones, and pending for those that follow a faulted one.
type failure struct {
	domain            string
	code              uint64
	faulted, affected string
	silent            bool
}

// stops returns the error state of an encoder that the failure stops, and 0 for other encoders.
func (s *failure) stops(label string) (state uintptr) {
	switch {
	case s.faulted != "" && strings.Contains(label, s.faulted):
		return 4
	case s.affected != "" && strings.Contains(label, s.affected):
		return 2
	}
	return 0
}

// hits reports whether a command buffer whose encoders have these labels fails.
func (s *failure) hits(labels []string) bool {
	return s.faulted+s.affected == "" || slices.ContainsFunc(labels, func(l string) bool { return s.stops(l) != 0 })
}

// compiled is a kernel that is compiled for the shim.
type compiled struct {
	pipeline gpu.Pipeline
	kernel   *msl.Kernel
}

// object is an Objective-C object. Each class uses some of the fields.
type object struct {
	class string
	at    uintptr // address
	refs  int
	holds []uintptr // objects that it retains
	free  func()    // called when the object is freed

	text     []byte // ends with 0
	values   map[string]uintptr
	compiled compiled
	buffer   gpu.Buffer
	size     uint64
	over     []byte // memory of the process, for a buffer over it
	users    int    // command buffers that use that memory and have not ended

	commands *object // command buffer of an encoder
	encoder  gpu.Encoder
	labels   []string // of the encoders of a command buffer
	open     uintptr  // the open encoder of a command buffer
	ended    bool     // an encoder whose endEncoding was called, or a command buffer that has ended
	endTime  time.Duration
	pipeline *object
	pieces   []gpu.Piece
	sizes    []uint32
}

// autoreleased is an autorelease pool.
type autoreleased struct{ objects []uintptr }

// selectors holds the names of selectors. A selector is an index in it. The driver stores selectors, so they must be
// the same for all fakes.
var selectors = struct {
	sync.Mutex
	names []string
}{names: []string{""}}

// The addresses of the C functions.
const (
	fnPush = iota + 1
	fnPop
	fnDevices
)

func (f *fake) symbol(library, name string) (uintptr, error) {
	if name == "MTLCommandBufferEncoderInfoErrorKey" {
		return uintptr(unsafe.Pointer(&f.infoKey)), nil
	}
	at := slices.Index([]string{"", "objc_autoreleasePoolPush", "objc_autoreleasePoolPop", "MTLCopyAllDevices"}, name)
	if at < 1 {
		return 0, fmt.Errorf("%s has no %s", library, name)
	}
	return uintptr(at), nil
}

func (f *fake) call(function uintptr, args ...uintptr) uintptr {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch thread := unix.Gettid(); function {
	case fnPush:
		f.pools[thread] = append(f.pools[thread], &autoreleased{})
		return uintptr(len(f.pools[thread]))
	case fnPop:
		n := len(f.pools[thread])
		if uintptr(n) != args[0] {
			panic(fmt.Sprintf("pool %d of a thread is popped; the innermost pool is %d", args[0], n))
		}
		last := f.pools[thread][n-1]
		f.pools[thread] = f.pools[thread][:n-1]
		for _, o := range last.objects {
			f.release(o)
		}
		return 0
	case fnDevices:
		list := f.make("NSArray")
		for at, o := range f.objects {
			if o.class == "MTLDevice" {
				f.hold(list, at)
			}
		}
		return list.at
	}
	panic("an unknown function")
}

func (f *fake) class(name string) uintptr {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at, o := range f.objects {
		if o.class == "class "+name {
			return at
		}
	}
	return f.make("class " + name).at
}

func (f *fake) selector(name string) uintptr {
	selectors.Lock()
	defer selectors.Unlock()
	i := slices.Index(selectors.names, name)
	if i < 0 {
		i = len(selectors.names)
		selectors.names = append(selectors.names, name)
	}
	return uintptr(i)
}

func nameOf(selector uintptr) string {
	selectors.Lock()
	defer selectors.Unlock()
	return selectors.names[selector]
}

func (f *fake) make(class string) *object {
	f.next += 16
	o := &object{class: class, at: f.next, refs: 1, values: map[string]uintptr{}}
	f.objects[o.at] = o
	return o
}

func (f *fake) get(at uintptr) *object {
	o := f.objects[at]
	if o == nil {
		panic(fmt.Sprintf("%#x is not an object, or it was freed", at))
	}
	return o
}

// hold retains an object until by is freed.
func (f *fake) hold(by *object, at uintptr) {
	if at != 0 {
		f.get(at).refs++
		by.holds = append(by.holds, at)
	}
}

func (f *fake) release(at uintptr) {
	o := f.get(at)
	if o.refs--; o.refs > 0 {
		return
	}
	delete(f.objects, at)
	if o.free != nil {
		o.free()
	}
	for _, h := range o.holds {
		f.release(h)
	}
}

// autorelease adds an object to the innermost pool of this thread.
func (f *fake) autorelease(o *object) uintptr {
	pools := f.pools[unix.Gettid()]
	if len(pools) == 0 {
		panic(o.class + " leaks: this thread has no autorelease pool")
	}
	last := pools[len(pools)-1]
	last.objects = append(last.objects, o.at)
	return o.at
}

func (f *fake) string(s string) *object {
	o := f.make("NSString")
	o.text = append([]byte(s), 0)
	return o
}

func (o *object) string() string { return string(o.text[:len(o.text)-1]) }

// fail stores an error at the address place, and returns nil or NO.
func (f *fake) fail(place uintptr, why string) uintptr {
	e := f.make("NSError")
	e.values["domain"], e.values["code"], e.values["text"] = f.string("FakeDomain").at, 7, f.string(why).at
	e.holds = []uintptr{e.values["domain"], e.values["text"]}
	*(*uintptr)(pointer(place)) = f.autorelease(e)
	return 0
}

func (f *fake) sendDouble(to, selector uintptr) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.get(to)
	if name := nameOf(selector); name != "GPUEndTime" || !o.ended {
		panic(o.class + " does not respond to " + name + " now")
	}
	return 1e6 + o.endTime.Seconds()
}

func (f *fake) send(to, selector uintptr, args ...uintptr) uintptr {
	f.mu.Lock()
	defer f.mu.Unlock()
	if to == 0 {
		return 0 // a message to nil returns 0
	}
	o, name := f.get(to), nameOf(selector)
	f.sent[name]++
	switch name {
	case "retain":
		o.refs++
		return to
	case "release":
		f.release(to)
		return 0
	case "respondsToSelector:":
		_, known := methods[o.class+" "+nameOf(args[0])]
		return word8(known && !f.old)
	}
	m, ok := methods[o.class+" "+name]
	if !ok {
		panic("unrecognized selector " + name + " sent to " + o.class)
	}
	if f.failing[name] {
		if last := len(args) - 1; strings.HasSuffix(name, "rror:") {
			return f.fail(args[last], name+" fails,\nas the test requires")
		}
		return 0
	}
	return m(f, o, args)
}

// word8 returns a register that holds a BOOL. Its upper bits are not zero, because the ABI leaves them undefined.
func word8(b bool) uintptr {
	if b {
		return 0xab01
	}
	return 0xab00
}

// install replaces the system by a fake with one device until the test ends.
func install(t *testing.T, shim gpu.Device) *fake {
	f := &fake{shim: shim, kernels: map[string]compiled{}, objects: map[uintptr]*object{},
		pools: map[int][]*autoreleased{}, sent: map[string]int{},
		failing: map[string]bool{}, began: time.Now()}
	d := f.make("MTLDevice")
	d.values["name"] = f.string("Fake M1").at
	f.most, f.width, f.family = 1<<30, 32, 7
	f.infoKey = f.string("MTLCommandBufferEncoderInfoErrorKey").at
	native = f
	t.Cleanup(func() { native = nil })
	return f
}

// checkReleased fails the test if a buffer or a command buffer is left.
func (f *fake) checkReleased(t *testing.T) {
	t.Helper()
	if n := f.count(t); n["MTLBuffer"]+n["MTLCommandBuffer"] > 0 {
		t.Errorf("these objects are left: %v", n)
	}
}

// count returns the number of objects of each class. Class objects are not counted. It fails the test if a pool is
// open.
func (f *fake) count(t *testing.T) map[string]int {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	n := map[string]int{}
	for _, o := range f.objects {
		if !strings.HasPrefix(o.class, "class ") {
			n[o.class]++
		}
	}
	for _, p := range f.pools {
		if len(p) > 0 {
			t.Error("an autorelease pool is open")
		}
	}
	return n
}

// translating is the driver's API for package gpu. Before the driver compiles a source, it compiles the source for the
// shim, so that the fake can run the kernel when the driver hands it the MSL text.
type translating struct {
	gpu.API
	f *fake
}

type translatingAdapter struct {
	gpu.Adapter
	f *fake
}

type translatingDevice struct {
	gpu.Device
	f *fake
}

func (a translating) Adapters() ([]gpu.Adapter, error) {
	list, err := a.API.Adapters()
	for i := range list {
		list[i] = translatingAdapter{list[i], a.f}
	}
	return list, err
}

func (a translatingAdapter) Open() (gpu.Device, error) {
	d, err := a.Adapter.Open()
	if err != nil {
		return nil, err
	}
	return translatingDevice{d, a.f}, nil
}

func (d translatingDevice) Over(label string, memory []byte) (gpu.Buffer, error) {
	return d.Device.(gpu.InPlace).Over(label, memory)
}

func (d translatingDevice) Compile(sources []gpu.Source) ([]gpu.Pipeline, int, error) {
	if failed, err := d.f.compileForShim(sources); err != nil {
		return nil, failed, err
	}
	return d.Device.Compile(sources)
}

// compileForShim compiles sources for the shim and adds them to f.kernels. failed is the index of the source of an
// error.
func (f *fake) compileForShim(sources []gpu.Source) (failed int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	made, failed, err := f.shim.Compile(sources)
	if err != nil {
		return failed, err
	}
	for i, s := range sources {
		k, err := msl.Translate(s.Text)
		if err != nil {
			return i, err
		}
		f.kernels[k.Text] = compiled{made[i], k}
	}
	return 0, nil
}
