package driver

import (
	"errors"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"
)

// bridge calls C functions and sends Objective-C messages. All arguments and results are words, which are passed in the
// general registers of arm64. A call has at most 8 arguments, including the receiver and the selector of a message, so
// that no argument is passed on the stack.
type bridge interface {
	// symbol returns the address of a C function or variable.
	symbol(library, name string) (uintptr, error)
	call(function uintptr, args ...uintptr) uintptr
	class(name string) uintptr
	selector(name string) uintptr
	send(to, selector uintptr, args ...uintptr) uintptr
	// sendDouble sends a message whose result is a double.
	sendDouble(to, selector uintptr) float64
}

// native is the bridge of this system, or nil if it has no Objective-C. Tests replace it.
var native bridge

// word is a type whose values fit in a register. uint8 is extended with zeros, as the ABI requires.
type word interface {
	~uint8 | ~int64 | ~uint64 | ~uintptr
}

// message is a method of a class or protocol.
type message struct {
	declaration string         // as in Apple's documentation
	selector    string         // from the declaration
	types       []reflect.Type // of the receiver, the arguments and the result
	registered  atomic.Uintptr // the system's handle of the selector; 0 until it is first used
}

// All entries of table.go. Tests check them.
var (
	messages  []*message
	functions []*function
	variables []*variable
)

func declare(declaration string, types ...reflect.Type) *message {
	m := &message{declaration: declaration, selector: selectorOf(declaration), types: types}
	messages = append(messages, m)
	return m
}

// selectorOf returns the selector of a declaration: "copy:to:" of "- (void)copy:(id)a to:(id)b;".
func selectorOf(declaration string) string {
	_, rest, _ := strings.Cut(declaration, ")")
	rest = strings.TrimSuffix(rest, ";")
	if !strings.Contains(rest, ":") {
		return rest
	}
	s := ""
	for {
		part, after, ok := strings.Cut(rest, ":")
		if !ok {
			return s
		}
		s += part[strings.LastIndexByte(part, ' ')+1:] + ":"
		rest = after
	}
}

func (m *message) send(to uintptr, args ...uintptr) uintptr {
	return native.send(to, uintptr(m.sel()), args...)
}

func (m *message) sel() sel {
	s := m.registered.Load()
	if s == 0 {
		s = native.selector(m.selector)
		m.registered.Store(s)
	}
	return sel(s)
}

// messageN is a message with N words of arguments and a result of type R. O is the type of the receiver: an object, or
// the class for a class method (declared with +).
type (
	message0[O, R word]                message
	message1[O, A, R word]             message
	message2[O, A, B, R word]          message
	message3[O, A, B, C, R word]       message
	message4[O, A, B, C, D, R word]    message
	message5[O, A, B, C, D, E, R word] message
	messageDouble[O word]              message
)

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

func declare0[O, R word](s string) *message0[O, R] {
	return (*message0[O, R])(declare(s, of[O](), of[R]()))
}

func declare1[O, A, R word](s string) *message1[O, A, R] {
	return (*message1[O, A, R])(declare(s, of[O](), of[A](), of[R]()))
}

func declare2[O, A, B, R word](s string) *message2[O, A, B, R] {
	return (*message2[O, A, B, R])(declare(s, of[O](), of[A](), of[B](), of[R]()))
}

func declare3[O, A, B, C, R word](s string) *message3[O, A, B, C, R] {
	return (*message3[O, A, B, C, R])(declare(s, of[O](), of[A](), of[B](), of[C](), of[R]()))
}

func declare4[O, A, B, C, D, R word](s string) *message4[O, A, B, C, D, R] {
	return (*message4[O, A, B, C, D, R])(declare(s, of[O](), of[A](), of[B](), of[C](), of[D](), of[R]()))
}

func declare5[O, A, B, C, D, E, R word](s string) *message5[O, A, B, C, D, E, R] {
	return (*message5[O, A, B, C, D, E, R])(declare(s, of[O](), of[A](), of[B](), of[C](), of[D](), of[E](), of[R]()))
}

func declareDouble[O word](s string) *messageDouble[O] {
	return (*messageDouble[O])(declare(s, of[O](), of[float64]()))
}

func (m *message0[O, R]) to(o O) R { return R((*message)(m).send(uintptr(o))) }

func (m *message1[O, A, R]) to(o O, a A) R { return R((*message)(m).send(uintptr(o), uintptr(a))) }

func (m *message2[O, A, B, R]) to(o O, a A, b B) R {
	return R((*message)(m).send(uintptr(o), uintptr(a), uintptr(b)))
}

func (m *message3[O, A, B, C, R]) to(o O, a A, b B, c C) R {
	return R((*message)(m).send(uintptr(o), uintptr(a), uintptr(b), uintptr(c)))
}

