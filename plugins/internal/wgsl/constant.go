package wgsl

import (
	"go/constant"
	gotoken "go/token"
	"math"
	"strings"
)

// A Constant is a value that is known when the text is read. Its type may be abstract.
type Constant struct {
	Type  *Type
	Value constant.Value
}

// Whole returns the value of an integer. It returns false for other values, and for integers that do not fit in an
// int64.
func (c Constant) Whole() (int64, bool) { return whole(c.Value) }

func whole(c constant.Value) (int64, bool) {
	if c == nil || c.Kind() != constant.Int {
		return 0, false
	}
	return constant.Int64Val(c)
}

// Constant returns the value of a literal. An error is an *Error.
func (e *Literal) Constant() (Constant, error) {
	if e.Text == "true" || e.Text == "false" {
		return Constant{Bool, constant.MakeBool(e.Text == "true")}, nil
	}
	text, t, kind := e.Text, AbstractInt, gotoken.INT
	hex := strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0X")
	if strings.ContainsAny(text, ".pP") || !hex && strings.ContainsAny(text, "eE") {
		t, kind = AbstractFloat, gotoken.FLOAT
	}
	switch last := text[len(text)-1]; {
	case last == 'u' && kind == gotoken.INT:
		text, t = text[:len(text)-1], U32
	case last == 'i' && kind == gotoken.INT:
		text, t = text[:len(text)-1], I32
	case last == 'f' && !(hex && kind == gotoken.INT):
		text, t, kind = text[:len(text)-1], F32, gotoken.FLOAT
	}
	c := constant.MakeUnknown()
	if len(text) == 1 || kind == gotoken.FLOAT || text[0] != '0' || hex { // 017 would be octal
		c = constant.MakeFromLiteral(text, kind, 0)
	}
	if c.Kind() == constant.Unknown {
		return Constant{}, e.Errorf("%s is not a valid number", e.Text)
	}
	return ConstantOf(e.Pos, c, t)
}

// ConstantOf returns a constant of a scalar type, which may be abstract. An *Error at p reports a value that does not
// fit.
func ConstantOf(p Pos, c constant.Value, t *Type) (Constant, error) {
	switch t {
	case Bool, AbstractFloat:
	case AbstractInt:
		if _, ok := whole(c); !ok {
			return Constant{}, p.Errorf("%s does not fit in 64 bits", c)
		}
	case F32:
		f, _ := constant.Float32Val(constant.ToFloat(c))
		if f != f || f-f != 0 {
			return Constant{}, p.Errorf("%s does not fit in f32", c)
		}
	default:
		n, ok := whole(constant.ToInt(c))
		if least, most := rangeOf(t); !ok || n < least || n > most {
			return Constant{}, p.Errorf("%s does not fit in %s", c, t)
		}
		c = constant.MakeInt64(n)
	}
	return Constant{t, c}, nil
}

// rangeOf returns the smallest and largest value of i32 or u32.
func rangeOf(t *Type) (least, most int64) {
	if t == U32 {
		return 0, math.MaxUint32
	}
	return math.MinInt32, math.MaxInt32
}

// foldable holds the operators that Fold evaluates.
var foldable = map[string]gotoken.Token{
	"+": gotoken.ADD, "-": gotoken.SUB, "*": gotoken.MUL, "/": gotoken.QUO, "%": gotoken.REM,
}

// Fold evaluates an operator on two constants exactly. It returns false if the device must evaluate it: for bool and
// f32, operators other than + - * / %, and results that do not fit in i32 or u32. An *Error reports a division by 0,
// and a result that fits in no type.
func (e *Binary) Fold(x, y Constant) (Constant, bool, error) {
	op, ok := foldable[e.Op]
	to := common(x.Type, y.Type)
	if !ok || to == nil || x.Type == F32 || y.Type == F32 {
		return Constant{}, false, nil
	}
	a, b := x.Value, y.Value
	if to == AbstractFloat {
		a, b = constant.ToFloat(a), constant.ToFloat(b)
		if op == gotoken.REM {
			return Constant{}, false, nil
		}
	}
	if (op == gotoken.QUO || op == gotoken.REM) && constant.Sign(b) == 0 {
		return Constant{}, false, e.Errorf("a division by 0")
	}
	if op == gotoken.QUO && to != AbstractFloat {
		op = gotoken.QUO_ASSIGN // package constant's operator for integer division
	}
	c := constant.BinaryOp(a, op, b)
	if to == U32 || to == I32 {
		n, ok := constant.Int64Val(c)
		if least, most := rangeOf(to); !ok || n < least || n > most {
			return Constant{}, false, nil // the device wraps it
		}
	}
	out, err := ConstantOf(e.Pos, c, to)
	return out, err == nil, err
}

// common returns the type of an operation on two numbers, or nil if they have no common type.
func common(x, y *Type) *Type {
	switch {
	case x == Bool || y == Bool:
		return nil
	case x.Becomes(y):
		return y
	case y.Becomes(x):
		return x
	}
	return nil
}
