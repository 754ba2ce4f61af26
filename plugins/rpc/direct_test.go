//go:build linux || darwin

package rpc

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/internal/campaign"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// channelPair returns both ends of a channel.
func channelPair(t testing.TB) (host, backend *runChannel) {
	t.Helper()
	host, far, err := newRunChannel()
	if err != nil {
		t.Fatal(err)
	}
	if backend, err = openRunChannel(far); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		host.close()
		backend.close()
	})
	return host, backend
}

// TestDirect checks that runs over the run channel return the same results and errors as runs over gRPC.
func TestDirect(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	s := start(t, opts)
	if !s.directRuns {
		t.Fatal("the backend does not serve the run channel")
	}
	p := testProgram(t)
	e, err := s.LoadMapped(t.Context(), testLoad(p))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		s.directRuns = i%2 == 0
		n := 1 + i*37
		in := testInput(n, uint64(i))
		out, st, err := e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": int64(n)}, Opts: device.RunOptions{Profile: i%3 == 0}}, [][]byte{in})
		if err != nil || !bytes.Equal(out[0], wantOutput(t, p, n, in)) || i%3 == 0 && len(st.Steps) != len(p.Steps) {
			t.Fatalf("run %d: %d step times, %v", i, len(st.Steps), err)
		}
		_, _, err = e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": 1}, State: &State{s: s, id: 99, size: 1 << 20}}, [][]byte{testInput(1, 1)})
		wantCode(t, err, ErrRefused, "there is no state 99")
	}
}

// TestDirectClosed checks that the host returns an error long before the run's deadline if a backend closes the channel but keeps running.
func TestDirectClosed(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	s := start(t, opts)
	e, err := s.LoadMapped(t.Context(), testLoad(testProgram(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.runsEnd.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the host has not closed the backend's end: %v", err)
	}
	host, backend := channelPair(t)
	backend.close()
	s.direct = host
	_, _, err = e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": 1}}, [][]byte{testInput(1, 1)})
	wantCode(t, err, ErrProtocol, "closed its connection")
	<-s.released
	wantGone(t, s, opts)
}

// TestDirectDeadline checks that receive returns at the context's deadline if the other side never answers.
func TestDirectDeadline(t *testing.T) {
	for _, spin := range []time.Duration{0, time.Millisecond, time.Hour} {
		host, _ := channelPair(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := host.receive(ctx, spin); status.Code(err) != codes.DeadlineExceeded {
			t.Error(err)
		}
	}
}

// TestSpin checks that spin returns when a message arrives, when the channel is closed, and when its time has passed, and not before. It does not
// consume the message.
func TestSpin(t *testing.T) {
	for _, end := range []string{"message", "closed", "time"} {
		host, backend := channelPair(t)
		limit, start := 24*time.Hour, time.Now()
		var sent atomic.Bool
		switch end {
		case "message", "closed":
			time.AfterFunc(10*time.Millisecond, func() {
				sent.Store(true)
				if end == "closed" {
					backend.close()
				} else if err := backend.write(&rlxv1.RunResult{Done: &rlxv1.Done{Generation: 7}}); err != nil {
					t.Error(err)
				}
			})
		case "time":
			limit = 10 * time.Millisecond
		}
		host.spin(limit)
		over := sent.Load()
		if end == "time" {
			took := time.Since(start)
			over = took >= limit
		}
		if !over && runtime.NumCPU() > 1 { // with one processor, spin does nothing
			t.Errorf("%s: it returned too early", end)
		}
		if end == "message" {
			host.spin(hangGuard) // returns at once, because the message has not been read
			if done, err := host.receive(t.Context(), hangGuard); err != nil || done.Generation != 7 {
				t.Errorf("received %v, %v", done, err)
			}
		}
	}
}

// FuzzDirect sends arbitrary bytes over the run channel, first as a hostile backend and then as a hostile host. The host must return a
// summary or an error, and the backend must answer or close the channel.
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
		host, backend := channelPair(t)
		backend.conn.Write(b)
		backend.close()
		done, err := host.receive(t.Context(), 0)
		if _, ok := status.FromError(err); !ok || (done == nil) == (err == nil) || err != nil && status.Code(err) == codes.OK {
			t.Fatalf("%v, %v", done, err)
		}
		srv, err := newServer(ServeConfig{Name: "ref", Backend: refBackend{}, Decode: decodeText, Log: newLogSink(nil).log}, &childFiles{})
		if err != nil {
			t.Fatal(err)
		}
		host, backend = channelPair(t)
		go host.conn.Write(b)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			srv.serveRuns(backend)
		}()
		host.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		for err = nil; err == nil; {
			err = host.read(&rlxv1.RunResult{})
		}
		if errors.Is(err, errTooLong) {
			t.Fatal(err)
		}
		host.close()
		<-ended
	})
}

// TestAccelerated checks which types of devices count as accelerated.
func TestAccelerated(t *testing.T) {
	info := device.Info{Devices: []device.Device{{ID: "g", Type: "gpu"}, {ID: "c", Type: "cpu"}, {ID: "n", Type: "npu"}, {ID: "s", Type: "software"}}}
	for id, want := range map[string]bool{"": true, "g": true, "c": false, "n": true, "s": false, "x": false} {
		if got := accelerated(info, id); got != want {
			t.Errorf("%q: %v; want %v", id, got, want)
		}
	}
	if accelerated(device.Info{}, "") {
		t.Error("a backend without devices has one")
	}
}
