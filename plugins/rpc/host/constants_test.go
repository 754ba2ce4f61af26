//go:build linux || darwin

package host

import (
	"bytes"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
)

// TestConstants checks that from the third run on, constant outputs come from the host's cache. It also checks that
// profiled and checked runs do not use the cache, that an output which is not wanted is not returned, and that a caller
// who changes an output does not change the cache.
func TestConstants(t *testing.T) {
	t.Parallel()
	g := ir.NewGraph("encode")
	x, w := op.Input(g, "x", ir.MustType("f32[4,4]")), op.Param(g, "w", ir.MustType("f32[4,4]"))
	g.Return("sum", op.Add(x, w))
	g.Return("constant", op.Neg(w))
	g.Return("double", op.Add(x, x))
	p, _, err := sched.Build(
		g, sched.Options{Method: "encode", Target: "portable", Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	want := rpctest.Weights()
	for i := 3; i < len(want); i += 4 {
		want[i] ^= 0x80
	}
	for _, streamed := range []bool{false, true} {
		opts, _ := testOptions(t, "good")
		opts.NoSharedMemory = streamed
		s := start(t, opts)
		e, err := s.LoadMapped(t.Context(), testLoad(p))
		if err != nil {
			t.Fatal(err)
		}
		run := func(r device.Run) [][]byte {
			t.Helper()
			out, _, err := e.RunTensors(t.Context(), r, [][]byte{rpctest.Input(4, 1)})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		first := run(device.Run{})
		if !bytes.Equal(first[1], want) {
			t.Fatal("the constant is wrong")
		}
		for range 3 {
			out := run(device.Run{})
			for i := range out {
				if !bytes.Equal(out[i], first[i]) {
					t.Fatalf("output %d changes", i)
				}
			}
			clear(out[1])
		}
		e.constants.data[1][0] ^= 1 // so that an output from the cache differs from the backend's
		for _, c := range []struct {
			name   string
			r      device.Run
			cached bool
		}{
			{"plain", device.Run{}, true},
			{"without sum", device.Run{Outputs: []bool{false, true, true}}, true},
			{"constant only", device.Run{Outputs: []bool{false, true, false}}, false},
			{"profiled", device.Run{Opts: device.RunOptions{Profile: true}}, false},
			{"checked", device.Run{Opts: device.RunOptions{CheckNaN: true}}, false},
		} {
			if out := run(c.r); bytes.Equal(out[1], want) == c.cached {
				t.Errorf("%s, streamed %v: the constant comes from the cache: %v; want %v", c.name, streamed, !c.cached,
					c.cached)
			}
		}
		if out := run(device.Run{Outputs: []bool{true, false, true}}); out[1] != nil || !bytes.Equal(out[0], first[0]) {
			t.Error("a run without the constant returns it, or a wrong sum")
		}
	}
}
