package driver

import (
	"fmt"
	"unsafe"
)

// function is a function of libcuda.
type function int

const (
	cuInit function = iota
	cuDriverGetVersion
	cuGetErrorName
	cuGetErrorString
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetAttribute
	cuDeviceTotalMem
	cuDevicePrimaryCtxRetain
	cuCtxSetCurrent
	cuMemGetInfo
	cuMemAlloc
	cuMemFree
	cuMemHostAlloc
	cuMemFreeHost
	cuMemHostRegister
	cuMemHostUnregister
	cuMemcpyAsync
	cuMemcpyHtoDAsync
	cuMemsetD8Async
	cuStreamCreate
	cuStreamSynchronize
	cuStreamWaitEvent
	cuStreamBeginCapture
	cuStreamEndCapture
	cuGraphInstantiate
	cuGraphLaunch
	cuGraphDestroy
	cuGraphExecDestroy
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventQuery
	cuEventSynchronize
	cuEventElapsedTime
	cuLinkCreate
	cuLinkAddData
	cuLinkComplete
	cuLinkDestroy
	cuModuleLoadData
	cuModuleUnload
	cuModuleGetFunction
	cuFuncSetAttribute
	cuLaunchKernel
	cuLaunchKernelEx
)

// symbols are the names that libcuda exports. Those with a suffix are the versions whose arguments this package uses.
var symbols = [...]string{
	cuInit: "cuInit", cuDriverGetVersion: "cuDriverGetVersion", cuGetErrorName: "cuGetErrorName",
	cuGetErrorString: "cuGetErrorString", cuDeviceGetCount: "cuDeviceGetCount", cuDeviceGet: "cuDeviceGet",
	cuDeviceGetName: "cuDeviceGetName", cuDeviceGetAttribute: "cuDeviceGetAttribute",
	cuDeviceTotalMem: "cuDeviceTotalMem_v2", cuDevicePrimaryCtxRetain: "cuDevicePrimaryCtxRetain",
	cuCtxSetCurrent: "cuCtxSetCurrent", cuMemGetInfo: "cuMemGetInfo_v2", cuMemAlloc: "cuMemAlloc_v2",
	cuMemFree: "cuMemFree_v2", cuMemHostAlloc: "cuMemHostAlloc", cuMemFreeHost: "cuMemFreeHost",
	cuMemHostRegister: "cuMemHostRegister_v2", cuMemHostUnregister: "cuMemHostUnregister",
	cuMemcpyAsync: "cuMemcpyAsync", cuMemcpyHtoDAsync: "cuMemcpyHtoDAsync_v2", cuMemsetD8Async: "cuMemsetD8Async",
	cuStreamCreate: "cuStreamCreate", cuStreamSynchronize: "cuStreamSynchronize",
	cuStreamWaitEvent:    "cuStreamWaitEvent",
	cuStreamBeginCapture: "cuStreamBeginCapture_v2", cuStreamEndCapture: "cuStreamEndCapture",
	cuGraphInstantiate: "cuGraphInstantiateWithFlags", cuGraphLaunch: "cuGraphLaunch",
	cuGraphDestroy: "cuGraphDestroy", cuGraphExecDestroy: "cuGraphExecDestroy", cuEventCreate: "cuEventCreate",
	cuEventDestroy: "cuEventDestroy_v2", cuEventRecord: "cuEventRecord", cuEventQuery: "cuEventQuery",
	cuEventSynchronize: "cuEventSynchronize",
	cuEventElapsedTime: "cuEventElapsedTime", cuLinkCreate: "cuLinkCreate_v2", cuLinkAddData: "cuLinkAddData_v2",
	cuLinkComplete: "cuLinkComplete", cuLinkDestroy: "cuLinkDestroy", cuModuleLoadData: "cuModuleLoadData",
	cuModuleUnload: "cuModuleUnload", cuModuleGetFunction: "cuModuleGetFunction",
	cuFuncSetAttribute: "cuFuncSetAttribute", cuLaunchKernel: "cuLaunchKernel",
	cuLaunchKernelEx: "cuLaunchKernelEx",
}

// library calls the functions of libcuda. Arguments are words. Memory that a pointer refers to must be on the heap, as
// that of new values of made is, and must be kept alive by the caller.
type library interface {
	call(f function, args ...uintptr) result
}

// made returns a zeroed value on Go's heap, where the library can write it.
//
//go:noinline
func made[T any]() *T { return new(T) }

// address is the address of a value for the library.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// memory returns n bytes of memory that the library owns.
func memory(at uintptr, n int64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), n)
}

// text returns a string of C.
func text(at uintptr) string {
	if at == 0 {
		return ""
	}
	n := int64(0)
	for memory(at, n+1)[n] != 0 {
		n++
	}
	return string(memory(at, n))
}

// cString returns the bytes of a string of C.
func cString(s string) []byte { return append([]byte(s), 0) }

// result is a CUresult.
type result int32

const (
	success          result = 0
	errorMemory      result = 2
	errorNoDevice    result = 100
	errorNotReady    result = 600
	errorECC         result = 214
	errorFirstSticky result = 700 // illegal address
	errorLastSticky  result = 721
	errorFirstBroken result = 714 // hardware stack error; then illegal instruction, and so on
)

// sticky reports whether the error has destroyed the context, so that every later call fails with it.
func (r result) sticky() bool {
	switch r {
	case errorECC, errorFirstSticky, 702, 710: // 702: a launch took too long; 710: an assertion
		return true
	}
	return errorFirstBroken <= r && r <= errorLastSticky && r != 720 // 720: a cooperative launch is too large
}

// explain returns the library's name and description of an error, such as "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal
// memory access was encountered".
func explain(l library, r result) string {
	get := func(f function) string {
		at := made[uintptr]()
		if l.call(f, uintptr(r), address(at)) != success {
			return ""
		}
		return text(*at)
	}
	if name, about := get(cuGetErrorName), get(cuGetErrorString); name != "" {
		return fmt.Sprintf("%s: %s", name, about)
	}
	return fmt.Sprintf("error %d", int(r))
}
