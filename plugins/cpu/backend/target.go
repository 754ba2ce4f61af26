package backend

import (
	"sync"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/target"
)

// rules holds the rules of all registered kernels.
var rules []target.Rule

// Description returns the backend's target description: the nodes for which it has kernels. Op definitions run all
// others. It is the same on every processor. The compiler has a copy in core/target/cpu.target.
var Description = sync.OnceValue(func() *target.Description {
	d := &target.Description{Name: "cpu", Version: Version, Types: dtype.Known(), Rules: rules, ChannelsLast: 8}
	for _, l := range levels {
		d.Levels = append(d.Levels, l.level)
	}
	d.Rules = append(d.Rules, target.Rule{How: target.Reference, Op: target.AnyOp})
	return d.Sort()
})
