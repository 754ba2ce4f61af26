package backend

import (
	"sync"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/target"
)

// rules are those of the kernels that have registered.
var rules []target.Rule

// Description lists the nodes for which the backend has kernels; op definitions run all others. It is the same on all processors.
// The compiler carries a copy, core/target/cpu.target.
var Description = sync.OnceValue(func() *target.Description {
	d := &target.Description{Name: "cpu", Version: Version, Types: dtype.Known(), Rules: rules}
	for _, l := range levels {
		d.Levels = append(d.Levels, l.level)
	}
	d.Rules = append(d.Rules, target.Rule{How: target.Reference, Op: target.AnyOp})
	return d.Sort()
})
