package kernels

import (
	"fmt"
	"math"
)

// UnaryOp is an elementwise function of one operand. It can be a kernel of its own, a step of a region or the activation of a
// product. NaN gives NaN.
type UnaryOp uint8

// Identity is no function; a product with this activation has none.
const Identity UnaryOp = 0

// function describes a UnaryOp.
type function struct {
	name string // that of the op
	// f is the formula. It computes float64, and float32 too on instruction sets without a routine of that name.
	f func(float64) float64
	// ulp bounds the error of the routines over float32, in units in the last place; abs is added to it. With 0 they are exact, or
	// rounded once.
	ulp, abs float64
}

// functions is indexed by UnaryOp.
var functions = []function{{name: "identity", f: func(x float64) float64 { return x }}}

func register(f function) UnaryOp {
	functions = append(functions, f)
	return UnaryOp(len(functions) - 1)
}

// The functions. A new function needs nothing but a line here: a loop in Go then computes it. The generator in _asm writes
// faster routines, and the tables in which they are found by name. The absolute errors come from denormal factors, and for GeluTanh
// from the exponent.
var (
	Gelu     = register(function{"gelu", func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }, 6.5, 2e-43})
	GeluTanh = register(function{"gelu_tanh", func(x float64) float64 { return x * sigmoid64(2*0.7978845608028654*(x+0.044715*x*x*x)) }, 8, 2e-8})
	Silu     = register(function{"silu", func(x float64) float64 { return x * sigmoid64(x) }, 3.5, 2e-43})
	Relu     = register(function{"relu", relu64, 0, 0})
	Sigmoid  = register(function{"sigmoid", sigmoid64, 2.5, 0})
	Tanh     = register(function{"tanh", math.Tanh, 2, 0})
	Exp      = register(function{"exp", math.Exp, 1.5, 0})
	Log      = register(function{"log", math.Log, 1, 0})
	Sqrt     = register(function{"sqrt", math.Sqrt, 0, 0})
	Rsqrt    = register(function{"rsqrt", func(x float64) float64 { return 1 / math.Sqrt(x) }, 1.5, 0})
	Neg      = register(function{"neg", func(x float64) float64 { return -x }, 0, 0})
	Abs      = register(function{"abs", math.Abs, 0, 0})
	Round    = register(function{"round", math.RoundToEven, 0, 0})
	Floor    = register(function{"floor", math.Floor, 0, 0})
	Ceil     = register(function{"ceil", math.Ceil, 0, 0})
	Sin      = register(function{"sin", math.Sin, 1.6, 0}) // here and below, angles of angleLimit and more are computed in float64
	Cos      = register(function{"cos", math.Cos, 1.6, 0})
	Tan      = register(function{"tan", math.Tan, 2.5, 0})
	Atan     = register(function{"atan", math.Atan, 1.5, 0})
	Erf      = register(function{"erf", math.Erf, 2, 0})
)

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
	if int(op) < len(functions) {
		return functions[op].name
	}
	return fmt.Sprintf("UnaryOp(%d)", uint8(op))
}

// Unaries lists all functions.
func Unaries() []UnaryOp {
	var ops []UnaryOp
	for op := range functions[1:] {
		ops = append(ops, UnaryOp(op+1))
	}
	return ops
}

// ParseUnary finds a function by its name.
func ParseUnary(name string) (UnaryOp, bool) {
	for i, f := range functions[1:] {
		if f.name == name {
			return UnaryOp(i + 1), true
		}
	}
	return Identity, false
}

// unaryInGo returns all functions as loops in Go.
func unaryInGo() []func(dst, src []float32) {
	loops := make([]func(dst, src []float32), len(functions))
	for op, f := range functions[1:] {
		loops[op+1] = mapOf(viaFloat64(f.f))
	}
	return loops
}

// angleLimit is the first angle that the assembly cannot reduce, as in _asm/fit.go.
const angleLimit = 1 << 17

const elementGrain = 1 << 14 // elements below which a task is not worth a thread

// UnaryF32 is dst[i] = op(src[i]); dst may be src.
func UnaryF32(p *Pool, op UnaryOp, dst, src []float32) {
	split(p, len(src), elementGrain, mapping[float32, float32]{p.isa.unary[op], dst[:len(src)], src})
}

// mapping is f over rows of elements.
type mapping[D, S any] struct {
	f   func(dst []D, src []S)
	dst []D
	src []S
}

func (m *mapping[D, S]) do(lo, hi, _ int) { m.f(m.dst[lo:hi], m.src[lo:hi]) }

// UnaryF64 is dst[i] = op(src[i]); dst may be src.
func UnaryF64(p *Pool, op UnaryOp, dst, src []float64) {
	split(p, len(src), elementGrain, doubles{functions[op].f, dst[:len(src)], src})
}

type doubles struct {
	f        func(float64) float64
	dst, src []float64
}

func (d *doubles) do(lo, hi, _ int) {
	for i := lo; i < hi; i++ {
		d.dst[i] = d.f(d.src[i])
	}
}
