package wgsl

// A signature says which arguments a built-in function takes.
type signature struct {
	args int
	of   func(*Type) bool // whether it takes arguments of a type, for a function whose arguments have one type
}

// signatures holds the built-in functions of WGSL that a translator may support, and those of simdgroup matrices
// (kernels.Limits.Matrices). The condition of select, its third argument, has a type of its own.
var signatures = map[string]signature{
	"workgroupBarrier": {}, "atomicLoad": {args: 1}, "atomicStore": {args: 2}, "atomicAdd": {args: 2},
	"rlx_matrix_load": {args: 5}, "rlx_matrix_store": {args: 4}, "rlx_matrix_multiply_add": {args: 3},
	"unpack2x16float": {args: 1},

	"select":            {3, func(t *Type) bool { return t.Kind <= Vector }},
	"dot":               {2, func(t *Type) bool { return t.Kind == Vector && t.Elem == F32 }},
	"transpose":         {1, func(t *Type) bool { return t.Kind == Matrix }},
	"any":               {1, func(t *Type) bool { return t.Kind == Vector && t.Elem == Bool }},
	"countLeadingZeros": {1, (*Type).Integer},
	"abs":               {1, (*Type).Numeric},
	"min":               {2, (*Type).Numeric},
	"max":               {2, (*Type).Numeric},
	"clamp":             {3, (*Type).Numeric},
}

func init() {
	float := func(t *Type) bool { return t.Scalar() == F32 }
	for _, name := range []string{"exp", "exp2", "log", "log2", "sqrt", "tan", "tanh", "ceil", "floor", "round"} {
		signatures[name] = signature{1, float}
	}
	signatures["fma"] = signature{3, float}
}

// Builtin returns the element of a translator's table of built-in functions for a call. An *Error says that the table
// lacks the function, or that the number of arguments is wrong.
func Builtin[T any](table map[string]T, e *Call) (T, error) {
	of, ok := table[e.Of.Name]
	if !ok {
		return of, e.Errorf("function %s is not declared or not supported", e.Of.Name)
	}
	return of, e.takes(signatures[e.Of.Name].args)
}

// CheckFunction checks the number of arguments of a call of a function that the text declares. An error is an *Error.
func (e *Call) CheckFunction(f *Function) error { return e.takes(len(f.Params)) }

func (e *Call) takes(n int) error {
	if len(e.Args) != n {
		return e.Errorf("%s has %d arguments; want %d", e.Of.Name, len(e.Args), n)
	}
	return nil
}

// Common returns the type that all arguments of a built-in function get, given the types that they have: the first
// that is not abstract, or otherwise i32, or f32 where one has a point or the function does not take i32. An *Error
// says that the function does not take the type.
func (e *Call) Common(have []*Type) (*Type, error) {
	takes := signatures[e.Of.Name].of
	var t *Type
	for _, h := range have {
		if !h.Abstract() && t == nil {
			t = h
		}
	}
	if t == nil {
		t = I32
		for _, h := range have {
			if h == AbstractFloat || !takes(I32) {
				t = F32
			}
		}
	}
	if !takes(t) {
		return nil, e.Errorf("%s of %s", e.Of.Name, t)
	}
	return t, nil
}

// CheckCondition checks the type of the condition of a select between two values of type t. An error is an *Error.
func (e *Call) CheckCondition(t, condition *Type) error {
	if condition != Bool && (t.Kind != Vector || !condition.Is(t.Like(Bool))) {
		return e.Errorf("select of %s by %s", t, condition)
	}
	return nil
}

// Address returns x if argument i is &x. want describes x in an error, which is an *Error.
func (e *Call) Address(i int, want string) (Expr, error) {
	if u, ok := e.Args[i].(*Unary); ok && u.Op == "&" {
		return u.X, nil
	}
	return nil, e.Args[i].At().Errorf("argument %d of %s; want the address of %s", i+1, e.Of.Name, want)
}

// Bitcast returns the type expression and the argument of a bitcast. An error is an *Error.
func (e *Call) Bitcast() (to *TypeExpr, x Expr, err error) {
	if len(e.Of.Args) != 1 || len(e.Args) != 1 {
		return nil, nil, e.Errorf("bitcast takes one type and one argument")
	}
	return e.Of.Args[0], e.Args[0], nil
}

// CheckBitcast checks the types of a bitcast. An error is an *Error.
func (e *Call) CheckBitcast(from, to *Type) error {
	if !to.Numeric() || !from.Numeric() || !to.Like(U32).Is(from.Like(U32)) {
		return e.Errorf("a bitcast of %s to %s", from, to)
	}
	return nil
}

// CheckConversion checks the types of a conversion of a scalar or of the elements of a vector. An error is an *Error.
func (e *Call) CheckConversion(from, to *Type) error {
	if from.Kind != to.Kind || from.N != to.N {
		return e.Errorf("a value of %s cannot be converted to %s", from, to)
	}
	return nil
}

// Parts returns the types to which the arguments of a constructor are converted, given the types that they have. It
// returns no types if the call converts its argument to a scalar or a vector, and one type if it is a vector of equal
// elements. If the number of arguments is wrong, it returns an *Error.
func (e *Call) Parts(to *Type, have []*Type) (want []*Type, err error) {
	n := len(have)
	all := func(needs int, typ func(i int) *Type) ([]*Type, error) {
		if n != needs {
			return nil, e.Errorf("%s of %d values; want %d", to, n, needs)
		}
		for i := range n {
			want = append(want, typ(i))
		}
		return want, nil
	}
	elem := func(int) *Type { return to.Elem }
	switch {
	case to.Kind == Array, to.Kind == Matrix:
		return all(to.N, elem)
	case to.Kind == Structure:
		return all(len(to.Fields), func(i int) *Type { return to.Fields[i].Type })
	case n == 1 && (to.Kind == Scalar || have[0].Kind == Vector):
		return nil, nil
	case n == 1:
		return all(1, elem)
	case to.Kind != Vector:
		return all(1, nil)
	}
	elements := 0
	for _, h := range have {
		elements += max(h.N, 1)
	}
	if elements != to.N {
		return nil, e.Errorf("%s of %d elements", to, elements)
	}
	return all(n, func(i int) *Type { return have[i].Like(to.Elem) })
}
