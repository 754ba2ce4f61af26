//go:build linux || darwin

package rpctest

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

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

// DoorbellPair returns both ends of a channel with a doorbell, and the region as the backend has mapped it.
func DoorbellPair(t testing.TB) (host, backend *wire.RunChannel, region *wire.Region) {
	t.Helper()
	host, backend = ChannelPair(t)
	own, err := wire.NewRegion()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(own.File.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if region, err = wire.OpenRegion(os.NewFile(uintptr(fd), "region")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		own.Close()
		region.Close()
	})
	backend.ServeDoorbell(region)
	if !own.HasDoorbell() {
		t.Fatal("the host does not see the doorbell")
	}
	host.UseDoorbell(own)
	return host, backend, region
}
