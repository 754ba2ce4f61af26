//go:build linux || darwin

package host

import (
	"errors"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"

	// registers codes that a backend must not use
	_ "github.com/rlx-go/rlx/format"
)

// TestCodesOfKernels checks with a real backend that the session survives every code that a kernel reports.
func TestCodesOfKernels(t *testing.T) {
	t.Parallel()
	for sent, want := range map[diag.Code]diag.Code{code.Index: code.Index, code.Features: code.Features,
		"RLX4001": diag.Internal, "RLX3040": device.ErrInput, "rubbish": diag.Internal} {
		t.Run(string(sent), func(t *testing.T) {
			t.Parallel()
			opts, _ := testOptions(t, "code="+string(sent)+"@run:1")
			s := start(t, opts)
			e, err := s.LoadMapped(t.Context(), testLoad(rpctest.Program(t)))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, _, err := e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": 1}},
					[][]byte{rpctest.Input(1, 1)})
				wantCode(t, err, want, "step 2 of 4 (gelu act): kernel: found a bad value")
				if errors.Is(err, device.ErrInput) != (sent[:4] == "RLX3") {
					t.Errorf("%v matches device.ErrInput: %v", err, errors.Is(err, device.ErrInput))
				}
			}
		})
	}
}
