package main

import (
	"context"
	"os"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/task"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/rpc"
)

// CodeArtifactRead is reported where the operating system fails to read an artifact that was fine when it was opened.
var CodeArtifactRead = code.ArtifactRead

// model is a verified artifact, as far as the commands need it.
type model struct {
	path     string
	programs []*program.Program
	segment  *task.Segment // nil: the artifact declares no task
	file     *os.File

	precisions             []string // that a run may choose, the default first; none: f32
	weights, weightsOffset int64    // bytes, in file
	root                   [32]byte
	structure              int64 // bytes of all but the weights

	// verify checks the weights' digests as far as that is done before anything is loaded, verifyProgram the rest of
	// those that a program uses.
	verify        func(context.Context) error
	verifyProgram func(*program.Program) error
	// unchanged fails where somebody has written to the file since it was verified.
	unchanged func() error
	close     func() error
}

// methods lists the methods in the artifact's order.
func (m *model) methods() []string {
	var out []string
	for _, p := range m.programs {
		if !slices.Contains(out, p.Method) {
			out = append(out, p.Method)
		}
	}
	return out
}

// targets lists the programs of a method, one for each target it was compiled for.
func (m *model) targets(method string) []*program.Program {
	var out []*program.Program
	for _, p := range m.programs {
		if p.Method == method {
			out = append(out, p)
		}
	}
	return out
}

// allowedPrecisions are what a run may choose from, the default first.
func (m *model) allowedPrecisions() []string {
	if len(m.precisions) == 0 {
		return []string{device.DefaultPrecision}
	}
	return m.precisions
}

// largestIO is the largest IO space among the programs, in bytes.
func (m *model) largestIO() (n int64) {
	for _, p := range m.programs {
		n = max(n, p.IOSize)
	}
	return n
}

// mapped says where a backend finds the weights.
func (m *model) mapped() rpc.Weights {
	return rpc.Weights{Offset: m.weightsOffset, Size: m.weights, Root: m.root}
}

// weight reads bytes of the weights section.
func (m *model) weight(offset, size int64) ([]byte, error) {
	b := tensor.AlignedBytes(int(size))
	if _, err := m.file.ReadAt(b, m.weightsOffset+offset); err != nil {
		return nil, diag.New(CodeArtifactRead, m.path, "weights cannot be read: %w", unpath(err))
	}
	return b, nil
}
