package driver

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// method implements a method of a class, or of a class object. a holds the arguments.
type method func(f *fake, o *object, a []uintptr) uintptr

func getter(key string) method {
	return func(_ *fake, o *object, _ []uintptr) uintptr { return o.values[key] }
}

func setter(key string) method {
	return func(f *fake, o *object, a []uintptr) uintptr {
		o.values[key] = a[0]
		if _, isObject := f.objects[a[0]]; isObject {
			f.hold(o, a[0])
		}
		return 0
	}
}

func maker(class string) method {
	return func(f *fake, _ *object, _ []uintptr) uintptr { return f.make(class).at }
}

// methods are the methods that the driver uses. A key is a class and a selector.
var methods map[string]method

func init() {
	methods = map[string]method{
		"class NSString stringWithUTF8String:": func(f *fake, _ *object, a []uintptr) uintptr {
			n := 0
			for *(*byte)(pointer(a[0] + uintptr(n))) != 0 {
				n++
			}
			return f.autorelease(f.string(string(unsafe.Slice((*byte)(pointer(a[0])), n))))
		},
		"NSString UTF8String": func(_ *fake, o *object, _ []uintptr) uintptr {
			return uintptr(unsafe.Pointer(&o.text[0]))
		},
		"NSArray count":          func(_ *fake, o *object, _ []uintptr) uintptr { return uintptr(len(o.holds)) },
		"NSArray objectAtIndex:": func(_ *fake, o *object, a []uintptr) uintptr { return o.holds[a[0]] },
		"class NSArray arrayWithObject:": func(f *fake, _ *object, a []uintptr) uintptr {
			l := f.make("NSArray")
			f.hold(l, a[0])
			return f.autorelease(l)
		},
		"class NSURL fileURLWithPath:": func(f *fake, _ *object, a []uintptr) uintptr {
			u := f.make("NSURL")
			u.text = f.get(a[0]).text
			return f.autorelease(u)
		},
		"NSError code":     getter("code"),
		"NSError domain":   getter("domain"),
		"NSError userInfo": getter("info"),
		"NSDictionary objectForKey:": func(f *fake, o *object, a []uintptr) uintptr {
			return o.values[f.get(a[0]).string()]
		},
		"NSError localizedDescription": getter("text"),

		"MTLDevice name":                         getter("name"),
		"MTLDevice recommendedMaxWorkingSetSize": func(*fake, *object, []uintptr) uintptr { return 8 << 30 },
		"MTLDevice currentAllocatedSize": func(f *fake, _ *object, _ []uintptr) uintptr {
			n := uint64(0)
			for _, o := range f.objects {
				n += o.size
			}
			return uintptr(n)
		},
		"MTLDevice maxBufferLength": func(f *fake, _ *object, _ []uintptr) uintptr {
			return uintptr(f.most)
		},
		"MTLDevice maxThreadgroupMemoryLength": func(*fake, *object, []uintptr) uintptr { return 32 << 10 },
		"MTLDevice hasUnifiedMemory":           func(*fake, *object, []uintptr) uintptr { return word8(true) },
		"MTLDevice supportsFamily:": func(f *fake, _ *object, a []uintptr) uintptr {
			return word8(a[0] <= 1000+f.family)
		},
		"MTLDevice newCommandQueue": maker("MTLCommandQueue"),
		"MTLDevice newBufferWithLength:options:": func(f *fake, _ *object, a []uintptr) uintptr {
			if a[0] == 0 || a[1] != 0 {
				panic(fmt.Sprintf("a buffer of %d bytes with options %d", a[0], a[1]))
			}
			b, err := f.shim.NewBuffer("", int64(a[0]), gpu.Storage)
			if err != nil {
				return 0
			}
			o := f.make("MTLBuffer")
			o.buffer, o.size, o.free = b, uint64(a[0]), b.Release
			return o.at
		},
		"MTLDevice newBufferWithBytesNoCopy:length:options:deallocator:": func(
			f *fake, _ *object, a []uintptr) uintptr {
			if a[0]%(16<<10) != 0 || a[1]%(16<<10) != 0 || a[1] == 0 || int(a[1]) > f.most || a[2] != 0 || a[3] != 0 {
				panic(fmt.Sprintf("a buffer over %d bytes at %#x with options %d", a[1], a[0], a[2]))
			}
			b, err := f.shim.NewBuffer("", int64(a[1]), gpu.Storage)
			if err != nil {
				return 0
			}
			o := f.make("MTLBuffer")
			o.buffer, o.size, o.over = b, uint64(a[1]), unsafe.Slice((*byte)(pointer(a[0])), a[1])
			o.free = b.Release
			if f.flat {
				o.size = 0
			}
			return o.at
		},
		"MTLBuffer length": func(_ *fake, o *object, _ []uintptr) uintptr { return uintptr(o.size) },
		"MTLBuffer contents": func(_ *fake, o *object, _ []uintptr) uintptr {
			return uintptr(unsafe.Pointer(&o.buffer.Bytes(int64(o.size))[0]))
		},

		"class MTLCompileOptions new":                      maker("MTLCompileOptions"),
		"MTLCompileOptions setFastMathEnabled:":            setter("fast"),
		"MTLCompileOptions setMathMode:":                   setter("mode"),
		"MTLCompileOptions setMathFloatingPointFunctions:": setter("functions"),
		"MTLDevice newLibraryWithSource:options:error:": func(f *fake, _ *object, a []uintptr) uintptr {
			want := map[string]uintptr{"mode": 0, "functions": 1}
			if f.old {
				want = map[string]uintptr{"fast": 0}
			}
			if o := f.get(a[1]).values; !maps.Equal(o, want) {
				panic(fmt.Sprintf("the settings for a library are %v; want %v", o, want))
			}
			c, ok := f.kernels[f.get(a[0]).string()]
			if !ok {
				return f.fail(a[2], "this text was not compiled for the shim")
			}
			l := f.make("MTLLibrary")
			l.compiled = c
			return l.at
		},
		"MTLLibrary newFunctionWithName:": func(f *fake, o *object, a []uintptr) uintptr {
			if f.get(a[0]).string() != o.compiled.kernel.Entry {
				return 0
			}
			fn := f.make("MTLFunction")
			fn.compiled = o.compiled
			f.hold(fn, o.at)
			return fn.at
		},
		"class MTLComputePipelineDescriptor new":                         maker("MTLComputePipelineDescriptor"),
		"MTLComputePipelineDescriptor setComputeFunction:":               setter("function"),
		"MTLComputePipelineDescriptor setMaxTotalThreadsPerThreadgroup:": setter("threads"),
		"MTLComputePipelineDescriptor setBinaryArchives:":                setter("archives"),
		"MTLDevice newComputePipelineStateWithDescriptor:options:reflection:error:": func(
			f *fake, _ *object, a []uintptr) uintptr {
			d := f.get(a[0])
			c := f.get(d.values["function"]).compiled
			if a[1] != 0 && (a[1] != 4 || !f.archived(d, c)) {
				return f.fail(a[3], "not in the archive")
			}
			if c.kernel.Matrices && f.family < 7 {
				panic("a kernel with simdgroup matrices on a GPU that lacks them")
			}
			s := f.make("MTLComputePipelineState")
			s.compiled, s.values["threads"] = c, d.values["threads"]
			return s.at
		},
		"MTLComputePipelineState maxTotalThreadsPerThreadgroup": getter("threads"),
		"MTLComputePipelineState threadExecutionWidth": func(f *fake, _ *object, _ []uintptr) uintptr {
			return f.width
		},
		"class MTLBinaryArchiveDescriptor new": maker("MTLBinaryArchiveDescriptor"),
		"MTLBinaryArchiveDescriptor setUrl:":   setter("url"),
		"MTLDevice newBinaryArchiveWithDescriptor:error:": func(f *fake, _ *object, a []uintptr) uintptr {
			ar := f.make("MTLBinaryArchive")
			if url := f.get(a[0]).values["url"]; url != 0 {
				text, err := os.ReadFile(f.get(url).string())
				if err != nil || !strings.HasPrefix(string(text), "archive") {
					f.release(ar.at)
					return f.fail(a[1], "no archive")
				}
				ar.text = text
			} else {
				ar.text = []byte("archive\n")
			}
			return ar.at
		},
		"MTLBinaryArchive addComputePipelineFunctionsWithDescriptor:error:": func(
			f *fake, o *object, a []uintptr) uintptr {
			o.text = append(append(o.text, f.get(f.get(a[0]).values["function"]).compiled.kernel.Text...), 0)
			return word8(true)
		},
		"MTLBinaryArchive serializeToURL:error:": func(f *fake, o *object, a []uintptr) uintptr {
			if err := os.WriteFile(f.get(a[0]).string(), o.text, 0o600); err != nil {
				return f.fail(a[1], err.Error())
			}
			return word8(true)
		},

		"class MTLCommandBufferDescriptor new":        maker("MTLCommandBufferDescriptor"),
		"MTLCommandBufferDescriptor setErrorOptions:": setter("errorOptions"),
		"MTLCommandQueue commandBufferWithDescriptor:": func(f *fake, _ *object, a []uintptr) uintptr {
			for f.waiting >= 64 {
				if idle, err := f.shim.Poll(); err != nil || idle && f.waiting >= 64 {
					panic("commandBuffer waits forever: 64 were made and not committed")
				}
			}
			o := f.make("MTLCommandBuffer")
			o.encoder, _ = f.shim.NewEncoder("")
			o.values["errorOptions"] = f.get(a[0]).values["errorOptions"]
			f.waiting++
			f.encoded++
			o.free = func() {
				if o.open != 0 {
					panic("a command buffer is freed with an open encoder")
				}
				if o.values["status"] == 0 {
					f.waiting--
				}
			}
			return f.autorelease(o)
		},
		"MTLCommandBuffer computeCommandEncoder": beginEncoder("MTLComputeCommandEncoder"),
		"MTLCommandBuffer blitCommandEncoder":    beginEncoder("MTLBlitCommandEncoder"),
		"MTLComputeCommandEncoder setLabel:":     labelEncoder,
		"MTLBlitCommandEncoder setLabel:":        labelEncoder,
		"MTLCommandBufferEncoderInfo label":      getter("label"),
		"MTLCommandBufferEncoderInfo errorState": getter("state"),
		"MTLComputeCommandEncoder endEncoding":   finishEncoder,
		"MTLBlitCommandEncoder endEncoding":      finishEncoder,
		"MTLCommandBuffer commit": func(f *fake, o *object, _ []uintptr) uintptr {
			if o.open != 0 || o.values["status"] != 0 {
				panic("a command buffer is committed twice, or with an open encoder")
			}
			for _, h := range o.holds {
				f.get(h).copyToShim()
			}
			c, err := o.encoder.Finish()
			if err == nil {
				err = f.shim.Submit(c)
			}
			if err != nil {
				panic(err)
			}
			o.values["status"] = 2
			o.refs++ // until it ends
			f.shim.OnDone(func() {
				f.waiting--
				for _, h := range o.holds {
					f.get(h).copyFromShim()
				}
				o.ended, o.endTime, o.values["status"] = true, time.Since(f.began), 4
				if f.status != nil && f.status.hits(o.labels) {
					o.values["status"] = 5
					o.values["error"] = f.errorOf(o).at
					o.holds = append(o.holds, o.values["error"])
				}
				f.release(o.at)
			})
			return 0
		},
		"MTLCommandBuffer status": func(f *fake, o *object, _ []uintptr) uintptr {
			if o.values["status"] == 2 {
				if _, err := f.shim.Poll(); err != nil {
					panic(err)
				}
			}
			f.seen = f.seen || o.values["status"] == 5
			if o.values["status"] == 4 && f.seen && f.late > 0 {
				f.late--
				return 2
			}
			return o.values["status"]
		},
		"MTLCommandBuffer error": getter("error"),

		"MTLComputeCommandEncoder setComputePipelineState:": func(f *fake, o *object, a []uintptr) uintptr {
			o.pipeline = f.get(a[0])
			f.hold(o.commands, a[0])
			return 0
		},
		"MTLComputeCommandEncoder setBuffers:offsets:withRange:": func(f *fake, o *object, a []uintptr) uintptr {
			if a[2] != 0 || a[3] == 0 || a[3] > 30 {
				panic(fmt.Sprintf("buffers %d to %d", a[2], a[3]))
			}
			buffers, offsets := unsafe.Slice((*uintptr)(pointer(a[0])), a[3]),
				unsafe.Slice((*uint64)(pointer(a[1])), a[3])
			o.pieces = nil
			for i, b := range buffers {
				f.hold(o.commands, b)
				o.pieces = append(
					o.pieces,
					gpu.Piece{Buffer: f.get(b).buffer, Offset: int64(offsets[i]),
						Size: int64(f.get(b).size - offsets[i])})
			}
			return 0
		},
		"MTLComputeCommandEncoder setBytes:length:atIndex:": func(_ *fake, o *object, a []uintptr) uintptr {
			if a[1] > 4096 || int(a[2]) != len(o.pieces) {
				panic(fmt.Sprintf("%d bytes at index %d", a[1], a[2]))
			}
			o.sizes = slices.Clone(unsafe.Slice((*uint32)(pointer(a[0])), a[1]/4))
			return 0
		},
		"MTLComputeCommandEncoder setThreadgroupMemoryLength:atIndex:": func(_ *fake, o *object, a []uintptr) uintptr {
			if a[0]%16 != 0 || a[1] != 0 {
				panic(fmt.Sprintf("%d bytes of threadgroup memory %d", a[0], a[1]))
			}
			o.values["shared"] = a[0]
			return 0
		},
		"MTLComputeCommandEncoder dispatchThreadgroups:threadsPerThreadgroup:": func(
			f *fake, o *object, a []uintptr) uintptr {
			groups, threads := (*[3]uint64)(pointer(a[0])), (*[3]uint64)(pointer(a[1]))
			c := o.pipeline.compiled
			if int(threads[0]) != c.kernel.Threads || threads[1] != 1 || threads[2] != 1 || groups[2] != 1 ||
				groups[0]*groups[1] == 0 {
				panic(fmt.Sprintf("%v threads in %v groups; the kernel has %d", threads, groups, c.kernel.Threads))
			}
			if c.kernel.Buffers != len(o.pieces) || len(o.sizes) != len(o.pieces) ||
				c.kernel.Shared > int(o.values["shared"]) {
				panic(
					fmt.Sprintf("%d buffers, %d sizes and %d bytes of threadgroup memory for %+v", len(o.pieces),
						len(o.sizes), o.values["shared"], c.kernel))
			}
			for i := range o.pieces {
				if int64(o.sizes[i]) > o.pieces[i].Size {
					panic(fmt.Sprintf("buffer %d shows %d bytes of %d", i, o.sizes[i], o.pieces[i].Size))
				}
				o.pieces[i].Size = int64(o.sizes[i])
			}
			b, err := f.shim.Bind("", c.pipeline, o.pieces)
			if err != nil {
				panic(err)
			}
			o.commands.encoder.Dispatch(c.pipeline, b, uint32(groups[0]), uint32(groups[1]))
			*groups, *threads = [3]uint64{}, [3]uint64{} // the callee owns the structs
			return 0
		},
		"MTLBlitCommandEncoder fillBuffer:range:value:": func(f *fake, o *object, a []uintptr) uintptr {
			if a[3] != 0 {
				panic("the shim fills with 0")
			}
			return check(o.commands.encoder.Clear(f.piece(o, a[0], a[1], a[2])))
		},
		"MTLBlitCommandEncoder copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:": func(
			f *fake, o *object, a []uintptr) uintptr {
			from, to := f.piece(o, a[0], a[1], a[4]), f.piece(o, a[2], a[3], a[4])
			return check(o.commands.encoder.Copy(to.Buffer, to.Offset, from))
		},
	}
}

