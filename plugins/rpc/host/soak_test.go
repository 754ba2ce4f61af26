//go:build linux

package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
)

// TestSoak runs a program a thousand times in each of many sessions. One call in a hundred is wrong or cancelled, and
// every other session ends with a killed backend. Results stay right; descriptors, goroutines, children and the memory
// in use, of the host and of each backend, do not grow. A million runs:
//
//	RLX_SOAK=1000 go test -timeout 1h -v -run TestSoak ./plugins/rpc
func TestSoak(t *testing.T) {
	const runs = 1000
	p, in := rpctest.Program(t), rpctest.Input(3, 1)
	want, run := rpctest.WantOutput(t, p, 3, in), device.Run{Syms: map[string]int64{"N": 3}}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	good, bad := 0, 0
	session := func(round int) {
		opts, _ := testOptions(t, "good")
		defer opts.Artifact.Close()
		s, err := Start(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		e, err := s.LoadMapped(t.Context(), testLoad(p))
		if err != nil {
			t.Fatal(err)
		}
		warm := 0
		for i := range runs {
			switch {
			case i%300 == 99: // an input that is too short
				if _, _, err := e.RunTensors(t.Context(), run, [][]byte{in[1:]}); err == nil ||
					errors.Is(err, device.ErrLost) {
					t.Fatalf("a wrong input: %v", err)
				}
				bad++
			case i%300 == 199: // a size out of range
				if _, _, err := e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": -1}},
					[][]byte{in}); err == nil || errors.Is(err, device.ErrLost) {
					t.Fatalf("a wrong size: %v", err)
				}
				bad++
			case i%300 == 299:
				if _, _, err := e.RunTensors(cancelled, run, [][]byte{in}); !errors.Is(err, context.Canceled) {
					t.Fatalf("a cancelled run: %v", err)
				}
				bad++
			}
			out, _, err := e.RunTensors(t.Context(), run, [][]byte{in})
			if err != nil || !bytes.Equal(out[0], want) {
				t.Fatalf("round %d, run %d: %v, %v", round, i, out, err)
			}
			good++
			if i == runs/4 {
				warm = resident(t, s.PID())
			}
		}
		if n := resident(t, s.PID()); n > warm+16<<20 {
			t.Errorf("the backend has %d bytes in memory after %d runs, and had %d after %d", n, runs, warm, runs/4)
		}
		if round%2 == 1 {
			syscall.Kill(s.PID(), syscall.SIGKILL)
			if _, _, err := e.RunTensors(t.Context(), run, [][]byte{in}); !errors.Is(err, device.ErrLost) {
				t.Fatalf("a run on a killed backend: %v", err)
			}
		}
	}
	for i := range 2 { // the first sessions start things that the Go runtime keeps, such as threads and timers
		session(i)
	}
	files, goroutines, heap := openFiles(t), runtime.NumGoroutine(), heapInUse()
	for i := range rounds(t, 2) {
		session(i)
	}
	for i := 0; (openFiles(t) > files || runtime.NumGoroutine() > goroutines) && i < 200; i++ {
		time.Sleep(50 * time.Millisecond) // the goroutines of closed connections end a little later
	}
	if n := openFiles(t); n > files {
		t.Errorf("%d descriptors at the end; %d at the start", n, files)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines at the end; %d at the start", n, goroutines)
	}
	if c := children(t); len(c) > 0 {
		t.Errorf("children left: %v", c)
	}
	end := heapInUse()
	if end > heap+4<<20 {
		t.Errorf("%d bytes of heap at the end; %d at the start", end, heap)
	}
	t.Logf("%d runs, %d bad calls; heap %d, then %d", good, bad, heap, end)
}

// heapInUse returns the size of reachable memory.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // the first may only have queued finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// resident returns how many bytes of memory a process uses.
func resident(t *testing.T, pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
