package backend

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/runner"
)

// reference returns a function that runs a node by its op's definition, in the memory call.wide.
func reference(n *ir.Node) func(c *call) error {
	run := runner.Reference(n)
	return func(c *call) error { return run(c.in, c.results, c.wide) }
}
