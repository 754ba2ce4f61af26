package main

import (
	"slices"
	"sync"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/models/weights"
)

// packings collects the results for the tensors that --quantize selected.
type packings struct {
	mu   sync.Mutex
	list []weights.Packing
}

// add replaces an entry of the same name, because a tensor may be read several times during constant folding.
func (p *packings) add(x weights.Packing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = slices.DeleteFunc(p.list, func(y weights.Packing) bool { return y.Name == x.Name })
	p.list = append(p.list, x)
}

// takePacked drops targets that lack the packed types of the models' weights. It is used only if the user named no targets.
func takePacked(targets []compile.Target, methods []*ir.Graph) []compile.Target {
	return slices.DeleteFunc(slices.Clone(targets), func(t compile.Target) bool {
		return slices.ContainsFunc(methods, func(g *ir.Graph) bool {
			return slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { return n.Type.DType.IsPacked() && !t.Takes.HasType(n.Type.DType) })
		})
	})
}

// notePackings prints a line per packed tensor and per matrix that was not packed, and the totals.
func notePackings(env *cli.Env, list []weights.Packing, stored weights.Stored) {
	if len(list) == 0 {
		return
	}
	weights.SortPackings(list)
	env.Notef("  %-52s %-6s %10s %10s  %s", "quantized", "type", "before", "after", "error")
	var before, after int64
	for _, p := range list {
		env.Notef("  %-52s %-6v %10s %10s  %.4f", p.Name, p.DType, cli.Size(p.Before), cli.Size(p.After), p.Error)
		before, after = before+p.Before, after+p.After
	}
	kept := 0
	for _, name := range stored.Names() {
		t, _ := stored.Type(name)
		if t.DType.IsPacked() {
			continue
		}
		kept++
		if info, _ := stored.Info(name); len(info.Shape) == 2 {
			env.Notef("  %-52s %-6v %10s %10s  stays as it is", name, t.DType, cli.Size(info.Size), cli.Size(t.Bytes(nil)))
		}
	}
	env.Notef("  %-52s %-6s %10s %10s  %d other tensors stay as they are", "in all", "", cli.Size(before), cli.Size(after), kept)
}

// packedRows returns packings for JSON.
func packedRows(list []weights.Packing) []map[string]any {
	weights.SortPackings(list)
	out := make([]map[string]any, len(list))
	for i, p := range list {
		out[i] = map[string]any{"tensor": p.Name, "dtype": p.DType.String(), "bytes_before": p.Before, "bytes": p.After, "error": p.Error}
	}
	return out
}
