//go:build linux || darwin

package host

import (
	"bytes"
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// TestPrecision checks that a backend receives a precision that it lists, and that both host and backend refuse any
// other.
func TestPrecision(t *testing.T) {
	t.Parallel()
	p := rpctest.Program(t)
	load := func(s *Session, precision string) (*Executable, error) {
		o := testLoad(p)
		o.Precision = precision
		return s.LoadMapped(t.Context(), o)
	}
	for _, listed := range []bool{true, false} {
		opts, _ := testOptions(t, map[bool]string{true: "precise@", false: "good"}[listed])
		s := start(t, opts)
		for _, name := range []string{"", "f32", "bf16", "f16"} {
			ok := name == "" || name == "f32" || name == "bf16" && listed
			text := "backend ref: does not compute in " + name + "; it has " +
				map[bool]string{true: "f32, bf16", false: "f32"}[listed]
			e, err := load(s, name)
			if !ok {
				wantCode(t, err, device.ErrUnsupported, text)
				// Without the check of the host, the backend refuses it.
				honest := s.info
				s.info.Precisions = []string{name}
				_, err = load(s, name)
				wantCode(t, err, device.ErrUnsupported, text[len("backend ref: "):])
				s.info = honest
				continue
			}
			if err != nil || e.Kernels()[0].Op != "matmul"+name {
				t.Fatalf("%q: %v, %v", name, e, err)
			}
			out, _, err := e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": 2}},
				[][]byte{rpctest.Input(2, 1)})
			if err != nil || !bytes.Equal(out[0], rpctest.WantOutput(t, p, 2, rpctest.Input(2, 1))) {
				t.Errorf("%q: %v", name, err)
			}
		}
		// through the interface
		exe, err := s.Load(t.Context(), device.Load{Program: p, Weights: rpctest.Weights(), Precision: "bf16"})
		if listed && (err != nil || exe.Kernels()[0].Op != "matmulbf16") {
			t.Errorf("Load: %v, %v", exe, err)
		} else if !listed {
			wantCode(t, err, device.ErrUnsupported)
		}
	}
}

// TestFirstNaN checks that FirstNaN is the node of the step that produced the first NaN, or -1 if the run failed for
// another reason.
func TestFirstNaN(t *testing.T) {
	t.Parallel()
	p := rpctest.Program(t)
	// -Inf times the weights is not NaN, but gelu(-Inf), which is -Inf·0, is.
	if w := tensor.View[float32](rpctest.Weights()[:16]); slices.Max(w) <= 0 {
		t.Fatalf("the first row of the weights is %v; the test proves nothing", w)
	}
	infinite := []float32{1, 2, 3, 4, float32(math.Inf(-1)), 6, 7, 8}
	transports(t, func(t *testing.T, opts Options, _ *rpctest.LogBuffer) {
		e, err := start(t, opts).LoadMapped(t.Context(), testLoad(p))
		if err != nil {
			t.Fatal(err)
		}
		run := func(n int64, check bool, x ...float32) (device.Stats, error) {
			_, st, err := e.RunTensors(
				t.Context(), device.Run{Syms: map[string]int64{"N": n}, Opts: device.RunOptions{CheckNaN: check}},
				[][]byte{tensor.Bytes(x)})
			return st, err
		}
		for name, x := range map[string][]float32{"xw": {1, 2, 3, 4, 5, float32(math.NaN()), 7, 8}, "act": infinite} {
			st, err := run(2, true, x...)
			wantCode(t, err, device.ErrNaN, name)
			if n, _ := p.Graph.Find(name); st.FirstNaN != n.ID {
				t.Errorf("FirstNaN is %d; want %s, node %d", st.FirstNaN, name, n.ID)
			}
			if st, err := run(2, false, x...); err != nil || st.FirstNaN != -1 {
				t.Errorf("not asked to check: %d, %v", st.FirstNaN, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		st, err := e.Run(ctx, device.Run{Syms: map[string]int64{"N": 1}, IO: make([]byte, p.IOSize)})
		wantCode(t, err, diag.Interrupted)
		if st.FirstNaN != -1 {
			t.Errorf("cancelled: %d", st.FirstNaN)
		}
		st, err = e.Run(t.Context(), device.Run{Syms: map[string]int64{"N": 1}})
		wantCode(t, err, device.ErrInput)
		if st.FirstNaN != -1 {
			t.Errorf("bad input: %d", st.FirstNaN)
		}
		if st, err = run(0, true); st.FirstNaN != -1 {
			t.Errorf("bad size: %d, %v", st.FirstNaN, err)
		}
	}, "good")
	// Other errors that the backend reports, and crashes.
	for mode, code := range map[string]diag.Code{"error@run:1": device.ErrDevice, "kill@run:1": code.Crashed} {
		opts, _ := testOptions(t, mode)
		e, err := start(t, opts).LoadMapped(t.Context(), testLoad(p))
		if err != nil {
			t.Fatal(err)
		}
		st, err := e.Run(
			t.Context(),
			device.Run{Syms: map[string]int64{"N": 1}, IO: make([]byte, p.IOSize),
				Opts: device.RunOptions{CheckNaN: true}})
		wantCode(t, err, code)
		if st.FirstNaN != -1 {
			t.Errorf("%s: FirstNaN is %d", mode, st.FirstNaN)
		}
	}
}

// TestCloseDuringRun checks that closing an executable waits for the run of another executable, at most for
// Timeouts.Unload.
func TestCloseDuringRun(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{100 * time.Millisecond, rpctest.HangGuard} {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			opts, _ := testOptions(t, "wait@run:2")
			opts.Timeouts.Unload = limit
			s := start(t, opts)
			var e [2]*Executable
			for i := range e {
				var err error
				if e[i], err = s.LoadMapped(t.Context(), testLoad(rpctest.Program(t))); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error)
			go func() {
				_, _, err := e[0].RunTensors(ctx, device.Run{Syms: map[string]int64{"N": 1}},
					[][]byte{rpctest.Input(1, 1)})
				ended <- err
			}()
			for n := 0; n == 0; n, _ = s.Progress() {
				time.Sleep(time.Millisecond)
			}
			closed := make(chan error)
			if limit < rpctest.HangGuard {
				wantCode(t, e[1].Close(), code.Busy, "encode was not unloaded, because a run took longer than 100ms")
				s.opts.Timeouts.Unload = rpctest.HangGuard
			} else {
				go func() { closed <- e[1].Close() }()
				select {
				case err := <-closed:
					t.Errorf("closed during the run: %v", err)
				case <-time.After(20 * time.Millisecond):
				}
			}
			cancel()
			wantCode(t, <-ended, diag.Interrupted)
			if limit == rpctest.HangGuard {
				if err := <-closed; err != nil {
					t.Error(err)
				}
			}
			for range 2 { // the second call has nothing to do
				if err := e[1].Close(); err != nil {
					t.Error(err)
				}
			}
			err := s.call(t.Context(), rpctest.HangGuard, func() string { return "" }, func(ctx context.Context) error {
				_, err := s.api.Unload(ctx, &rlxv1.UnloadRequest{Executable: e[1].id})
				return err
			})
			wantCode(t, err, code.Refused, "is not loaded")
			if err := e[0].Close(); err != nil {
				t.Error(err)
			}
			if err := s.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}
