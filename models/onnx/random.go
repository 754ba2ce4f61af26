package onnx

import (
	"hash/fnv"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has random numbers: threefry2x32-20 of the position of an element, as core/random has it. A model is a
// function, so each run gives the same ones.

const randomNote = "each run gives the same numbers; seed chooses them"

// The ranks of inputs.
var (
	_ = ranks("2", "Multinomial")
	_ = ranks("* one one", "Dropout")
)

var (
	_ = register("RandomUniform", conversion{since: 1, keep: true, note: randomNote,
		convert: func(n *node) []*value {
			return n.uniformly(n.randomType(dtype.F32))
		}})
	_ = register("RandomUniformLike", conversion{since: 1, keep: true, note: randomNote,
		convert: func(n *node) []*value {
			return n.uniformly(n.randomType(n.typeOf(0).DType))
		}})
	_ = register("RandomNormal", conversion{since: 1, keep: true, note: randomNote,
		convert: func(n *node) []*value {
			return n.normally(n.randomType(dtype.F32))
		}})
	_ = register("RandomNormalLike", conversion{since: 1, keep: true, note: randomNote,
		convert: func(n *node) []*value {
			return n.normally(n.randomType(n.typeOf(0).DType))
		}})
	_ = register("Bernoulli", conversion{since: 15, keep: true, note: randomNote, convert: func(n *node) []*value {
		x := n.x(0)
		u, _ := n.uniforms(x.Type.Shape)
		return one(cast(op.Lt(u, cast(x, dtype.F32)), n.randomType(x.Type.DType).DType))
	}})
	_ = register("Multinomial", conversion{since: 7, keep: true, note: randomNote, convert: func(n *node) []*value {
		// The largest of logits with Gumbel noise is a class with the probability of its logit.
		x := cast(n.x(0), dtype.F32)
		s := x.Type.Shape
		if len(s) != 2 {
			n.fail("input is %v; want [batch, classes]", x.Type)
		}
		u, _ := n.uniforms(ir.Shape{s[0], ir.Static(int64(n.int("sample_size", 1))), s[1]})
		u = op.Max(u, number(1e-30, u))
		noise := op.Neg(op.Log(op.Neg(op.Log(u))))
		y := op.ArgMax(op.Add(op.Reshape(x, ir.Shape{s[0], ir.Static(1), s[1]}), noise), 2, false)
		return one(cast(y, n.dtype(n.int("dtype", 6))))
	}})
	_ = register("Dropout", conversion{since: 1, convert: dropout, note: "in training mode " + randomNote})
)

// randomType returns the type of the result: the attributes dtype and shape, or those of input 0.
func (n *node) randomType(d dtype.DType) ir.Type {
	t := ir.Type{DType: d}
	if n.attr("dtype") != nil {
		t.DType = n.dtype(n.int("dtype", 1))
	}
	if shape, ok := n.list("shape"); ok {
		for _, k := range shape {
			if k < 0 || k > ir.MaxDim {
				n.fail("shape is %v; allowed are sizes of 0 to %d", shape, ir.MaxDim)
			}
			t.Shape = append(t.Shape, ir.Static(int64(k)))
		}
	} else if n.has(0) {
		t.Shape = n.typeOf(0).Shape
	} else {
		n.fail("has neither the attribute shape nor an input")
	}
	return t
}

func (n *node) uniformly(t ir.Type) []*value {
	u, _ := n.uniforms(t.Shape)
	lo, hi := n.float("low", 0), n.float("high", 1)
	return one(cast(op.Add(op.Mul(u, number(hi-lo, u)), number(lo, u)), t.DType))
}

// normally returns numbers of a normal distribution, from two uniform ones each (G. Box and M. Muller, 1958).
func (n *node) normally(t ir.Type) []*value {
	u, v := n.uniforms(t.Shape)
	radius := op.Sqrt(op.Mul(op.Log(op.Sub(number(1, u), u)), number(-2, u)))
	y := op.Mul(radius, op.Cos(op.Mul(v, number(2*math.Pi, v))))
	return one(cast(op.Add(op.Mul(y, number(n.float("scale", 1), y)), number(n.float("mean", 0), y)), t.DType))
}

// uniforms returns two tensors of numbers in [0,1), f32, that are multiples of 2^-24.
func (n *node) uniforms(shape ir.Shape) (a, b *ir.Node) {
	count := ir.Type{DType: dtype.I32, Shape: ir.Shape{n.product(shape)}}
	i := op.Cast(op.Iota(n.b.g, 0, count), dtype.U32)
	x, y := threefry(i, n.key())
	uniform := func(w *ir.Node) *ir.Node {
		w = op.ShiftRight(w, number(8, w))
		f := op.Cast(op.Cast(w, dtype.I32), dtype.F32)
		return op.Reshape(op.Mul(f, number(0x1p-24, f)), shape)
	}
	return uniform(x), uniform(y)
}

// key returns the key of the node's numbers: its seed, or its place in the model.
func (n *node) key() [2]uint32 {
	if a := n.attr("seed"); a != nil {
		return [2]uint32{math.Float32bits(a.GetF()), uint32(a.GetI())}
	}
	h := fnv.New32a()
	h.Write([]byte(n.describe()))
	return [2]uint32{h.Sum32(), uint32(n.b.count)}
}

// threefry returns the two words of the counters i, 0 (u32): see core/random.
func threefry(i *ir.Node, key [2]uint32) (x, y *ir.Node) {
	num := func(v uint32) *ir.Node { return number(float64(v), i) }
	keys := [3]uint32{key[0], key[1], 0x1bd11bda ^ key[0] ^ key[1]}
	x, y = op.Add(i, num(keys[0])), op.Const(i.Graph, float64(keys[1]), i.Type)
	rotations := [2][4]uint32{{13, 15, 26, 6}, {17, 29, 16, 24}}
	for r := range uint32(5) {
		for _, by := range rotations[r%2] {
			x = op.Add(x, y)
			y = op.Xor(op.Or(op.ShiftLeft(y, num(by)), op.ShiftRight(y, num(32-by))), x)
		}
		x = op.Add(x, num(keys[(r+1)%3]))
		y = op.Add(y, num(keys[(r+2)%3]+r+1))
	}
	return x, y
}

// dropout is Dropout. In inference it is the input.
func dropout(n *node) []*value {
	x := n.x(0)
	ones := op.Const(n.b.g, 1, ir.Type{DType: dtype.Bool, Shape: x.Type.Shape})
	if !n.has(2) || n.in[2].isKnown() && n.array(2).At(0) == 0 {
		if n.version < 10 {
			ones = cast(ones, x.Type.DType)
		}
		return []*value{n.in[0].clone(""), {typ: ones.Type, node: ones}}
	}
	u, _ := n.uniforms(x.Type.Shape)
	ratio := number(0.5, u)
	if n.has(1) {
		ratio = op.Reshape(cast(n.x(1), dtype.F32), ir.Shape{})
	}
	mask := op.Ge(u, ratio)
	y := op.Mul(x, cast(op.Div(number(1, u), op.Sub(number(1, u), ratio)), x.Type.DType))
	y = op.Where(mask, y, number(0, y))
	training := op.Reshape(n.x(2), ir.Shape{})
	return many(op.Where(training, y, x), op.Where(training, mask, ones))
}
