// Package train builds the graphs of training. A graph that computes a loss from params becomes one that reads the
// trained params from states, and a step adds their gradients and the update of an optimizer to it.
package train

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/grad"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/task"
)

// clipEpsilon is added to the norm before clipping divides by it, as PyTorch's clip_grad_norm_ does.
const clipEpsilon = 1e-6

// WithStates returns g with a state of type f32 in place of each param that scale selects, multiplied by a factor.
func WithStates(g *ir.Graph, scale func(param string) (factor float64, trained bool)) (*ir.Graph, error) {
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, _ func(*ir.Node) *ir.Node) *ir.Node {
		if !n.Is(op.ParamDef) {
			return nil
		}
		factor, trained := scale(n.Name)
		if !trained {
			return nil
		}
		x := op.State(out, task.TrainParam+n.Name, ir.Type{DType: dtype.F32, Shape: n.Type.Shape}, 0)
		if factor != 1 {
			return op.Mul(x, op.Const(out, factor, ir.TypeOf(dtype.F32))).Named(n.Name + ".scaled")
		}
		return x
	})
}

// Options of a step. If Kept is not nil, only the values that it selects are kept for the backward pass, and what lies
// between them is computed again (grad.Checkpointed). With Rates, each state has an input that multiplies its step size
// and decay.
type Options struct {
	Optimizer string // task.AdamW or task.SGD
	Rates     bool
	Kept      func(n *ir.Node) bool
	Observe   func(g *ir.Graph, values, gradients map[string]*ir.Node) // see arch.Training
}

// Step returns a graph that computes what loss computes, a graph from WithStates whose output task.TrainLoss is f32[],
// and then updates its states. Every reader of a state reads the value from before the step.
func Step(name string, loss *ir.Graph, options Options) (*ir.Graph, error) {
	g, err := loss.Rebuild(nil)
	if err != nil {
		return nil, err
	}
	g.Name = name
	var y *ir.Node
	for _, o := range g.Outputs {
		if o.Name == task.TrainLoss {
			y = o.Node
		}
	}
	states := g.States()
	if y == nil || len(states) == 0 {
		panic("BUG: train: " + loss.Name + " has no output " + task.TrainLoss + ", or trains nothing")
	}
	var cuts []*ir.Node
	for _, n := range g.Nodes {
		if options.Kept != nil && options.Kept(n) {
			cuts = append(cuts, n)
		}
	}
	gradients, err := grad.Checkpointed(y, cuts, states...)
	if err != nil {
		return nil, err
	}
	return g, g.Build(func() {
		s := step{g: g, rates: options.Rates}
		norm := globalNorm(gradients)
		s.factor = op.Min(s.number(1), op.Div(s.input(task.TrainClip), op.Add(norm, s.number(clipEpsilon))))
		update := s.adamW
		if options.Optimizer == task.SGD {
			update = s.sgd
		}
		apply := update()
		for i, p := range states {
			apply(p, gradients[i])
		}
		if options.Observe != nil {
			values, by := map[string]*ir.Node{}, map[string]*ir.Node{}
			for i, p := range states {
				name := p.Name[len(task.TrainParam):]
				values[name], by[name] = p, gradients[i]
			}
			options.Observe(g, values, by)
		}
		g.Return(task.TrainNorm, norm)
	})
}

// globalNorm returns the square root of the sum of the squares of all elements.
func globalNorm(all []*ir.Node) *ir.Node {
	var sum *ir.Node
	for _, x := range all {
		axes := make([]int, x.Type.Rank())
		for i := range axes {
			axes[i] = i
		}
		y := op.ReduceSum(op.Mul(x, x), false, axes...)
		if sum == nil {
			sum = y
		} else {
			sum = op.Add(sum, y)
		}
	}
	return op.Sqrt(sum)
}

// A step builds the update.
type step struct {
	g      *ir.Graph
	factor *ir.Node // of the gradients, by clipping
	rates  bool
}

func (s step) number(v float64) *ir.Node { return op.Const(s.g, v, ir.TypeOf(dtype.F32)) }

func (s step) input(name string) *ir.Node { return op.Input(s.g, name, ir.TypeOf(dtype.F32)) }

// state declares a state for a param's state p, 0 at first.
func (s step) state(prefix string, p *ir.Node) *ir.Node {
	return op.State(s.g, prefix+p.Name[len(task.TrainParam):], p.Type, 0)
}

// rated returns the step size and the decay of a param's state p.
func (s step) rated(p, size, decay *ir.Node) (*ir.Node, *ir.Node) {
	if !s.rates {
		return size, decay
	}
	rate := s.input(task.TrainRate + p.Name[len(task.TrainParam):])
	return op.Mul(size, rate), op.Mul(decay, rate)
}

// assign makes x the value of a state after the step.
func (s step) assign(state, x *ir.Node) {
	op.KVAppend(state, x, op.Const(s.g, 0, ir.TypeOf(dtype.I32)), 0).Named(state.Name + ".new")
}

// adamW returns the update of AdamW; see op.AdamWDef.
func (s step) adamW() func(p, g *ir.Node) {
	size, decay := s.input(task.TrainStepSize), s.input(task.TrainDecay)
	n := op.AdamWNumbers{Scale: s.factor, Epsilon: s.input(task.TrainEpsilon),
		Keep1: s.input(task.TrainKeep1), Take1: s.input(task.TrainTake1),
		Keep2: s.input(task.TrainKeep2), Take2: s.input(task.TrainTake2), Scale2: s.input(task.TrainScale2)}
	return func(p, g *ir.Node) {
		n.StepSize, n.Decay = s.rated(p, size, decay)
		op.AdamW(p, s.state(task.TrainFirst, p), s.state(task.TrainSecond, p), g, n)
	}
}

// sgd returns the update of gradient descent with momentum; see op.SGDDef.
func (s step) sgd() func(p, g *ir.Node) {
	size, decay, momentum := s.input(task.TrainStepSize), s.input(task.TrainDecay), s.input(task.TrainMomentum)
	return func(p, g *ir.Node) {
		rate, less := s.rated(p, size, decay)
		op.SGD(p, s.state(task.TrainFirst, p), g, s.factor, rate, less, momentum)
	}
}

// Init returns a graph that sets the states of the given params to the params' values.
func Init(name string, params []*ir.Node) (*ir.Graph, error) {
	g := ir.NewGraph(name)
	return g, g.Build(func() {
		s, done := step{g: g}, op.Const(g, 0, ir.TypeOf(dtype.I32))
		for _, p := range params {
			x := op.Param(g, p.Name, p.Type)
			if x.Type.DType != dtype.F32 {
				x = op.Cast(x, dtype.F32)
			}
			s.assign(op.State(g, task.TrainParam+p.Name, x.Type, 0), x)
		}
		g.Return("done", done)
	})
}
