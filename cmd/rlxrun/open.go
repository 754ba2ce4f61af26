package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/format"
)

// checkpoints are the endings of files that rlxc compiles.
var checkpoints = []string{".safetensors", ".json"}

// openModel opens an artifact and makes every check but those of the weights' digests: verify makes these, all at once
// while the backend starts, or with verifyLazy those of a program before it is loaded. Its structure may take memory bytes; 0: what
// is free.
func openModel(path, mode string, memory int64) (*model, error) {
	if memory == 0 {
		memory, _ = freeMemory() // 0: not known
	}
	v, err := format.Open(path, format.Policy{Weights: format.Lazy, MaxStructure: memory})
	if errors.Is(err, format.CodeOf(38)) {
		return nil, diag.New(device.ErrMemory, path, "%w", err)
	}
	if e, ok := errors.AsType[*diag.Error](err); ok && slices.Contains(checkpoints, filepath.Ext(path)) && errors.Is(err, format.CodeOf(2)) {
		e.WithHint("this looks like a checkpoint, which is compiled first: rlxc %s -o model.rlx", path)
	}
	if err != nil {
		return nil, err
	}
	meta := v.Meta()
	m := &model{path: path, programs: v.Programs(), segment: meta.Segment, precisions: meta.Precisions, file: v.File(), root: v.Root(), unchanged: v.Unchanged, close: v.Close}
	m.weightsOffset, m.weights = v.WeightsSection()
	m.structure = v.StructureSize()
	m.verify = func(ctx context.Context) error {
		if mode == verifyLazy {
			return nil
		}
		return about(path, verifyAll(ctx, v))
	}
	m.verifyProgram = func(p *program.Program) error {
		if mode != verifyLazy {
			return nil
		}
		return about(path, verifyParams(v, p))
	}
	return m, nil
}

// about names the artifact in an error that does not.
func about(path string, err error) error {
	if e, ok := err.(*diag.Error); ok && e.Subject == "" {
		e.Subject = path
	}
	return err
}

// verifyAll checks the digests of all weights, on all cores.
func verifyAll(ctx context.Context, v *format.Verified) error {
	done := make(chan error, 1)
	go func() {
		_, size := v.WeightsSection()
		done <- v.VerifyWeights(0, size)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// verifyParams checks the digests of the weights that a program uses.
func verifyParams(v *format.Verified, p *program.Program) error {
	for _, n := range p.Graph.Params() {
		if err := v.VerifyWeights(p.Places[n.ID].Offset, p.Places[n.ID].Size); err != nil {
			return err
		}
	}
	return nil
}

// encodeProgram is the form in which a backend gets a program: the host's own encoding, never the file's bytes.
func encodeProgram(p *program.Program) ([]byte, error) { return format.EncodeProgram(p) }
