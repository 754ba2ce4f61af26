//go:build linux || darwin

package host

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
)

// TestDirect checks that runs over the run channel return the same results and errors as runs over gRPC.
func TestDirect(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	s := start(t, opts)
	if !s.directRuns || !s.region.HasDoorbell() {
		t.Fatal("the backend does not serve the run channel, or has no doorbell")
	}
	p := rpctest.Program(t)
	e, err := s.LoadMapped(t.Context(), testLoad(p))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		s.directRuns = i%2 == 0
		n := 1 + i*37
		in := rpctest.Input(n, uint64(i))
		out, st, err := e.RunTensors(
			t.Context(), device.Run{Syms: map[string]int64{"N": int64(n)}, Opts: device.RunOptions{Profile: i%3 == 0}},
			[][]byte{in})
		if err != nil || !bytes.Equal(out[0], rpctest.WantOutput(t, p, n, in)) || i%3 == 0 &&
			len(st.Steps) != len(p.Steps) {
			t.Fatalf("run %d: %d step times, %v", i, len(st.Steps), err)
		}
		_, _, err = e.RunTensors(
			t.Context(), device.Run{Syms: map[string]int64{"N": 1}, State: &State{s: s, id: 99, size: 1 << 20}},
			[][]byte{rpctest.Input(1, 1)})
		wantCode(t, err, code.Refused, "there is no state 99")
	}
}

// TestDirectClosed checks that the host returns an error long before the run's deadline if a backend closes the channel
// but keeps running.
func TestDirectClosed(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	s := start(t, opts)
	e, err := s.LoadMapped(t.Context(), testLoad(rpctest.Program(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.runsEnd.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the host has not closed the backend's end: %v", err)
	}
	host, backend := rpctest.ChannelPair(t)
	backend.Close()
	s.direct = host
	_, _, err = e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": 1}}, [][]byte{rpctest.Input(1, 1)})
	wantCode(t, err, code.Protocol, "closed its connection")
	<-s.released
	wantGone(t, s, opts)
}

// TestDoorbellLies checks that the host ends a backend that announces, while it computes, a message that it has not
// written, and that false claims about who waits change nothing.
func TestDoorbellLies(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"0x7FFFFFFF", "0x100000000", "-1", "0x7000000040"} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			opts, _ := testOptions(t, "ring="+word+"@run:1")
			opts.Timeouts.Step = time.Second
			s := start(t, opts)
			_, err := runOnce(t.Context(), t, s, 1)
			if !errors.Is(err, code.Stopped) { // the host has slept, and was not woken
				wantCode(t, err, code.Protocol)
			}
			<-s.released
			wantGone(t, s, opts)
		})
	}
	opts, _ := testOptions(t, "wait-flags@run:2")
	s := start(t, opts)
	p := rpctest.Program(t)
	e, err := s.LoadMapped(t.Context(), testLoad(p))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		in := rpctest.Input(3, uint64(i))
		out, _, err := e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": 3}}, [][]byte{in})
		if err != nil || !bytes.Equal(out[0], rpctest.WantOutput(t, p, 3, in)) {
			t.Fatalf("run %d: %v", i, err)
		}
	}
}
