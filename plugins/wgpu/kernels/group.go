package kernels

import "github.com/rlx-go/rlx/core/ir"

// Group runs consecutive steps with one dispatch. With one row a step takes less time than the gap between two dispatches, so a token of a
// language model costs about as many gaps as it has dispatches. The steps' own shaders serve the runs in which the group has nothing
// to do, and those that look at single steps.
type Group struct {
	Steps  int    // how many
	Shader Shader // its bindings say which step's operand they are
}

// groupings find the group that begins at a step, the longest first. uses counts the uses of each node of the graph.
var groupings []func(nodes []*ir.Node, uses []int, l Limits) (Group, bool)

// FindGroup finds the group that begins with the first of a program's steps.
func FindGroup(nodes []*ir.Node, uses []int, l Limits) (Group, bool) {
	for _, find := range groupings {
		if g, ok := find(nodes, uses, l); ok {
			return g, true
		}
	}
	return Group{}, false
}
