package kernels

import (
	_ "embed"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed reduce.wgsl
var reduceWGSL string

// fold is how a reduction combines acc and v, and where it starts, by WGSL type.
type fold struct {
	expr map[string]string
	zero map[string]string
	mean bool
}

var (
	sums  = map[string]string{"f32": "acc + v", "i32": "acc + v", "u32": "acc + v"}
	zeros = map[string]string{"f32": "0.0", "i32": "0i", "u32": "0u"}
	folds = map[string]fold{
		"reduce_sum":  {expr: sums, zero: zeros},
		"reduce_mean": {expr: map[string]string{"f32": "acc + v"}, zero: zeros, mean: true},
		"reduce_prod": {expr: map[string]string{"f32": "acc * v", "i32": "acc * v", "u32": "acc * v"}, zero: map[string]string{"f32": "1.0", "i32": "1i", "u32": "1u"}},
		"reduce_max": {expr: map[string]string{"f32": "op_max(acc, v)", "i32": "max(acc, v)", "u32": "max(acc, v)"},
			zero: map[string]string{"f32": "-infinity()", "i32": "-2147483647i - 1i", "u32": "0u"}},
		"reduce_min": {expr: map[string]string{"f32": "op_min(acc, v)", "i32": "min(acc, v)", "u32": "min(acc, v)"},
			zero: map[string]string{"f32": "infinity()", "i32": "2147483647i", "u32": "0xffffffffu"}},
	}
)

func init() {
	for name, f := range folds {
		register(Kernel{
			Op:  name,
			Can: func(n *ir.Node) bool { return n.Type.DType != dtype.Bool && f.expr[elementType(n.Type.DType)] != "" },
			Shaders: func(n *ir.Node, _ Limits) []Shader {
				t := elementType(n.Type.DType)
				axes := n.Attrs.(op.ReduceAttrs).Axes
				consts := map[string]any{"Zero": f.zero[t], "Fold": f.expr[t], "Mean": f.mean}
				return []Shader{mapped(n, name, reduceWGSL, consts, []string{"count", "kept:8", "cut:8", "stride:8"}, func(c *Call) []uint32 {
					kept, cut, count := slices.Clone(c.In[0].Shape), slices.Clone(c.In[0].Shape), 1
					for i := range kept {
						if slices.Contains(axes, i) {
							count *= kept[i]
							kept[i] = 1
						} else {
							cut[i] = 1
						}
					}
					return concat([]uint32{uint32(count)}, dims(kept), dims(cut), dense(c.In[0].Shape))
				}).withLoops(n, func(c *Call) int {
					from := append(slices.Clone(axes), len(c.In[0].Shape)) // rising
					count := numel(c.In[0].Shape) / max(numel(c.Out.Shape), 1)
					return loop(maxRank, 0) + loop(count, loop(len(c.In[0].Shape)-from[0], 0))
				})}
			},
		})
	}
}
