package device_test

import (
	"errors"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/program"
)

// TestKeepsOverlap checks that two outputs cannot be kept in the same bytes of a state.
func TestKeepsOverlap(t *testing.T) {
	a, b := device.NewHostState(make([]byte, 1024), nil), device.NewHostState(make([]byte, 1024), nil)
	out := []program.Operand{{Bytes: 300}, {Bytes: 256}, {Bytes: 0}}
	for _, c := range []struct {
		name string
		keep device.Transfer // of output 1; output 0 is kept at 256 to 555 of a
		ok   bool
	}{
		{"before", device.Transfer{Tensor: 1, State: a}, true},
		{"same offset", device.Transfer{Tensor: 1, State: a, Offset: 256}, false},
		{"last bytes", device.Transfer{Tensor: 1, State: a, Offset: 512}, false},
		{"after", device.Transfer{Tensor: 1, State: a, Offset: 768}, true},
		{"another state", device.Transfer{Tensor: 1, State: b, Offset: 256}, true},
		{"empty", device.Transfer{Tensor: 2, State: a, Offset: 256}, true},
	} {
		for _, keeps := range [][]device.Transfer{{{Tensor: 0, State: a, Offset: 256}, c.keep},
			{c.keep, {Tensor: 0, State: a, Offset: 256}}} {
			err := device.Run{Keeps: keeps}.CheckState(&program.Program{Method: "m"}, nil, out)
			if c.ok != (err == nil) || err != nil && !errors.Is(err, device.ErrInput) {
				t.Errorf("%s: %v; want an error: %v", c.name, err, !c.ok)
			}
		}
	}
}
