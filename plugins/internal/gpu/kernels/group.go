package kernels

import "github.com/rlx-go/rlx/core/ir"

// Group runs consecutive steps in fewer dispatches than they have. With one row, a step is shorter than the gap between
// two dispatches, so the time for a token of a language model is mostly proportional to the number of dispatches. If
// one of the shaders has nothing to do in a run, or single steps are observed, the steps' own shaders run instead.
type Group struct {
	Steps   int      // number of steps
	Shaders []Shader // their bindings tell to which step an operand belongs
}

// groupings find the longest group that begins at a step. uses counts the uses of each node.
var groupings []func(nodes []*ir.Node, uses []int, l Limits) (Group, bool)

// FindGroup finds a group that begins with the first of nodes, which are a program's remaining steps.
func FindGroup(nodes []*ir.Node, uses []int, l Limits) (Group, bool) {
	for _, find := range groupings {
		if g, ok := find(nodes, uses, l); ok {
			return g, true
		}
	}
	return Group{}, false
}
