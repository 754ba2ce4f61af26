package program_test

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/program"
)

func TestCheckMethod(t *testing.T) {
	for _, name := range []string{"encode", "m", "decode_step-2", strings.Repeat("x", program.MaxMethodName)} {
		if err := program.CheckMethod(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", ".", "..", "../victim/m", "a/b", `a\b`, "a.b", "Encode", "2d", "_x", "-x", "a b",
		"a\x1b[2J", "a\x00", "é", "a:b", "con\n", "return",
		strings.Repeat("x", program.MaxMethodName+1)} {
		if program.CheckMethod(name) == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}
