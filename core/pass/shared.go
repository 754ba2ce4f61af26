package pass

import (
	"maps"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
)

// Shared keeps the results of the passes that do the same for all targets, so that only the first of several calls of
// Run for a graph computes them. It does not change results. The other Options must be the same in each call.
type Shared struct {
	graph  *ir.Graph // the input graph of the kept results; nil at first
	stages []stage
	report *Report
}

// stage is the graph after a pass.
type stage struct {
	pass  string
	graph *ir.Graph
}

// keep remembers the stages of a graph.
func (s *Shared) keep(g *ir.Graph, stages []stage, r *Report) {
	s.graph, s.stages, s.report = g, stages, r.clone()
}

// clone returns a copy of a report that can be added to. The folded values are shared, because nothing writes to them.
func (r *Report) clone() *Report {
	return &Report{Sites: slices.Clone(r.Sites), Passes: slices.Clone(r.Passes), Folded: maps.Clone(r.Folded),
		bodies: maps.Clone(r.bodies)}
}
