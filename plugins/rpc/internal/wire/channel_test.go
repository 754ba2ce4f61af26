//go:build linux || darwin

package wire_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/internal/campaign"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// TestDirectDeadline checks that receive returns at the context's deadline if the other side never answers.
func TestDirectDeadline(t *testing.T) {
	for _, spin := range []time.Duration{0, time.Millisecond, time.Hour} {
		host, _ := rpctest.ChannelPair(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := host.Receive(ctx, spin); status.Code(err) != codes.DeadlineExceeded {
			t.Error(err)
		}
	}
}

// TestSpin checks that spin returns when a message arrives, when the channel is closed, and when its time has passed,
// and not before, unless it gives up. It does not consume the message.
func TestSpin(t *testing.T) {
	for _, end := range []string{"message", "closed", "time"} {
		host, backend := rpctest.ChannelPair(t)
		limit, start := 24*time.Hour, time.Now()
		var sent atomic.Bool
		switch end {
		case "message", "closed":
			time.AfterFunc(10*time.Millisecond, func() {
				sent.Store(true)
				if end == "closed" {
					backend.Close()
				} else if err := backend.Write(&rlxv1.RunResult{Done: &rlxv1.Done{Generation: 7}}); err != nil {
					t.Error(err)
				}
			})
		case "time":
			limit = 100 * time.Microsecond // which passes undisturbed once in a while, however busy the machine is
		}
		for !host.Spin(limit) && runtime.GOMAXPROCS(0) > 1 {
			start = time.Now()
		}
		over := sent.Load()
		if end == "time" {
			took := time.Since(start)
			over = took >= limit
		}
		if !over && runtime.GOMAXPROCS(0) > 1 { // with one processor, Spin does nothing
			t.Errorf("%s: it returned too early", end)
		}
		if end == "message" {
			host.Spin(rpctest.HangGuard) // returns at once, because the message has not been read
			if done, err := host.Receive(t.Context(), rpctest.HangGuard); err != nil || done.Generation != 7 {
				t.Errorf("received %v, %v", done, err)
			}
		}
	}
}

// TestHostSpin checks that the host spins on a processor of its own only for runs that take no other one.
func TestHostSpin(t *testing.T) {
	for last, want := range map[time.Duration][2]bool{0: {true, true}, 299 * time.Microsecond: {true, true},
		300 * time.Microsecond: {false, true}, 2 * time.Millisecond: {false, true}, 3 * time.Millisecond: {}} {
		if got := [2]bool{wire.HostSpin(last, false) > 0, wire.HostSpin(last, true) > 0}; got != want {
			t.Errorf("after %v: spins on a processor %v, on a GPU %v; want %v", last, got[0], got[1], want)
		}
	}
}

// FuzzDirect sends arbitrary bytes to a host over the run channel, which must return a summary or an error.
func FuzzDirect(t *testing.F) {
	f := campaign.New(t)
	frame := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return append([]byte{byte(len(b)), byte(len(b) >> 8), 0, 0}, b...)
	}
	st, _ := proto.Marshal(status.New(codes.Internal, "no").Proto())
	f.Add(frame(&rlxv1.RunResult{Done: &rlxv1.Done{Generation: 1}}))
	f.Add(frame(&rlxv1.RunResult{Status: st}))
	f.Add(frame(&rlxv1.RunResult{Done: &rlxv1.Done{}, Status: st}))
	f.Add(frame(&rlxv1.RunHeader{Executable: 1, Generation: 1}))
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF})
	f.Add([]byte{9, 0})
	f.Fuzz(func(t testing.TB, b []byte) {
		if len(b) > 1<<16 {
			return // the socket's buffer might be full, and nothing reads from it yet
		}
		host, backend := rpctest.ChannelPair(t)
		backend.Conn.Write(b)
		backend.Close()
		done, err := host.Receive(t.Context(), 0)
		if _, ok := status.FromError(err); !ok || (done == nil) == (err == nil) || err != nil &&
			status.Code(err) == codes.OK {
			t.Fatalf("%v, %v", done, err)
		}
	})
}

// TestSpare checks that a run on some of the processors leaves one to the host, and one on all of them does not.
func TestSpare(t *testing.T) {
	info := device.Info{Devices: []device.Device{{ID: "c", Type: "cpu"}, {ID: "g", Type: "gpu"}}}
	n := runtime.GOMAXPROCS(0)
	for threads, want := range map[int]bool{0: false, n: false, n + 1: false, 1: n > 1, n - 1: n > 1} {
		if got := wire.Spare(info, "c", threads); got != want {
			t.Errorf("%d threads of %d: %v; want %v", threads, n, got, want)
		}
		if !wire.Spare(info, "g", threads) {
			t.Error("a run on a GPU leaves no processor")
		}
	}
}

// TestAccelerated checks which types of devices count as accelerated.
func TestAccelerated(t *testing.T) {
	info := device.Info{Devices: []device.Device{{ID: "g", Type: "gpu"}, {ID: "c", Type: "cpu"}, {ID: "n", Type: "npu"},
		{ID: "s", Type: "software"}}}
	for id, want := range map[string]bool{"": true, "g": true, "c": false, "n": true, "s": false, "x": false} {
		if got := wire.Accelerated(info, id); got != want {
			t.Errorf("%q: %v; want %v", id, got, want)
		}
	}
	if wire.Accelerated(device.Info{}, "") {
		t.Error("a backend without devices has one")
	}
}

// TestClosed checks that closing a channel ends calls that wait for it: a read, and a write that the other side does
// not read.
func TestClosed(t *testing.T) {
	host, _ := rpctest.ChannelPair(t)
	time.AfterFunc(10*time.Millisecond, host.Close)
	if _, err := host.Receive(t.Context(), 0); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	large := &rlxv1.RunHeader{Syms: map[string]int64{string(make([]byte, 3<<20)): 1}}
	host, _ = rpctest.ChannelPair(t)
	time.AfterFunc(10*time.Millisecond, host.Close)
	if err := host.Send(t.Context(), large); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	host, _ = rpctest.ChannelPair(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := host.Send(ctx, large); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
}
