//go:build !linux && !windows

package backend

import (
	"runtime"

	"github.com/rlx-go/rlx/core/tensor"
)

func allocate(n int64) ([]byte, func(), error) { return tensor.AlignedBytes(int(n)), nil, nil }

func physicalMemory() int64 { return 0 }

func processorName() string { return runtime.GOARCH }
