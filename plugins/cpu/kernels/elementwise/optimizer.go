package elementwise

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// optimizerBlock is how many elements are computed at once. They, and a block filled with each number, stay in the L1
// cache.
const optimizerBlock = 256

// AdamWNumbers are the numbers of a step of AdamW.
type AdamWNumbers struct {
	Scale, StepSize, Decay, Epsilon, Keep1, Take1, Keep2, Take2, Scale2 float32
}

// AdamW updates the elements of a parameter p, and its moments m and v, by its gradient g: h = Scale*g; m = Keep1*m +
// Take1*h; v = Keep2*v + Take2*h*h; p = (p - Decay*p) - StepSize*m/(sqrt(Scale2*v) + Epsilon).
func AdamW(p *pool.Pool, param, m, v, g []float32, n AdamWNumbers) {
	pool.Split(p, len(param), pool.Grain/functionCost, adamW{p, param, m, v, g, n})
}

type adamW struct {
	p              *pool.Pool
	param, m, v, g []float32
	n              AdamWNumbers
}

func (x *adamW) Do(lo, hi, worker int) {
	b := newOptimizerBlocks(x.p, worker)
	scale, size, decay := b.filled(x.n.Scale), b.filled(x.n.StepSize), b.filled(x.n.Decay)
	epsilon := b.filled(x.n.Epsilon)
	keep1, take1, keep2 := b.filled(x.n.Keep1), b.filled(x.n.Take1), b.filled(x.n.Keep2)
	take2, scale2 := b.filled(x.n.Take2), b.filled(x.n.Scale2)
	for ; lo < hi; lo += optimizerBlock {
		end := min(hi, lo+optimizerBlock)
		n := end - lo
		param, m, v, h, t := x.param[lo:end], x.m[lo:end], x.v[lo:end], b.first[:n], b.second[:n]
		b.binary[Mul](h, x.g[lo:end], scale[:n])
		b.binary[Mul](m, m, keep1[:n])
		b.binary[Mul](t, h, take1[:n])
		b.binary[Add](m, m, t)
		b.binary[Mul](h, h, h)
		b.binary[Mul](h, h, take2[:n])
		b.binary[Mul](v, v, keep2[:n])
		b.binary[Add](v, v, h)
		b.binary[Mul](h, v, scale2[:n])
		b.sqrt(h, h, Sqrt.p)
		b.binary[Add](h, h, epsilon[:n])
		b.binary[Mul](t, m, size[:n])
		b.binary[Div](t, t, h)
		b.binary[Mul](h, param, decay[:n])
		b.binary[Sub](param, param, h)
		b.binary[Sub](param, param, t)
	}
}

// SGD updates the elements of a parameter and its momentum m by its gradient g: m = momentum*m + scale*g; param =
// (param - decay*param) - stepSize*m.
func SGD(p *pool.Pool, param, m, g []float32, scale, stepSize, decay, momentum float32) {
	pool.Split(p, len(param), pool.Grain, sgd{p, param, m, g, scale, stepSize, decay, momentum})
}

type sgd struct {
	p                                *pool.Pool
	param, m, g                      []float32
	scale, stepSize, decay, momentum float32
}

func (x *sgd) Do(lo, hi, worker int) {
	b := newOptimizerBlocks(x.p, worker)
	scale, size, decay, momentum := b.filled(x.scale), b.filled(x.stepSize), b.filled(x.decay), b.filled(x.momentum)
	for ; lo < hi; lo += optimizerBlock {
		end := min(hi, lo+optimizerBlock)
		n := end - lo
		param, m, t := x.param[lo:end], x.m[lo:end], b.first[:n]
		b.binary[Mul](t, x.g[lo:end], scale[:n])
		b.binary[Mul](m, m, momentum[:n])
		b.binary[Add](m, m, t)
		b.binary[Mul](t, param, decay[:n])
		b.binary[Sub](param, param, t)
		b.binary[Mul](t, m, size[:n])
		b.binary[Sub](param, param, t)
	}
}

// optimizerBlocks has the memory of a worker for intermediate values, and the routines of its processor.
type optimizerBlocks struct {
	binary        []func(dst, a, b []float32)
	sqrt          unaryLoop
	scratch       *pool.Scratch
	first, second []float32
}

func newOptimizerBlocks(p *pool.Pool, worker int) optimizerBlocks {
	sc, on := p.Scratch(worker), On(p.Set)
	return optimizerBlocks{on.Binary, on.unary[Sqrt.id], sc, sc.Floats(optimizerBlock), sc.Floats(optimizerBlock)}
}

// filled returns a block filled with x.
func (b *optimizerBlocks) filled(x float32) []float32 {
	return SpreadTo(b.scratch.Floats(optimizerBlock), x, optimizerBlock)
}
