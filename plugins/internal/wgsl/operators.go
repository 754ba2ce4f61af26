package wgsl

import "strings"

// Type returns the type of -x, !x or ~x for an x of a concrete type. An error is an *Error.
func (e *Unary) Type(x *Type) (*Type, error) {
	s := x.Scalar()
	switch {
	case e.Op == "-" && (s == F32 || s == I32):
	case e.Op == "!" && s == Bool:
	case e.Op == "~" && x.Integer():
	default:
		return nil, e.Errorf("operator %s of %s", e.Op, x)
	}
	return x, nil
}

// Operands returns the types to which the operands of e are converted, given the types that they have. An operand of an
// abstract type gets the type of the other. The number of bits to shift by gets the shape of the shifted value.
func (e *Binary) Operands(x, y *Type) (*Type, *Type) {
	switch {
	case e.Op == "<<" || e.Op == ">>":
		x = x.Concrete()
		return x, x.Like(U32)
	case x.Abstract() && y.Abstract():
		to := I32
		if x == AbstractFloat || y == AbstractFloat {
			to = F32
		}
		return to, to
	case x.Abstract():
		return y.Scalar(), y
	case y.Abstract():
		return x, x.Scalar()
	}
	return x, y
}

// Type returns the type of the result, for operands of concrete types. An error is an *Error.
func (e *Binary) Type(x, y *Type) (*Type, error) {
	if x.Kind <= Vector && y.Kind <= Vector {
		if t := operators[e.Op](x, y); t != nil {
			return t, nil
		}
	}
	return nil, e.Errorf("operator %s of %s and %s", e.Op, x, y)
}

// operators holds, for each binary operator, a function of the types of its operands, scalars or vectors, that returns
// the type of the result. It returns nil for operands that the operator does not take.
var operators = map[string]func(x, y *Type) *Type{
	"+": arithmetic, "-": arithmetic, "*": arithmetic, "/": arithmetic, "%": remainder,
	"<<": shifted, ">>": shifted,
	"&": bitwise, "|": bitwise, "^": exclusive,
	"&&": logical, "||": logical,
	"==": equality, "!=": equality, "<": order, ">": order, "<=": order, ">=": order,
}

// arithmetic takes numbers of one element type. One of them may be a scalar and the other a vector.
func arithmetic(x, y *Type) *Type {
	switch {
	case !x.Numeric() || !x.Scalar().Is(y.Scalar()):
		return nil
	case x.Kind == Scalar:
		return y
	case y.Kind == Scalar || x.Is(y):
		return x
	}
	return nil
}

func remainder(x, y *Type) *Type {
	if x.Scalar() == F32 {
		return nil // not supported
	}
	return arithmetic(x, y)
}

func shifted(x, y *Type) *Type {
	if !x.Integer() || !y.Is(x.Like(U32)) {
		return nil
	}
	return x
}

func bitwise(x, y *Type) *Type {
	if !x.Is(y) || x.Scalar() == F32 {
		return nil
	}
	return x
}

func exclusive(x, y *Type) *Type {
	if x.Scalar() == Bool {
		return nil
	}
	return bitwise(x, y)
}

func logical(x, y *Type) *Type {
	if x != Bool || y != Bool {
		return nil
	}
	return x
}

func equality(x, y *Type) *Type {
	if !x.Is(y) {
		return nil
	}
	return x.Like(Bool)
}

func order(x, y *Type) *Type {
	if x.Scalar() == Bool {
		return nil
	}
	return equality(x, y)
}

// Type returns the type of a member of a struct or of one to four elements of a vector. An error is an *Error.
func (e *Member) Type(x *Type) (*Type, error) {
	switch x.Kind {
	case Structure:
		for _, f := range x.Fields {
			if f.Name == e.Name {
				return f.Type, nil
			}
		}
	case Vector:
		if n := len(e.Name); n <= 4 && strings.Trim(e.Name, "xyzw"[:x.N]) == "" {
			if n == 1 {
				return x.Elem, nil
			}
			return VectorOf(x.Elem, n), nil
		}
	}
	return nil, e.Errorf("%s has no member %s", x, e.Name)
}

// Type returns the type of an element of x. i is the index: its type and, if it is constant, its value. An error is an
// *Error.
func (e *Index) Type(x *Type, i Constant) (*Type, error) {
	if i.Type != I32 && i.Type != U32 {
		return nil, e.I.At().Errorf("an index of %s; want i32 or u32", i.Type)
	}
	if x.Kind != Array && x.Kind != Vector && x.Kind != Matrix {
		return nil, e.Errorf("an index of %s", x)
	}
	if n, ok := i.Whole(); ok && (n < 0 || x.N > 0 && n >= int64(x.N)) {
		return nil, e.I.At().Errorf("index %d of %s", n, x)
	}
	return x.Elem, nil
}
