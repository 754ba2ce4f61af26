package driver

import (
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// use loads a program of the conformance suite and runs it once with each of the options, and then once without
// options.
func use(t *testing.T, b *gpu.Backend, opts ...device.RunOptions) error {
	t.Helper()
	p := devicetest.Plain("metal")
	x, err := b.Load(t.Context(), device.Load{Program: p})
	if err != nil {
		return err
	}
	defer x.Close()
	for _, o := range append(opts, device.RunOptions{}) {
		if _, err := x.Run(
			t.Context(), device.Run{Syms: map[string]int64{"N": 3}, IO: tensor.AlignedBytes(int(p.IOSize)),
				Opts: o}); err != nil {
			return err
		}
	}
	return nil
}
