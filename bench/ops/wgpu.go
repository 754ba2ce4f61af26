//go:build cgo && (darwin || amd64)

package main

import (
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/plugins/wgpu/backend"
)

func init() {
	backends["wgpu"] = func() device.Backend { return backend.New(backend.Options{}) }
	repeats["wgpu"] = backend.Repeat
}