// copyToShim copies the memory of the process that a buffer lies over to the memory of the shim, whose kernels run in
// another process. It does so when a command buffer is committed, unless another one uses the buffer already. If the
// memory is no longer mapped, the test crashes here.
func (o *object) copyToShim() {
	if o.over != nil {
		if o.users == 0 {
			copy(o.buffer.Bytes(int64(len(o.over))), o.over)
		}
		o.users++
	}
}

// copyFromShim copies the memory of the shim back when a command buffer has ended, if it has changed. If the memory of
// the process is read-only or no longer mapped, the test crashes here.
func (o *object) copyFromShim() {
	if o.over != nil {
		if b := o.buffer.Bytes(int64(len(o.over))); !bytes.Equal(o.over, b) {
			copy(o.over, b)
		}
		o.users--
	}
}

// check panics if err is not nil. It returns 0, the result of a method without one.
func check(err error) uintptr {
	if err != nil {
		panic(err)
	}
	return 0
}

// piece returns a range of a buffer for an encoder. The range must consist of whole words, as macOS requires.
func (f *fake) piece(o *object, at, offset, size uintptr) gpu.Piece {
	b := f.get(at)
	if size == 0 || offset%4 != 0 || size%4 != 0 || uint64(offset+size) > b.size {
		panic(fmt.Sprintf("%d bytes at %d of a buffer of %d", size, offset, b.size))
	}
	f.hold(o.commands, at)
	return gpu.Piece{Buffer: b.buffer, Offset: int64(offset), Size: int64(size)}
}

