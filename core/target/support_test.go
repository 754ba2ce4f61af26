package target_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/internal/golden"
)

// TestSupport checks that the table of ops and targets in the documentation agrees with the descriptions.
func TestSupport(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Which target runs which op

Made from core/target/*.target and the ops' definitions by ` + "`go test ./core/target -run TestSupport -update`" +
		`; do not edit.

A cell lists the rules for kernels, in the language of [target.md](../spec/target.md). Other entries mean:

- *expanded*: the compiler rewrites the op in terms of others
- *reference*: the backend runs the op by its slow definition
- *as wgpu*: the backends of wgpu, metal and cuda have the same kernels
- *none*: the compiler refuses models with this op for this target (see rlxc --fallback)

Half floats and small integers are computed in f32 and i32 if the target has kernels only for these.

`)
	var targets []*target.Description
	header, line := "| op |", "|---|"
	for _, d := range target.Builtin() {
		if d.Name != target.Portable {
			targets = append(targets, d)
			header, line = header+" "+d.Name+" |", line+"---|"
		}
	}
	b.WriteString(header + "\n" + line + "\n")
	for _, def := range ir.Defs() {
		if how, _ := targets[0].Support(def); def.Block || def.Effects || how == target.NoStep {
			continue
		}
		fmt.Fprintf(&b, "| %s |", def.Name)
		for _, d := range targets {
			how, rules := d.Support(def)
			var cell []string
			for _, rule := range rules {
				cell = append(cell, "`"+strings.ReplaceAll(rule, "|", `\|`)+"`")
			}
			switch {
			case how == target.None && !def.Packed:
				// packed weights would be unpacked in memory
				t.Errorf("%s: target %s has no rule, and nothing expresses it", def.Name, d.Name)
			case rules == nil:
				cell = []string{how}
			case target.AsWGPU(d):
				cell = []string{"as wgpu"}
			}
			b.WriteString(" " + strings.Join(cell, "<br>") + " |")
		}
		b.WriteString("\n")
	}
	golden.Text(t, "../../docs/support.md", b.String())
}

func TestBuiltinNames(t *testing.T) {
	var want []string
	for _, d := range target.Builtin() {
		want = append(want, d.Name)
		for _, l := range d.Levels {
			want = append(want, d.Name+":"+l)
		}
	}
	if got := target.BuiltinNames(); !slices.Equal(got, want) || !slices.Contains(got, "cpu:x86-64-v4") {
		t.Errorf("got %v; want %v", got, want)
	}
}
