package main

import (
	"github.com/rlx-go/rlx/compile"
	"github.com/rlx-go/rlx/internal/cli"
)

// notePackings prints a line per packed tensor and per matrix that was not packed, and the totals.
func notePackings(env *cli.Env, r *compile.Result) {
	if len(r.Packed) == 0 {
		return
	}
	env.Notef("  %-52s %-6s %10s %10s  %s", "quantized", "type", "before", "after", "error")
	var before, after int64
	for _, p := range r.Packed {
		env.Notef("  %-52s %-6v %10s %10s  %.4f", p.Name, p.DType, cli.Size(p.Before), cli.Size(p.After), p.Error)
		before, after = before+p.Before, after+p.After
	}
	for _, k := range r.Kept {
		if k.Matrix {
			env.Notef("  %-52s %-6v %10s %10s  stays as it is", k.Name, k.DType, cli.Size(k.Before), cli.Size(k.After))
		}
	}
	env.Notef("  %-52s %-6s %10s %10s  %d other tensors stay as they are", "in all", "", cli.Size(before),
		cli.Size(after), len(r.Kept))
}

// packedRows returns packings for JSON.
func packedRows(list []compile.Packing) []map[string]any {
	out := make([]map[string]any, len(list))
	for i, p := range list {
		out[i] = map[string]any{"tensor": p.Name, "dtype": p.DType.String(), "bytes_before": p.Before, "bytes": p.After,
			"error": p.Error}
	}
	return out
}
