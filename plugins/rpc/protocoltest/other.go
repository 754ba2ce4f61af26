//go:build !linux && !darwin && !windows

package protocoltest

import (
	"context"

	"github.com/rlx-go/rlx/plugins/rpc/host"
)

// Run reports that this system cannot run backends.
func Run(ctx context.Context, opts host.Options, _ *Sample, _ string, _ func(string, error)) error {
	_, err := host.Start(ctx, opts)
	return err
}
