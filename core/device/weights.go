package device

import (
	"context"

	"github.com/rlx-go/rlx/core/program"
)

// NewWeights gives params of a loaded program other values.
type NewWeights struct {
	// Params are the nodes whose values change.
	Params []int
	// Weights has the new values at the places of the params. Like Load.Weights it is the space of all weights, but
	// only the bytes of params that have been replaced so far are valid. It is read-only, and valid until the next
	// SetWeights with other memory returns, or the Executable is closed. Its contents change only before such a call.
	Weights []byte
}

// Of returns the part of w that p has, the program of a loop in outer. Its params have the names of those of outer.
func (w NewWeights) Of(p, outer *program.Program) NewWeights {
	names := map[string]bool{}
	for _, id := range w.Params {
		names[outer.Graph.Nodes[id].Name] = true
	}
	own := NewWeights{Weights: w.Weights}
	for _, n := range p.Graph.Params() {
		if names[n.Name] {
			own.Params = append(own.Params, n.ID)
		}
	}
	return own
}

// A WeightSetter is an Executable whose weights can be replaced. The executables of a backend with Info.SetsWeights
// are.
type WeightSetter interface {
	// SetWeights replaces the values of params for all later runs. It is not called during a run. The backend computes
	// again what it has computed from the old values, such as packed copies. After an error the values of the params
	// are undefined.
	SetWeights(ctx context.Context, w NewWeights) error
}

// Reading reports, for each node of a program, whether it is one of the given params or a view of one.
func Reading(p *program.Program, params []int) []bool {
	out := make([]bool, len(p.Graph.Nodes))
	for _, id := range params {
		out[id] = true
	}
	for _, n := range p.Graph.Nodes {
		if _, view := n.View(); view {
			out[n.ID] = out[n.In[0].ID]
		}
	}
	return out
}
