// Package backend is WebGPU for package gpu, which runs programs: adapters and their limits, buffers, pipelines and commands of the library.
// Without cgo it has no more than Options.
package backend

import "github.com/rlx-go/rlx/plugins/wgpu/kernels"

// Options change what a device allows and how it is used, for tests; zero values leave it as it is.
type Options struct {
	MaxBinding int64 // bytes that one binding may show
	MaxBuffer  int64 // bytes of one buffer
	MaxGroups  int   // workgroups per dimension

	Memory       int64 // bytes that are free
	NoTimestamps bool  // the device has no clock
	Help         bool  // other devices compile beside it from the start, software adapters included

	AttentionTile *kernels.AttentionTile // as in kernels.Limits
	Tile          *kernels.Tile
}
