package grad_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/grad"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// noGradient lists the ops from floats to floats that have no gradient, with the reason.
var noGradient = map[string]string{
	"adamw":                          "updates states",
	"sgd":                            "updates states",
	"gaussian_splat_prepare":         "a part of render, which has a rule",
	"gaussian_splat_render_backward": "a second derivative",
	"gaussian_splat_rasterize":       "a part of render, which has a rule",
	"kv_append":                      "updates a state",
}

// surrogates are the ops whose gradient is, on purpose, that of another function. core/op compares their backward ops
// with PyTorch, and TestRules their rules.
var surrogates = map[string]bool{"fake_quantize": true, "fake_quantize_lsq": true}

// constants lists results that count as constants, by op.
var constants = map[string]int{"fake_quantize": 1}

// TestOps compares the gradient of each case of every op with central differences of the op's definition, in random
// directions. It fails for an op that has neither a gradient nor an entry in noGradient. Results in f16 and bf16 are
// rounded, so these cases run in f32, which the reference does not round. In f16 and bf16 the test only checks which
// gradients the rule gives.
func TestOps(t *testing.T) {
	for _, def := range ir.Defs() {
		if def.Name == "gaussian_splat_render" || // its camera is data; core/op compares it with goldens
			def.Effects {
			continue
		}
		t.Run(def.Name, func(t *testing.T) {
			for i, c := range def.Cases() {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					if why := noGradient[def.Name]; why != "" {
						g, wrt, loss := lossOf(t, def, c)
						if loss != nil && len(wrt) > 0 {
							if _, err := grad.Of(loss, wrt...); err == nil {
								t.Errorf("%s: has a gradient; want none: %s", g.Name, why)
							}
						}
						return
					}
					checkTypes(t, def, c)
					if surrogates[def.Name] {
						return
					}
					checkCase(t, def, wide(def, c), uint64(i))
				})
			}
		})
	}
}

