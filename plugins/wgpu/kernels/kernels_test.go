package kernels

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// TestEveryCoreOp: a program for the portable target has no op that the backend must refuse by name.
func TestEveryCoreOp(t *testing.T) {
	ops := Ops()
	for _, d := range ir.Defs() {
		if d.Level == ir.Core && !d.Effects && !slices.Contains(ops, d.Name) {
			t.Errorf("%s has no kernel", d.Name)
		}
	}
}

// openLoop is a loop that ends at something else than a number.
var openLoop = regexp.MustCompile(`for \(var [^;]*;[^;]*< [^0-9;][^;]*;`)

// TestTexts makes the WGSL of every case of every op, with operands in one window and in two. What a device makes of the
// texts, the conformance suite of package backend tells.
func TestTexts(t *testing.T) {
	for _, d := range ir.Defs() {
		if d.Level == ir.Block || d.Eval == nil {
			continue
		}
		for i, c := range d.Cases() {
			g := ir.NewGraph(d.Name)
			in := make([]*ir.Node, len(c.In))
			for k, typ := range c.In {
				in[k] = op.Input(g, string(rune('a'+k)), typ)
			}
			n := g.AddDeclared(d, c.Attrs, c.Out, in...)
			k, ok := Find(n)
			if !ok {
				continue
			}
			for _, windows := range [][]Window{{{0, 4096}}, {{256, 1024}, {0, 3072}}} {
				for _, s := range k.Shaders(n, Limits{WorkgroupStorage: 16 << 10, StorageBuffers: 8}) {
					views := make([]View, len(s.Bindings))
					for b := range views {
						views[b].Windows = windows
					}
					text, err := s.Text(views)
					if err != nil {
						t.Fatalf("%s/%d: %v", d.Name, i, err)
					}
					if n := strings.Count(text, "@binding("); n != len(windows)*len(views)+1 {
						t.Errorf("%s/%d: %d bindings; want %d windows of %d operands, and the parameters", d.Name, i, n, len(windows), len(views))
					}
					if strings.Contains(text, "<no value>") || strings.Count(text, "{") != strings.Count(text, "}") {
						t.Errorf("%s/%d: a constant is missing or braces do not match:\n%s", d.Name, i, text)
					}
					if s.Loops == nil && openLoop.MatchString(text) {
						t.Errorf("%s/%d: a loop ends at what only a run tells, and the shader does not say how often it goes round:\n%s", d.Name, i, text)
					}
				}
			}
		}
	}
}
