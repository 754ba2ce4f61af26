package pass

import (
	"maps"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
)

// Shared keeps the results of the passes that are common to all targets of a graph, so that only the first of several calls of Run
// computes them. The results are the same without it. The other Options must be the same each time.
type Shared struct {
	graph  *ir.Graph // as the model wrote it; nil if nothing is kept
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

// clone makes a report that can be added to. The folded values themselves are shared: nothing writes to them.
func (r *Report) clone() *Report {
	return &Report{Sites: slices.Clone(r.Sites), Passes: slices.Clone(r.Passes), Folded: maps.Clone(r.Folded)}
}
