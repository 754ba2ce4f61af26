package backend

import (
	"sync"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/target"
)

// rules are those of the kernels that have registered.
var rules []target.Rule

// Description says what the backend runs, on any processor: by a kernel, or else by the op's definition. The compiler carries
// a copy, core/target/cpu.target.
var Description = sync.OnceValue(func() *target.Description {
	d := &target.Description{Name: "cpu", Version: Version, Types: dtype.All(), Rules: rules}
	for _, l := range levels {
		d.Levels = append(d.Levels, l.level)
	}
	d.Rules = append(d.Rules, target.Rule{How: target.Reference, Op: target.AnyOp})
	return d.Sort()
})
