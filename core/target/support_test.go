package target_test

import (
	"fmt"
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
- *as wgpu*: the backends of wgpu and metal have the same kernels
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
		if def.Block || def.Effects || def == ir.ResultDef || def.Name == "reshape" { // a reshape is always a view
			continue
		}
		fmt.Fprintf(&b, "| %s |", def.Name)
		for _, d := range targets {
			var cell []string
			reference := false
			for _, r := range d.Rules {
				switch {
				case r.Op == def.Name && r.How == target.Native && d.Name == target.Metal:
					cell = []string{"as wgpu"} // its description is that of wgpu
				case r.Op == def.Name && r.How == target.Native:
					rule := strings.TrimPrefix(r.String(), "run "+def.Name)
					cell = append(cell, "`"+strings.ReplaceAll(rule, "|", `\|`)+"`")
				case r.How == target.Reference && (r.Op == def.Name || r.Op == target.AnyOp):
					reference = true
				}
			}
			switch {
			case len(cell) > 0:
			case def.CanLower():
				cell = []string{"expanded"}
			case reference:
				cell = []string{"reference"}
			case def.Packed: // in terms of other ops, packed weights would be unpacked in memory
				cell = []string{"none"}
			default:
				t.Errorf("%s: target %s has no rule, and nothing expresses it", def.Name, d.Name)
			}
			b.WriteString(" " + strings.Join(cell, "<br>") + " |")
		}
		b.WriteString("\n")
	}
	golden.Text(t, "../../docs/support.md", b.String())
}
