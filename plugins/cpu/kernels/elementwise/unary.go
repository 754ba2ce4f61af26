package elementwise

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// UnaryOp is an elementwise function of one operand, with the values of its parameters. It can be a kernel, a step of a
// region or the activation of a matrix product. NaN gives NaN.
type UnaryOp struct {
	id uint8
	p  params
}

// params are the parameters of a function: the attributes of its op, in the order of their names.
type params [2]float64

// Identity returns its operand. A product with this activation has none.
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
	// f is the formula. It computes float64, and float32 on instruction sets without a routine of that name.
	f func(x float64, p params) float64
	// The error of routines for float32 is at most ulp units in the last place plus abs. If both are 0, results are
	// exact or rounded once.
	ulp, abs float64
	params   int // number of parameters
}

// functions is indexed by the id of a UnaryOp.
var functions = []function{{name: "identity", f: of(func(x float64) float64 { return x })}}

// of turns a formula without parameters into a function.f.
func of(f func(float64) float64) func(float64, params) float64 {
	return func(x float64, _ params) float64 { return f(x) }
}

func register(f function) UnaryOp {
	functions = append(functions, f)
	return UnaryOp{id: uint8(len(functions) - 1)}
}

// The functions. To add one, add a line here: a loop in Go then computes it. Add it to the generator in _asm, too, if
// it should be fast; the generator also writes the tables that list routines by name.
var (
	Gelu = register(
		function{"gelu", of(func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }), 6.5, 0, 0})
	GeluTanh = register(
		function{"gelu_tanh",
			of(func(x float64) float64 { return x * sigmoid64(2*0.7978845608028654*(x+0.044715*x*x*x)) }), 4, 0, 0})
	Silu       = register(function{"silu", of(func(x float64) float64 { return x * sigmoid64(x) }), 3.5, 0, 0})
	Relu       = register(function{"relu", of(relu64), 0, 0, 0})
	Sigmoid    = register(function{"sigmoid", of(sigmoid64), 2.5, 0, 0})
	Tanh       = register(function{"tanh", of(math.Tanh), 2, 0, 0})
	Exp        = register(function{"exp", of(math.Exp), 1.5, 0, 0})
	Exp2       = register(function{"exp2", of(math.Exp2), 1.5, 0, 0})
	Expm1      = register(function{"expm1", of(math.Expm1), 2, 2e-45, 0})
	Log        = register(function{"log", of(math.Log), 1, 0, 0})
	Log2       = register(function{"log2", of(math.Log2), 2, 0, 0})
	Log1p      = register(function{"log1p", of(math.Log1p), 1.5, 0, 0})
	Sqrt       = register(function{"sqrt", of(math.Sqrt), 0, 0, 0})
	Rsqrt      = register(function{"rsqrt", of(func(x float64) float64 { return 1 / math.Sqrt(x) }), 1.5, 0, 0})
	Reciprocal = register(function{"reciprocal", of(func(x float64) float64 { return 1 / x }), 0, 0, 0})
	Square     = register(function{"square", of(func(x float64) float64 { return x * x }), 0, 0, 0})
	Neg        = register(function{"neg", of(func(x float64) float64 { return -x }), 0, 0, 0})
	Abs        = register(function{"abs", of(math.Abs), 0, 0, 0})
	Sign       = register(function{"sign", of(sign64), 0, 0, 0})
	Round      = register(function{"round", of(math.RoundToEven), 0, 0, 0})
	Floor      = register(function{"floor", of(math.Floor), 0, 0, 0})
	Ceil       = register(function{"ceil", of(math.Ceil), 0, 0, 0})
	// in Sin, Cos and Tan, angles from angleLimit on are computed in float64
	Sin  = register(function{"sin", of(math.Sin), 1.6, 0, 0})
	Cos  = register(function{"cos", of(math.Cos), 1.6, 0, 0})
	Tan  = register(function{"tan", of(math.Tan), 2.5, 0, 0})
	Atan = register(function{"atan", of(math.Atan), 1.5, 0, 0})
	Erf  = register(function{"erf", of(math.Erf), 2, 0, 0})
	Mish = register(
		function{"mish", of(func(x float64) float64 { return x * math.Tanh(math.Log1p(math.Exp(x))) }), 4, 0, 0})
	Selu = register(
		function{"selu", of(func(x float64) float64 { return 1.0507009873554805 * elu64(x, 1.6732632423543772, 1) }), 4,
			4e-45, 0})
	Elu  = register(function{"elu", func(x float64, p params) float64 { return elu64(x, p[0], 1) }, 3, 4e-45, 1})
	Celu = register(
		function{"celu", func(x float64, p params) float64 { return elu64(x, p[0], p[0]) }, 5, 4e-45, 1})
	Hardsigmoid = register(
		function{"hardsigmoid", func(x float64, p params) float64 { return min(max(p[0]*x+p[1], 0), 1) }, 1, 2e-7, 2})
	Hardswish = register(
		function{"hardswish", of(func(x float64) float64 { return x * min(max(x/6+0.5, 0), 1) }), 2, 4e-7, 0})
	LeakyRelu = register(function{"leaky_relu", leaky64, 1.5, 0, 1})
	Softplus  = register(function{"softplus", softplus64, 3, 2e-45, 2})
	Clamp     = register(
		function{"clamp", func(x float64, p params) float64 { return min(max(x, p[1]), p[0]) }, 0, 0, 2})
)

func sign64(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x // NaN too
}

// elu64 is x if x > 0, else alpha*(e^(x/rate) - 1).
func elu64(x, alpha, rate float64) float64 {
	if x > 0 {
		return x
	}
	return alpha * math.Expm1(x/rate)
}

func leaky64(x float64, p params) float64 {
	if x > 0 {
		return x
	}
	return p[0] * x
}

func softplus64(x float64, p params) float64 {
	t := p[0] * x
	if t > p[1] {
		return x
	}
	return (max(t, 0) + math.Log1p(math.Exp(-math.Abs(t)))) / p[0]
}

func sigmoid64(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}

func relu64(x float64) float64 {
	if x < 0 {
		return 0
	}
	return x // NaN too
}

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

// angleLimit is the least angle that the assembly cannot reduce; _asm/fit.go has the same limit.
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
