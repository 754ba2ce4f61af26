package kernels

import (
	"fmt"
	"math"
)

// UnaryOp is an elementwise function of one operand. NaN gives NaN.
type UnaryOp uint8

// The unary functions. Over float32 the error of the vector routines is at most: Log 1 ulp; Exp, Atan, Rsqrt 1.5; Sin, Cos 1.6; Tanh, Erf
// 2; Sigmoid, Tan 2.5; Silu 3.5, Gelu 6.5 (both: plus 2e-43, for factors that are denormal); GeluTanh 8 ulp + 2e-8. Angles of 2^17
// and more, and everything that has no vector routine, are computed in float64 and rounded once; the rest is exact.
const (
	Gelu     UnaryOp = iota // x*Phi(x), the erf form
	GeluTanh                // x*(1+tanh(sqrt(2/pi)*(x+0.044715x^3)))/2
	Silu                    // x*sigmoid(x)
	Relu
	Sigmoid
	Tanh
	Exp
	Log
	Sqrt
	Rsqrt // 1/sqrt(x)
	Neg
	Abs
	Round // to the nearest integer, ties to even
	Sin
	Cos
	Tan
	Atan
	Erf
	Floor
	Ceil
	unaryCount
)

var unaryNames = [unaryCount]string{"gelu", "gelu_tanh", "silu", "relu", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "neg", "abs",
	"round", "sin", "cos", "tan", "atan", "erf", "floor", "ceil"}

func (op UnaryOp) String() string {
	if op < unaryCount {
		return unaryNames[op]
	}
	return fmt.Sprintf("UnaryOp(%d)", uint8(op))
}

// ParseUnary finds a function by its name.
func ParseUnary(name string) (UnaryOp, bool) {
	for i, n := range unaryNames {
		if n == name {
			return UnaryOp(i), true
		}
	}
	return 0, false
}

var unary64 = [unaryCount]func(float64) float64{
	Gelu:     func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) },
	GeluTanh: func(x float64) float64 { return x * sigmoid64(2*0.7978845608028654*(x+0.044715*x*x*x)) },
	Silu:     func(x float64) float64 { return x * sigmoid64(x) },
	Relu: func(x float64) float64 {
		if x < 0 {
			return 0
		}
		return x
	},
	Sigmoid: sigmoid64, Tanh: math.Tanh, Exp: math.Exp, Log: math.Log, Sqrt: math.Sqrt,
	Rsqrt: func(x float64) float64 { return 1 / math.Sqrt(x) },
	Neg:   func(x float64) float64 { return -x },
	Abs:   math.Abs, Round: math.RoundToEven, Sin: math.Sin, Cos: math.Cos, Tan: math.Tan, Atan: math.Atan, Erf: math.Erf,
	Floor: math.Floor, Ceil: math.Ceil,
}

// vector is the routine of op over float32.
func (s *isa) vector(op UnaryOp) func(dst, src []float32) {
	switch op {
	case Gelu:
		return s.gelu
	case GeluTanh:
		return s.geluTanh
	case Silu:
		return s.silu
	case Relu:
		return s.relu
	case Sigmoid:
		return s.sigmoid
	case Tanh:
		return s.tanh
	case Exp:
		return s.exp
	case Erf:
		return s.erf
	}
	if f := s.unary[op]; f != nil {
		return f
	}
	return throughFloat64[op]
}

// throughFloat64 is every function in plain Go.
var throughFloat64 = func() (fs [unaryCount]func(dst, src []float32)) {
	for op := range fs {
		fs[op] = mapOf(viaFloat64(unary64[op]))
	}
	return fs
}()

// angleLimit is where the routines of angles stop: as in _asm/fit.go.
const angleLimit = 1 << 17

const elementGrain = 1 << 14 // elements below which a task is not worth a thread

// UnaryF32 is dst[i] = op(src[i]); dst may be src.
func UnaryF32(p *Pool, op UnaryOp, dst, src []float32) {
	split(p, len(src), elementGrain, mapping[float32, float32]{p.isa.vector(op), dst[:len(src)], src})
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
	split(p, len(src), elementGrain, doubles{unary64[op], dst[:len(src)], src})
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

// Integer is the element types with wrapping arithmetic.
type Integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint32
}

// UnaryInt is dst[i] = op(src[i]) for Neg, Abs and Relu, which wrap at the smallest value, and for the roundings, which change
// nothing. Other functions have no integer form: ok is false.
func UnaryInt[T Integer](p *Pool, op UnaryOp, dst, src []T) (ok bool) {
	dst = dst[:len(src)]
	switch op {
	case Round, Floor, Ceil:
		copy(dst, src)
		return true
	case Neg, Abs, Relu:
		for i, x := range src {
			switch {
			case op == Neg || op == Abs && x < 0:
				x = -x
			case op == Relu && x < 0:
				x = 0
			}
			dst[i] = x
		}
		return true
	}
	return false
}
