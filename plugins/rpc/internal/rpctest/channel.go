//go:build linux || darwin

package rpctest

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// ChannelPair returns both ends of a channel.
func ChannelPair(t testing.TB) (host, backend *wire.RunChannel) {
	t.Helper()
	host, far, err := wire.NewRunChannel()
	if err != nil {
		t.Fatal(err)
	}
	if backend, err = wire.OpenRunChannel(far); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		host.Close()
		backend.Close()
	})
	return host, backend
}
