//go:build linux || darwin

package wire

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
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// hostsOwn lists codes that a backend may not send although others of their class may be sent. A new code must either
// be in this list or reach the host unchanged.
var hostsOwn = []diag.Code{
	diag.Usage, device.ErrLost, code.NotPlugin, code.Exited, code.Handshake, code.Start, code.Version, code.Crashed,
	code.Stopped, code.Protocol,
	code.Digest, code.Closed, code.Quarantined, code.Platform, code.Host, code.Busy, code.Sandbox, code.NoBestMask,
	code.TextUnfinished,
	diag.Timeout, code.Machine,
}

// TestEveryCode checks that every code of core and of the kernels reaches the host unchanged. ToStatus replaces codes
// that backends may not send, and FromStatus rejects them.
func TestEveryCode(t *testing.T) {
	t.Parallel()
	var passed, refused int
	for _, entry := range diag.Entries() {
		code := entry.Code
		// Codes of the commands are 12nn, 32nn and 52nn; those of the file format and the host's own files are 4nnn,
		// 20nn, and 30nn except device.ErrInput.
		own := slices.Contains(hostsOwn, code) || code[3] == '4' ||
			slices.Contains([]string{"12", "20", "30", "32", "52"}, string(code[3:5])) &&
				code != device.ErrInput
		in := diag.New(code, "softmax", "axis %d", 3).WithHint("use axis 1")
		st, _ := status.FromError(ToStatus(fmt.Errorf("wrapped: %w", in), &StepError{Step: 2, Op: "softmax"}))
		out, ok := FromStatus(st, "backend b")
		if !ok {
			t.Errorf("%s does not reach the host", code)
			continue
		}
		var step *StepError
		if !strings.HasPrefix(out.Error(), "backend b: softmax: axis 3") ||
			!strings.HasSuffix(out.Error(), "; use axis 1") ||
			!errors.As(out, &step) || step.Step != 2 {
			t.Errorf("%s became %q at step %v", code, out, step)
		}
		raw, err := status.New(codes.Internal, "x").WithDetails(&rlxv1.Error{Code: string(code), Message: "m"})
		if err != nil {
			t.Fatal(err)
		}
		_, taken := FromStatus(raw, "backend b")
		if !own {
			passed++
			if out.Code != code || !taken || diag.ExitCode(out) != code.Exit() {
				t.Errorf("%s became %s; FromStatus accepts it: %v", code, out.Code, taken)
			}
			if fine := strings.HasPrefix(string(code), "RLX31"); (fine || code == device.ErrInput) != errors.Is(
				out, device.ErrInput) {
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
			t.Errorf("%s became %q (%s); FromStatus accepts it: %v", code, out, out.Code, taken)
		}
	}
	if passed < 10 || refused < 40 {
		t.Fatalf("%d codes pass, %d do not: most of the registry is missing", passed, refused)
	}
}