// lossOf returns a graph that computes a number from all float results of a case, with random weights, and its float
// operands.
func lossOf(t *testing.T, def *ir.OpDef, c ir.Case[any]) (g *ir.Graph, wrt []*ir.Node, loss *ir.Node) {
	t.Helper()
	g = ir.NewGraph(def.Name)
	err := g.Build(func() {
		in := make([]*ir.Node, len(c.In))
		for k, typ := range c.In {
			if !typ.Present() {
				continue
			}
			in[k] = op.Input(g, fmt.Sprintf("x%d", k), typ)
			if typ.DType.IsFloat() {
				wrt = append(wrt, in[k])
			}
		}
		if def.Updates {
			in[0] = op.State(g, "state", c.In[0], 0)
			wrt = slices.DeleteFunc(wrt, func(x *ir.Node) bool { return x.Name == "x0" })
		}
		types, err := def.InferResults(c.Attrs, c.In, c.Out, nil)
		if err != nil {
			g.Fail(err)
		}
		values := []*ir.Node{}
		if def.Tuple {
			values = g.AddResults(len(types), def, c.Attrs, in...)
		} else {
			values = append(values, g.AddDeclared(def, c.Attrs, c.Out, in...))
		}
		for k, y := range values {
			if at, ok := constants[def.Name]; !y.Type.DType.IsFloat() || ok && at == k {
				continue
			}
			if y.Type.DType != dtype.F64 {
				y = op.Cast(y, dtype.F64)
			}
			if def == op.CummaxDef { // an exclusive one begins with -Inf, whose differences are NaN
				y = op.Where(op.Isfinite(y), y, op.Const(g, 0, ir.TypeOf(dtype.F64)))
			}
			w := op.Input(g, fmt.Sprintf("w%d", k), y.Type)
			axes := make([]int, y.Type.Rank())
			for i := range axes {
				axes[i] = i
			}
			y = op.ReduceSum(op.Mul(y, w), false, axes...)
			if loss == nil {
				loss = y
			} else {
				loss = op.Add(loss, y)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, wrt, loss
}

// checkTypes checks that the op has a gradient in the case's own types.
func checkTypes(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
	t.Helper()
	g, wrt, loss := lossOf(t, def, c)
	if loss == nil || len(wrt) == 0 {
		return
	}
	d, err := grad.Of(loss, trainable(def, wrt)...)
	if err == nil {
		g.Return("loss", loss)
		err = g.Verify()
	}
	if err != nil {
		t.Fatal(err)
	}
	for k, x := range trainable(def, wrt) {
		if !d[k].Type.Equal(x.Type) {
			t.Errorf("gradient of %s is %v; want %v", x.Name, d[k].Type, x.Type)
		}
	}
}

// untrained lists operands that are floats and have no gradient all the same, by op.
var untrained = map[string][]string{
	"dequant_matmul":        {"scale", "zero", "global"},
	"fake_quantize":         {"scale"},
	"gaussian_splat_render": {"meta"},
	"rope":                  {"cos", "sin", "frequencies"},
	"rope_backward":         {"cos", "sin", "frequencies"},
}

// trainable leaves out the operands that untrained lists.
func trainable(def *ir.OpDef, wrt []*ir.Node) []*ir.Node {
	return slices.DeleteFunc(slices.Clone(wrt), func(x *ir.Node) bool {
		k, _ := strconv.Atoi(x.Name[1:])
		return slices.Contains(untrained[def.Name], def.OperandName(k))
	})
}

// flat lists, by op, operands that are floats and whose derivative is 0 wherever it exists.
var flat = map[string][]string{
	"argmax": {"x"}, "argmin": {"x"}, "ceil": {"x"}, "floor": {"x"}, "round": {"x"}, "sign": {"x"},
	"attention": {"mask"}, // a custom mask, which is compared with 0.5
	"where":     {"cond"},
}

// TestNoSilentZero checks that the rule of each op gives a gradient for each float operand, or says that it has none,
// which is an error if the gradient is wanted. Only operands of flat may have none at all, which counts as 0.
func TestNoSilentZero(t *testing.T) {
	for _, def := range ir.Defs() {
		rule := def.GradientOf()
		if rule == nil {
			continue
		}
		for _, c := range def.Cases() {
			g, _, loss := lossOf(t, def, c)
			i := slices.IndexFunc(g.Nodes, func(n *ir.Node) bool { return n.Op == def })
			if loss == nil || slices.ContainsFunc(g.Nodes[i].ResultTypes(), empty) {
				continue
			}
			n := g.Nodes[i]
			var dx []*ir.Node
			err := g.Build(func() {
				dy := make([]*ir.Node, len(n.Values()))
				for k, v := range n.Values() {
					if v.Type.DType.IsFloat() {
						dy[k] = op.Const(g, 1, v.Type)
					}
				}
				var err error
				if dx, err = rule(n, dy); err != nil {
					g.Fail(err)
				}
			})
			if err != nil {
				continue
			}
			for k, x := range n.In {
				if x == nil || !x.Type.DType.IsFloat() || k < len(dx) && dx[k] != nil {
					continue
				}
				if name := def.OperandName(k); !slices.Contains(flat[def.Name], name) {
					t.Errorf("%s %+v: operand %s has neither a gradient nor ir.NoGradient", def.Name, c.Attrs, name)
				}
			}
		}
	}
}

func empty(t ir.Type) bool { return t.Shape.IsStatic() && tensor.Numel(t.Shape.Eval(nil)) == 0 }

// TestUntrained checks that a gradient which a rule cannot compute is an error, not 0.
func TestUntrained(t *testing.T) {
	for name, operands := range untrained {
		def, _ := ir.Find(name)
		for _, operand := range operands {
			tried := false
			for _, c := range def.Cases() {
				_, wrt, loss := lossOf(t, def, c)
				x := slices.IndexFunc(wrt, func(x *ir.Node) bool {
					k, _ := strconv.Atoi(x.Name[1:])
					return def.OperandName(k) == operand
				})
				if loss == nil || x < 0 {
					continue
				}
				tried = true
				_, err := grad.Of(loss, wrt[x])
				if !errorsIs(err, code.NoGradient) || !strings.Contains(err.Error(), "operand "+operand) {
					t.Errorf("%s: %v; want an error that names the operand %s", name, err, operand)
				}
			}
			if !tried {
				t.Errorf("%s: no case has the operand %s", name, operand)
			}
		}
	}
}

// wide returns a case with f32 in place of f16 and bf16.
func wide(def *ir.OpDef, c ir.Case[any]) ir.Case[any] {
	in := slices.Clone(c.In)
	f32 := func(t *ir.Type) {
		if t.DType == dtype.F16 || t.DType == dtype.BF16 {
			t.DType = dtype.F32
		}
	}
	for k := range in {
		f32(&in[k])
	}
	w := c
	w.In = in
	f32(&w.Out)
	if a, ok := c.Attrs.(op.ElementwiseRegionAttrs); ok {
		floats := strings.NewReplacer("to=f16", "to=f32", "to=bf16", "to=f32")
		w.Attrs = op.ElementwiseRegionAttrs{Expr: floats.Replace(a.Expr)}
	}
	if a, ok := c.Attrs.(op.CastAttrs); ok && a.To.IsFloat() { // the reference rounds a cast to a smaller type
		w.Attrs = op.CastAttrs{To: dtype.F64}
	}
	if _, err := def.InferResults(w.Attrs, w.In, w.Out, nil); err != nil {
		return c
	}
	return w
}

// rounds reports whether the op of a case rounds to integers or few bits, so that it has no derivative.
func rounds(c ir.Case[any]) bool {
	for _, t := range c.In {
		if t.DType == dtype.F16 || t.DType == dtype.BF16 {
			return true
		}
	}
	a := reflect.ValueOf(c.Attrs)
	if a.Kind() == reflect.Struct {
		if f := a.FieldByName("Activations"); f.IsValid() {
			return f.String() == op.ActivationsQ8
		}
	}
	return false
}

// roundsSum lists ops whose definition rounds a sum to f32 before it goes on.
var roundsSum = map[string]bool{"fused_add_layer_norm": true, "fused_add_rms_norm": true,
	"fused_residual_layer_norm": true, "fused_residual_rms_norm": true}

// step is the step size of the central differences. Values are moved further than this from kinks.
const step = 2e-6

// checkCase compares the gradients of one case with central differences.
func checkCase(t *testing.T, def *ir.OpDef, c ir.Case[any], seed uint64) {
	t.Helper()
	g, wrt, loss := lossOf(t, def, c)
	if loss == nil || len(wrt) == 0 || rounds(c) {
		return
	}
	wrt = trainable(def, wrt)
	d, err := grad.Of(loss, wrt...)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 7))
	in := map[string]*tensor.Array{}
	for k, v := range interp.CaseInputs(c, seed) {
		if v != nil && !(def.Updates && k == 0) {
			if v.Floats != nil {
				lo, hi := -2.0, 2.0
				if k < len(c.Fill) {
					lo, hi = c.Fill[k].Lo, c.Fill[k].Hi
				}
				awayFromKinks(k, v.Floats, lo, hi)
			}
			in[fmt.Sprintf("x%d", k)] = v
		}
	}
	for _, n := range g.Inputs() {
		if in[n.Name] == nil {
			in[n.Name] = interp.Random(rng, n.Type, nil, ir.Range{Lo: 0.5, Hi: 1.5})
		}
	}
	g.Return("loss", loss)
	evaluate := func() map[string]*tensor.Array {
		out, err := interp.Run(g, nil, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for k, n := range d {
		g.Return(fmt.Sprint("d", k), n)
	}
	got := evaluate()
	g.Outputs = g.Outputs[:1]
	// Drop the gradients. The sum that some norms round to f32 stays in float64 in their expansions.
	if g, _, err = g.Expand(func(n *ir.Node) bool { return roundsSum[n.Op.Name] }); err != nil {
		t.Fatal(err)
	}
	for k, x := range wrt {
		at := in[x.Name].Floats
		if len(at) == 0 {
			continue
		}
		from := slices.Clone(at)
		direction, want, size := make([]float64, len(at)), 0.0, 0.0
		for i := range at {
			direction[i] = rng.Float64()*2 - 1
			want += direction[i] * got[fmt.Sprint("d", k)].Floats[i]
			size += math.Abs(direction[i] * got[fmt.Sprint("d", k)].Floats[i])
		}
		move := func(by float64) float64 {
			for i := range at {
				at[i] = from[i] + by*direction[i]
			}
			v := evaluate()["loss"].Floats[0]
			copy(at, from)
			return v
		}
		high, low := move(step), move(-step)
		difference := (high - low) / (2 * step)
		if e := math.Abs(difference - want); !(e <= 1e-6*(size+math.Abs(high)+1e-3)) {
			t.Errorf("%v %+v: along a direction of %s the gradient is %v, central differences %v", c.In, c.Attrs,
				x.Name, want, difference)
		}
	}
}

// awayFromKinks moves the values of operand k within their range, so that they are 0.002 away from all multiples of
// 0.01, where the kinks of ops are, and differ from one another and from those of other operands by more than the
// steps.
func awayFromKinks(k int, v []float64, lo, hi float64) {
	bins := make([][]int, int(math.Ceil((hi-lo)*100))+1)
	for i, x := range v {
		bin := int(math.Floor((x - lo) * 100))
		bins[bin] = append(bins[bin], i)
	}
	for bin, list := range bins {
		base := math.Floor((lo+float64(bin)/100)*100+1e-9) / 100
		for at, i := range list {
			x := base + 0.002 + 0.0015*float64(k%4) + 0.0012*float64(at)/float64(len(list))
			if x >= hi {
				x -= 0.01
			}
			v[i] = x
		}
	}
}