func (m *message4[O, A, B, C, D, R]) to(o O, a A, b B, c C, d D) R {
	return R((*message)(m).send(uintptr(o), uintptr(a), uintptr(b), uintptr(c), uintptr(d)))
}

func (m *message5[O, A, B, C, D, E, R]) to(o O, a A, b B, c C, d D, e E) R {
	return R((*message)(m).send(uintptr(o), uintptr(a), uintptr(b), uintptr(c), uintptr(d), uintptr(e)))
}

func (m *messageDouble[O]) to(o O) float64 {
	return native.sendDouble(uintptr(o), uintptr((*message)(m).sel()))
}

// function is a C function with at most one argument.
type function struct {
	library, declaration, name string         // name is taken from the declaration
	types                      []reflect.Type // of the argument, if the block has one, and of the result
	found                      atomic.Uintptr // its address; 0 until it is first used
}

type (
	function0[R word]    function
	function1[A, R word] function
)

func declareFunction(library, declaration string, types ...reflect.Type) *function {
	name, _, _ := strings.Cut(declaration, "(")
	f := &function{library: library, declaration: declaration, name: name[strings.LastIndexAny(name, " *")+1:],
		types: types}
	functions = append(functions, f)
	return f
}

func function0Of[R word](library, s string) *function0[R] {
	return (*function0[R])(declareFunction(library, s, of[R]()))
}

func function1Of[A, R word](library, s string) *function1[A, R] {
	return (*function1[A, R])(declareFunction(library, s, of[A](), of[R]()))
}

// address returns the address of the function, or 0 if the system lacks it.
func (f *function) address() uintptr {
	at := f.found.Load()
	if at == 0 {
		at, _ = native.symbol(f.library, f.name)
		f.found.Store(at)
	}
	return at
}

func (f *function0[R]) call() R { return R(native.call((*function)(f).address())) }

func (f *function1[A, R]) call(a A) R { return R(native.call((*function)(f).address(), uintptr(a))) }

// variable is a C variable.
type variable struct {
	library, declaration, name string // name is taken from the declaration
	typ                        reflect.Type
}

type variable1[R word] variable

func variableOf[R word](library, s string) *variable1[R] {
	v := &variable{library, s, strings.TrimSuffix(s[strings.LastIndexByte(s, ' ')+1:], ";"), of[R]()}
	variables = append(variables, v)
	return (*variable1[R])(v)
}

// value returns the value of the variable, or 0 if the system lacks it.
func (v *variable1[R]) value() R {
	at, err := native.symbol(v.library, v.name)
	if err != nil || at == 0 {
		return 0
	}
	return *(*R)(pointer(at))
}

// class is the name of a class. Class methods are sent to its object.
type class[O word] string

func (c class[O]) object() O { return O(native.class(string(c))) }

// pool opens an autorelease pool on this thread and returns a function that drains it. Methods whose names do not begin
// with new or copy return objects that belong to the pool: draining releases them, so objects that are used after that
// must be retained.
func pool() (drain func()) {
	runtime.LockOSThread()
	p := autoreleasePoolPush.call()
	return func() {
		autoreleasePoolPop.call(p)
		runtime.UnlockOSThread()
	}
}

// retained retains an object, so that it outlives the pool, and returns it.
func retained[O word](o O) O {
	if o != 0 {
		retain.to(nsObject(o))
	}
	return o
}

// free releases the objects that are not 0.
func free[O word](objects ...O) {
	for _, o := range objects {
		if o != 0 {
			release.to(nsObject(o))
		}
	}
}

// try calls f with the address of an NSError pointer. If f returns nil or NO, try returns the error that f stored
// there. The caller has opened a pool.
func try[R word](f func(nsErrorAddress) R) (R, error) {
	place := new(nsError)
	var pin runtime.Pinner
	pin.Pin(place)
	defer pin.Unpin()
	r := f(nsErrorAddress(unsafe.Pointer(place)))
	if r != 0 {
		return r, nil
	}
	if *place == 0 {
		return 0, errors.New("the call failed without an error message")
	}
	return 0, errors.New(reason(*place))
}

// reason returns the text of an error, in one line.
func reason(e nsError) string {
	return strings.Join(strings.Fields(goString(localizedDescription.to(e))), " ")
}

// toNSString returns an NSString that belongs to the pool.
func toNSString(s string) nsString {
	text := append([]byte(s), 0)
	var pin runtime.Pinner
	pin.Pin(&text[0])
	defer pin.Unpin()
	return stringWithUTF8String.to(classNSString.object(), cString(unsafe.Pointer(&text[0])))
}

func goString(s nsString) string {
	if s == 0 {
		return ""
	}
	at := uintptr(utf8String.to(s))
	n := 0
	for *(*byte)(pointer(at + uintptr(n))) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(pointer(at)), n))
}

// pointer converts an address outside of Go's memory. go vet rejects the plain conversion, which is unsafe for
// addresses of Go's own memory.
func pointer(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }
