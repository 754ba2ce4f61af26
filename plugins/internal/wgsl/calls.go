package wgsl

// Common returns the type that all arguments of a built-in function get, given the types that they have: the first
// that is not abstract, or otherwise i32, or f32 where one has a point or the function does not take i32. An *Error
// says that the function does not take the type.
func (e *Call) Common(have []*Type, takes func(*Type) bool) (*Type, error) {
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
