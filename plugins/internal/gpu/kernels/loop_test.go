package kernels

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/plugins/metal/msl"
)

// TestLoopTexts generates the WGSL of the shaders of loops, with operands in one window and in two, and translates it.
func TestLoopTexts(t *testing.T) {
	slots := LoopSlots{First: 3, Cond: 1, Body: 2}
	for _, s := range []Shader{
		LoopStart(false, false, 0), LoopStart(true, false, 0), LoopStart(true, true, 3), LoopNext(slots, true, false),
		LoopNext(LoopSlots{}, true, false), LoopNext(LoopSlots{}, false, true), LoopNext(slots, false, true),
		LoopCarry([]int64{0}, []int64{256}, nil), LoopCopy{}.Shader(),
	} {
		for _, windows := range [][]Window{{{0, 4096}}, {{256, 1024}, {0, 3072}}} {
			views := make([]View, len(s.Bindings))
			for k := range views {
				views[k].Windows = windows
			}
			text, err := s.Text(views)
			if err == nil {
				_, err = msl.Translate(text)
			}
			if err != nil || strings.Contains(text, "<no value>") {
				t.Errorf("%s: %v\n%s", s.Name, err, text)
			}
		}
	}
}
