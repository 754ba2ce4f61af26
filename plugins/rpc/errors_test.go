//go:build linux || darwin

package rpc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	_ "github.com/rlx-go/rlx/format"              // registers codes that a backend must not use
	_ "github.com/rlx-go/rlx/plugins/cpu/kernels" // registers the codes that kernels report
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// hostsOwn lists codes that a backend may not send although others of their class may be sent. A new code must either be in this list or
// reach the host unchanged.
var hostsOwn = []diag.Code{
	diag.Usage, device.ErrLost, ErrNotPlugin, ErrExited, ErrHandshake, ErrStart, ErrVersion, ErrCrashed, ErrStopped, ErrProtocol,
	ErrDigest, ErrClosed, ErrQuarantined, ErrPlatform, ErrHost, ErrBusy, ErrSandbox, code.NoBestMask, diag.Timeout,
}

// TestEveryCode checks that every code of core and of the kernels reaches the host unchanged. toWire replaces codes that backends may not
// send, and fromWire rejects them.
func TestEveryCode(t *testing.T) {
	t.Parallel()
	var passed, refused int
	for _, entry := range diag.Entries() {
		code := entry.Code
		// Codes of the file format and the host's own files are 4nnn, 20nn, and 30nn except device.ErrInput.
		own := slices.Contains(hostsOwn, code) || code[3] == '4' || strings.HasPrefix(string(code), "RLX20") ||
			strings.HasPrefix(string(code), "RLX30") && code != device.ErrInput
		in := diag.New(code, "softmax", "axis %d", 3).WithHint("use axis 1")
		st, _ := status.FromError(toWire(fmt.Errorf("wrapped: %w", in), &StepError{Step: 2, Op: "softmax"}))
		out, ok := fromWire(st, "backend b")
		if !ok {
			t.Errorf("%s does not reach the host", code)
			continue
		}
		var step *StepError
		if !strings.HasPrefix(out.Error(), "backend b: softmax: axis 3") || !strings.HasSuffix(out.Error(), "; use axis 1") ||
			!errors.As(out, &step) || step.Step != 2 {
			t.Errorf("%s became %q at step %v", code, out, step)
		}
		raw, err := status.New(codes.Internal, "x").WithDetails(&rlxv1.Error{Code: string(code), Message: "m"})
		if err != nil {
			t.Fatal(err)
		}
		_, taken := fromWire(raw, "backend b")
		if !own {
			passed++
			if out.Code != code || !taken || diag.ExitCode(out) != code.Exit() {
				t.Errorf("%s became %s; fromWire accepts it: %v", code, out.Code, taken)
			}
			if fine := strings.HasPrefix(string(code), "RLX31"); (fine || code == device.ErrInput) != errors.Is(out, device.ErrInput) {
				t.Errorf("%s matches device.ErrInput: %v", code, !fine)
			}
			continue
		}
		refused++
		want := diag.Internal
		if code[3] == '3' {
			want = device.ErrInput
		}
		if out.Code != want || !strings.Contains(out.Error(), string(code)) || taken {
			t.Errorf("%s became %q (%s); fromWire accepts it: %v", code, out, out.Code, taken)
		}
	}
	if passed < 10 || refused < 40 {
		t.Fatalf("%d codes pass, %d do not: most of the registry is missing", passed, refused)
	}
}

// TestCodesOfKernels checks with a real backend that the session survives every code that a kernel reports.
func TestCodesOfKernels(t *testing.T) {
	t.Parallel()
	for sent, want := range map[diag.Code]diag.Code{diag.IndexOutOfRange: diag.IndexOutOfRange, diag.UnknownFeatures: diag.UnknownFeatures,
		"RLX4001": diag.Internal, "RLX3040": device.ErrInput, "rubbish": diag.Internal} {
		t.Run(string(sent), func(t *testing.T) {
			t.Parallel()
			opts, _ := testOptions(t, "code="+string(sent)+"@run:1")
			s := start(t, opts)
			e, err := s.LoadMapped(t.Context(), testLoad(testProgram(t)))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, _, err := e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": 1}}, [][]byte{testInput(1, 1)})
				wantCode(t, err, want, "step 2 of 4 (gelu act): kernel: found a bad value")
				if errors.Is(err, device.ErrInput) != (sent[:4] == "RLX3") {
					t.Errorf("%v matches device.ErrInput: %v", err, errors.Is(err, device.ErrInput))
				}
			}
		})
	}
}
