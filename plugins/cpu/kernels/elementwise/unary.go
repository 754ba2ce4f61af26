package elementwise

import (
	"fmt"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// UnaryOp is an elementwise function of one operand, with the values of its parameters. It can be a kernel, a step of a
// region or the activation of a matrix product. NaN gives NaN.
type UnaryOp struct {
	id uint8
	p  params
}

// Identity returns its operand. A product with this activation has no activation.
var Identity UnaryOp

// With returns the function with these parameters.
func (op UnaryOp) With(p ...float64) UnaryOp {
	if len(p) != functions[op.id].params {
		panic(fmt.Sprintf("BUG: %d parameters of %v", len(p), op))
	}
	copy(op.p[:], p)
	return op
}

// function describes a UnaryOp.
type function struct {
	name string // the op's
	// The error of routines for float32 is at most ulp units in the last place plus abs. If both are 0, results are
	// exact or rounded once.
	ulp, abs float64
	params   int // number of parameters
	// f is the op's formula. It computes float64, and float32 on instruction sets without a routine of that name.
	f func(x float64, p params) float64
}

// functions is indexed by the id of a UnaryOp.
var functions = []function{{name: "identity", f: func(x float64, _ params) float64 { return x }}}

func register(name string, ulp, abs float64, params int) UnaryOp {
	functions = append(functions, function{name, ulp, abs, params, formula(name)})
	return UnaryOp{id: uint8(len(functions) - 1)}
}

// The functions. To add one, add a line here: a loop in Go then computes it. Add it to the generator in _asm, too, if
// it should be fast; the generator also writes the tables that list routines by name.
var (
	Gelu       = register("gelu", 6.5, 0, 0)
	GeluTanh   = register("gelu_tanh", 4, 0, 0)
	Silu       = register("silu", 3.5, 0, 0)
	Relu       = register("relu", 0, 0, 0)
	Sigmoid    = register("sigmoid", 2.5, 0, 0)
	Tanh       = register("tanh", 2, 0, 0)
	Exp        = register("exp", 1.5, 0, 0)
	Exp2       = register("exp2", 1.5, 0, 0)
	Expm1      = register("expm1", 2, 2e-45, 0)
	Log        = register("log", 1, 0, 0)
	Log2       = register("log2", 2, 0, 0)
	Log1p      = register("log1p", 1.5, 0, 0)
	Sqrt       = register("sqrt", 0, 0, 0)
	Rsqrt      = register("rsqrt", 1.5, 0, 0)
	Reciprocal = register("reciprocal", 0, 0, 0)
	Square     = register("square", 0, 0, 0)
	Neg        = register("neg", 0, 0, 0)
	Abs        = register("abs", 0, 0, 0)
	Sign       = register("sign", 0, 0, 0)
	Round      = register("round", 0, 0, 0)
	Floor      = register("floor", 0, 0, 0)
	Ceil       = register("ceil", 0, 0, 0)
	// in Sin, Cos and Tan, angles from angleLimit on are computed in float64
	Sin         = register("sin", 1.6, 0, 0)
	Cos         = register("cos", 1.6, 0, 0)
	Tan         = register("tan", 2.5, 0, 0)
	Atan        = register("atan", 1.5, 0, 0)
	Erf         = register("erf", 2, 0, 0)
	Mish        = register("mish", 4, 0, 0)
	Selu        = register("selu", 4, 4e-45, 0)
	Elu         = register("elu", 3, 4e-45, 1)
	Celu        = register("celu", 5, 4e-45, 1)
	Hardsigmoid = register("hardsigmoid", 1, 2e-7, 2)
	Hardswish   = register("hardswish", 2, 4e-7, 0)
	LeakyRelu   = register("leaky_relu", 1.5, 0, 1)
	Softplus    = register("softplus", 3, 2e-45, 2)
	Clamp       = register("clamp", 0, 0, 2)
)

func (op UnaryOp) String() string {
	if int(op.id) < len(functions) {
		return functions[op.id].name
	}
	return fmt.Sprintf("UnaryOp(%d)", op.id)
}

// Exact computes a function in float64.
func Exact(op UnaryOp, x float64) float64 { return functions[op.id].f(x, op.p) }

// Unaries lists all functions but Identity, with parameters 0.
func Unaries() []UnaryOp {
	var ops []UnaryOp
	for id := range functions[1:] {
		ops = append(ops, UnaryOp{id: uint8(id + 1)})
	}
	return ops
}

// ParseUnary finds a function by its name. Its parameters are 0; With sets them.
func ParseUnary(name string) (UnaryOp, bool) {
	for i, f := range functions[1:] {
		if f.name == name {
			return UnaryOp{id: uint8(i + 1)}, true
		}
	}
	return Identity, false
}

// unaryLoop computes a function of all elements of src; dst may be src.
type unaryLoop func(dst, src []float32, p params)

// unaryInGo returns all functions as loops in Go.
func unaryInGo() []unaryLoop {
	loops := make([]unaryLoop, len(functions))
	for id, f := range functions[1:] {
		loops[id+1] = func(dst, src []float32, p params) {
			dst = dst[:len(src)]
			for i, x := range src {
				dst[i] = float32(f.f(float64(x), p))
			}
		}
	}
	return loops
}

// Apply is dst[i] = op(src[i]); dst may be src.
func Apply(s *isa.Set, op UnaryOp, dst, src []float32) { On(s).unary[op.id](dst, src, op.p) }

// angleLimit is the smallest angle that the assembly cannot reduce; _asm/fit.go has the same limit.
const angleLimit = 1 << 17

// UnaryF32 is dst[i] = op(src[i]); dst may be src.
func UnaryF32(p *pool.Pool, op UnaryOp, dst, src []float32) {
	pool.Split(p, len(src), pool.Grain, unaryRows{newOutput(p, functions[op.id].ulp == 0, dst[:len(src)], src), op,
		src})
}

type unaryRows struct {
	output[float32]
	op  UnaryOp
	src []float32
}

func (u *unaryRows) Do(lo, hi, worker int) {
	u.each(lo, hi, worker, func(dst []float32, lo, hi int) { Apply(u.p.Set, u.op, dst, u.src[lo:hi]) })
}

// mapping applies f to ranges of elements.
type mapping[D, S any] struct {
	f   func(dst []D, src []S)
	dst []D
	src []S
}

func (m *mapping[D, S]) Do(lo, hi, _ int) { m.f(m.dst[lo:hi], m.src[lo:hi]) }

// UnaryF64 is dst[i] = op(src[i]); dst may be src.
func UnaryF64(p *pool.Pool, op UnaryOp, dst, src []float64) {
	pool.Split(p, len(src), pool.Grain, doubles{op, dst[:len(src)], src})
}

type doubles struct {
	op       UnaryOp
	dst, src []float64
}

func (d *doubles) Do(lo, hi, _ int) {
	f := functions[d.op.id].f
	for i := lo; i < hi; i++ {
		d.dst[i] = f(d.src[i], d.op.p)
	}
}