// archived reports whether the archives of a pipeline descriptor contain a kernel.
func (f *fake) archived(d *object, c compiled) bool {
	list := d.values["archives"]
	return list != 0 && strings.Contains(string(f.get(f.get(list).holds[0]).text), c.kernel.Text+"\x00")
}

func beginEncoder(class string) method {
	return func(f *fake, o *object, _ []uintptr) uintptr {
		if o.open != 0 || o.values["status"] != 0 {
			panic("the command buffer is committed or has an open encoder")
		}
		e := f.make(class)
		e.commands = o
		e.free = func() {
			if !e.ended {
				panic("an encoder is freed before endEncoding")
			}
		}
		o.open = e.at
		f.hold(o, e.at)
		return f.autorelease(e)
	}
}

// labelEncoder copies the label, as Metal does.
func labelEncoder(f *fake, o *object, a []uintptr) uintptr {
	o.text = slices.Clone(f.get(a[0]).text)
	return 0
}

// errorOf returns the NSError of a failed command buffer. It reports the state of each encoder if the command buffer
// was made with the option for that.
func (f *fake) errorOf(o *object) *object {
	e := f.make("NSError")
	e.values["domain"], e.values["code"], e.values["text"] = f.string(f.status.domain).at, uintptr(f.status.code),
		f.string("it went wrong").at
	info := f.make("NSDictionary")
	e.values["info"] = info.at
	e.holds = []uintptr{e.values["domain"], e.values["text"], info.at}
	if o.values["errorOptions"] != 1 || f.status.silent {
		return e
	}
	list := f.make("NSArray")
	info.values["MTLCommandBufferEncoderInfoErrorKey"], info.holds = list.at, []uintptr{list.at}
	state := uintptr(1) // completed
	for _, label := range o.labels {
		one := f.make("MTLCommandBufferEncoderInfo")
		one.values["label"] = f.string(label).at
		one.holds = []uintptr{one.values["label"]}
		list.holds = append(list.holds, one.at)
		one.values["state"] = state
		if stopped := f.status.stops(label); state == 1 && stopped != 0 {
			one.values["state"] = stopped
			if stopped == 4 {
				state = 3 // pending
			}
		}
	}
	return e
}

func finishEncoder(f *fake, o *object, _ []uintptr) uintptr {
	if o.ended || o.commands.open != o.at {
		panic("endEncoding twice")
	}
	o.ended, o.commands.open = true, 0
	label := ""
	if o.text != nil {
		label = o.string()
	}
	o.commands.labels = append(o.commands.labels, label)
	return 0
}
