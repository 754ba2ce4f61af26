package driver

import (
	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"
)

func init() {
	p := &pure{}
	at, err := p.symbol(bridgeLibrary, "objc_msgSend")
	if err != nil {
		return // unreachable: package objc would have panicked before
	}
	p.message = at
	purego.RegisterFunc(&p.double, at)
	native = p
}

// pure calls the system's Objective-C through purego.
type pure struct {
	message uintptr // objc_msgSend, which has the arguments and the result of the method
	double  func(to, selector uintptr) float64
}

func (*pure) symbol(library, name string) (uintptr, error) {
	// a library that is open already is not loaded again
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return 0, err
	}
	return purego.Dlsym(handle, name)
}

func (*pure) call(function uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(function, args...)
	return r
}

func (*pure) class(name string) uintptr    { return uintptr(objc.GetClass(name)) }
func (*pure) selector(name string) uintptr { return uintptr(objc.RegisterName(name)) }

func (p *pure) send(to, selector uintptr, args ...uintptr) uintptr {
	var all [8]uintptr
	all[0], all[1] = to, selector
	r, _, _ := purego.SyscallN(p.message, all[:2+copy(all[2:], args)]...)
	return r
}

func (p *pure) sendDouble(to, selector uintptr) float64 { return p.double(to, selector) }
