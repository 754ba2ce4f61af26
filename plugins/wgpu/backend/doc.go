// Package backend runs programs on GPUs through WebGPU. Buffers, pipelines and bind groups are made when a program is
// loaded; a run submits commands that were recorded before it. Package kernels decides which shaders run an op; nothing here
// knows an op.
//
// It imports core and plugins/wgpu/kernels, never format, plugins/rpc or the compiler, so that it can be tested in process.
// Without cgo the package is empty.
package backend

// Options change what a device allows and how it is used, for tests; zero values leave it as it is.
type Options struct {
	MaxBinding int64 // bytes that one binding may show
	MaxBuffer  int64 // bytes of one buffer
	MaxGroups  int   // workgroups per dimension

	Memory       int64 // bytes that are free
	NoTimestamps bool  // the device has no clock
	Help         bool  // other devices compile beside it from the start, software adapters included
}
