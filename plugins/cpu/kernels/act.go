package kernels

import "fmt"

// Act is the activation in the epilogue of a matrix product, by the formulas of UnaryOp.
type Act uint8

// The activations that Gemm applies.
const (
	ActNone Act = iota
	ActRelu
	ActGelu     // x*Phi(x), the erf form
	ActGeluTanh // the tanh approximation
	ActSilu
	ActSigmoid
	ActTanh
	ActExp
	actCount
)

var actNames = [actCount]string{"none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "exp"}

func (a Act) String() string {
	if a < actCount {
		return actNames[a]
	}
	return fmt.Sprintf("Act(%d)", uint8(a))
}

// ParseAct finds an activation by its name.
func ParseAct(name string) (Act, bool) {
	for a, n := range actNames {
		if n == name {
			return Act(a), true
		}
	}
	return ActNone, false
}

// act is the vector routine of an activation; dst may be src.
func (s *isa) act(a Act) func(dst, src []float32) {
	switch a {
	case ActNone:
		return nil
	case ActRelu:
		return s.relu
	case ActGelu:
		return s.gelu
	case ActGeluTanh:
		return s.geluTanh
	case ActSilu:
		return s.silu
	case ActSigmoid:
		return s.sigmoid
	case ActTanh:
		return s.tanh
	case ActExp:
		return s.exp
	}
	panic("BUG: " + a.String())
}
