// Package backend implements the interfaces of package gpu with WebGPU. Package gpu runs programs; this one provides
// adapters, buffers, pipelines and commands through a native library. Without cgo it has only Options.
package backend

import "github.com/rlx-go/rlx/plugins/internal/gpu/kernels"

// Options lower the limits of a device for tests. Zero values change nothing.
type Options struct {
	MaxBinding int64 // largest binding in bytes
	MaxBuffer  int64 // largest buffer in bytes
	MaxGroups  int   // workgroups per dimension

	Memory       int64 // free memory in bytes
	NoTimestamps bool  // treat the device as one without a clock
	Help         bool  // helpers compile from the start, on software adapters too; see compile.go

	Shaders int // as in gpu.Limits

	AttentionTile *kernels.AttentionTile // as in kernels.Limits
	Tile          *kernels.Tile
}
