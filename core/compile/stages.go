package compile

import (
	"fmt"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/split"
)

// inStages is a method divided into stages for one target.
type inStages struct {
	plan   *split.Plan
	before *pass.Report // of the passes before the division
}

// stages divides the methods into n stages for a target. The entry of a method that stays whole is nil.
func stages(methods []*ir.Graph, t Target, n int, options func(method int) pass.Options) ([]*inStages, error) {
	list := make([]*inStages, len(methods))
	if n < 2 {
		return list, nil
	}
	var graphs []*ir.Graph
	var reports []*pass.Report
	for i, g := range methods {
		po := options(i)
		po.StopAfter = splitAfter
		left, r, err := pass.Run(g, t.Takes, po)
		if err != nil {
			return nil, fmt.Errorf("%s for %s: %w", g.Name, t.Name, err)
		}
		graphs, reports = append(graphs, left), append(reports, r)
	}
	plans, err := split.Stages(graphs, n)
	if err != nil {
		return nil, diag.New(code.Stages, "target "+t.Name, "the methods cannot be divided into %d stages: %w", n, err)
	}
	for i, p := range plans {
		if p != nil {
			list[i] = &inStages{p, reports[i]}
		}
	}
	return list, nil
}
