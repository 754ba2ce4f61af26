package wgsl

import (
	"fmt"
	"go/constant"
)

// A Type is a resolved type. Types with the same name are the same type, as Is reports; those that this package exports
// as variables can be compared with ==, too.
type Type struct {
	Name   string // in WGSL, such as vec2<f32>
	Kind   Kind
	Elem   *Type // of a vector, a matrix (its columns), an array or an atomic
	N      int   // elements of a vector or an array, or columns of a matrix; 0 for an array without a size
	Fields []TypedField
}

// A TypedField is a member of a struct.
type TypedField struct {
	Name string
	Type *Type
}

// A Kind tells what a type consists of.
type Kind int

// The kinds of types.
const (
	Scalar    Kind = iota // bool, i32, u32, f32, and the abstract types
	Vector                // 2 to 4 scalars
	Matrix                // mat4x4<f32>
	Array                 // with a fixed size or, in a buffer, without
	Structure             // members with names
	Atomic                // atomic<u32>
	Shared8x8             // a simdgroup matrix, which 32 invocations hold together
)

// The scalar types, the simdgroup matrices of kernels.Limits.Matrices, and the abstract types, which literals without a
// suffix have until an operand or an assignment determines a concrete one.
var (
	Bool          = &Type{Name: "bool"}
	I32           = &Type{Name: "i32"}
	U32           = &Type{Name: "u32"}
	F32           = &Type{Name: "f32"}
	Matrix8x8     = &Type{Name: "rlx_matrix8x8", Kind: Shared8x8}
	Half8x8       = &Type{Name: "rlx_half8x8", Kind: Shared8x8}
	AbstractInt   = &Type{Name: "a whole number"}
	AbstractFloat = &Type{Name: "a number"}
)

var mat4x4 = &Type{Name: "mat4x4<f32>", Kind: Matrix, Elem: VectorOf(F32, 4), N: 4}

// named holds the types without arguments that are not structs.
var named = map[string]*Type{
	"bool": Bool, "i32": I32, "u32": U32, "f32": F32, "rlx_matrix8x8": Matrix8x8, "rlx_half8x8": Half8x8,
}

// IsScalar reports whether a name is that of a scalar type.
func IsScalar(name string) bool { return named[name] != nil && named[name].Kind == Scalar }

func (t *Type) String() string { return t.Name }

// Is reports whether both types are the same.
func (t *Type) Is(o *Type) bool { return t.Name == o.Name }

// Abstract reports whether values of the type have yet to be converted to a concrete one.
func (t *Type) Abstract() bool { return t == AbstractInt || t == AbstractFloat }

// Becomes reports whether values of the type convert to another implicitly: whether t is abstract and to is i32, u32 or
// f32, or both are the same type. A number with a point or an exponent converts only to f32.
func (t *Type) Becomes(to *Type) bool {
	switch t {
	case AbstractInt:
		return to == I32 || to == U32 || to == F32 || to.Abstract()
	case AbstractFloat:
		return to == F32 || to == AbstractFloat
	}
	return t.Is(to)
}

// Concrete returns the type that values of an abstract type get where nothing determines another: i32 or f32. Other
// types are returned as they are.
func (t *Type) Concrete() *Type {
	switch t {
	case AbstractInt:
		return I32
	case AbstractFloat:
		return F32
	}
	return t
}

// Scalar returns the element type of a vector, or the type itself.
func (t *Type) Scalar() *Type {
	if t.Kind == Vector {
		return t.Elem
	}
	return t
}

// Numeric reports whether t is i32, u32, f32 or a vector of one of them.
func (t *Type) Numeric() bool { return t.Integer() || t.Scalar() == F32 }

// Integer reports whether t is i32, u32 or a vector of one of them.
func (t *Type) Integer() bool { return t.Scalar() == I32 || t.Scalar() == U32 }

// Like returns e if t is a scalar, and otherwise a vector of e with as many elements as t.
func (t *Type) Like(e *Type) *Type {
	if t.Kind == Vector {
		return VectorOf(e, t.N)
	}
	return e
}

// VectorOf returns a vector of n scalars of type e.
func VectorOf(e *Type, n int) *Type {
	return &Type{Name: fmt.Sprintf("vec%d<%s>", n, e.Name), Kind: Vector, Elem: e, N: n}
}

// Constructible reports whether values of the type can be made and copied. Atomics, simdgroup matrices and arrays
// without a size are not constructible; members of structs always are.
func (t *Type) Constructible() bool {
	return t.Kind != Atomic && t.Kind != Shared8x8 && (t.Kind != Array || t.N > 0 && t.Elem.Constructible())
}

// Size returns the size and the alignment of a type with a fixed size, in bytes, as WGSL lays it out in a buffer. A
// bool, which no buffer may hold, counts as 4 bytes.
func (t *Type) Size() (bytes, align int) {
	switch t.Kind {
	case Vector:
		return 4 * t.N, 4 * (t.N + t.N%2)
	case Matrix, Array:
		bytes, align = t.Elem.Size()
		return roundUp(bytes, align) * t.N, align
	case Structure:
		align = 1
		for _, f := range t.Fields {
			n, a := f.Type.Size()
			bytes, align = roundUp(bytes, a)+n, max(align, a)
		}
		return roundUp(bytes, align), align
	}
	return 4, 4
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// Limits of arrays with a fixed size. Only arrays in buffers may have no size.
const (
	mostElements = 1 << 16
	mostBytes    = 1 << 20
)

// A Resolver finds the types that type expressions name.
type Resolver struct {
	// Structs holds the structs that are declared, by name.
	Structs map[string]*Type
	// Constant evaluates the size of an array, a *Literal or an *Ident. It returns nil for an expression that is not
	// constant.
	Constant func(Expr) (constant.Value, error)
}

// Declare resolves the declaration of a struct, and adds it to Structs. Its members must be constructible. An error is
// an *Error.
func (r *Resolver) Declare(s *Struct) (typ *Type, err error) {
	defer Catch(&err)
	t := &Type{Name: s.Name, Kind: Structure}
	for _, f := range s.Fields {
		t.Fields = append(t.Fields, TypedField{f.Name, r.constructible(f.Type)})
	}
	if len(s.Fields) == 0 {
		Fail(s.Pos, "struct %s has no members", s.Name)
	}
	r.Structs[s.Name] = t
	return t, nil
}

// Resolve returns the type that a type expression names. An array of a fixed size has at most 65536 elements and 1 MiB.
// An error is an *Error, or one of Constant.
func (r *Resolver) Resolve(e *TypeExpr) (t *Type, err error) {
	defer Catch(&err)
	return r.resolve(e), nil
}

// Constructible is like Resolve, and fails if the type is not constructible.
func (r *Resolver) Constructible(e *TypeExpr) (t *Type, err error) {
	defer Catch(&err)
	return r.constructible(e), nil
}

func (r *Resolver) constructible(e *TypeExpr) *Type {
	t := r.resolve(e)
	if !t.Constructible() {
		Fail(e.Pos, "%s; want a type whose values can be copied", t)
	}
	return t
}

func (r *Resolver) resolve(e *TypeExpr) *Type {
	if e.Number != nil {
		Fail(e.Pos, "a number; want a type")
	}
	t := named[e.Name]
	if t == nil {
		t = r.Structs[e.Name]
	}
	if t != nil {
		e.takes(0)
		return t
	}
	switch e.Name {
	case "vec2", "vec3", "vec4":
		e.takes(1)
		elem := r.resolve(e.Args[0])
		if elem.Kind != Scalar {
			Fail(e.Pos, "a vector of %s; want bool, i32, u32 or f32", elem)
		}
		return VectorOf(elem, int(e.Name[3]-'0'))
	case "mat4x4":
		e.takes(1)
		if r.resolve(e.Args[0]) != F32 {
			Fail(e.Pos, "a matrix of %s; want f32", e.Args[0].Name)
		}
		return mat4x4
	case "atomic":
		e.takes(1)
		elem := r.resolve(e.Args[0])
		if elem != U32 {
			Fail(e.Pos, "an atomic %s; want u32", elem)
		}
		return &Type{Name: "atomic<" + elem.Name + ">", Kind: Atomic, Elem: elem}
	case "array":
		return r.array(e)
	}
	Fail(e.Pos, "type %s is not declared or not supported", e.Name)
	return nil
}

// takes fails if a type expression has another number of arguments.
func (e *TypeExpr) takes(n int) {
	if len(e.Args) != n {
		Fail(e.Pos, "type %s has %d arguments; want %d", e.Name, len(e.Args), n)
	}
}

func (r *Resolver) array(e *TypeExpr) *Type {
	if len(e.Args) != 1 && len(e.Args) != 2 {
		Fail(e.Pos, "type array has %d arguments; want 1 or 2", len(e.Args))
	}
	elem := r.resolve(e.Args[0])
	if elem.Kind == Array && elem.N == 0 {
		Fail(e.Pos, "an array of %s", elem)
	}
	if len(e.Args) == 1 {
		return &Type{Name: "array<" + elem.Name + ">", Kind: Array, Elem: elem}
	}
	n := r.count(e.Args[1])
	if bytes, align := elem.Size(); roundUp(bytes, align) > mostBytes/n {
		Fail(e.Pos, "an array of more than %d bytes", mostBytes)
	}
	return &Type{Name: fmt.Sprintf("array<%s, %d>", elem.Name, n), Kind: Array, Elem: elem, N: n}
}

// count evaluates the size of an array type.
func (r *Resolver) count(e *TypeExpr) int {
	var x Expr = e.Number
	if e.Number == nil {
		if len(e.Args) > 0 {
			Fail(e.Pos, "a type; want a number")
		}
		x = &Ident{e.Pos, e.Name}
	}
	c, err := r.Constant(x)
	if err != nil {
		Check(err)
	}
	n, ok := whole(c)
	if !ok || n < 1 || n > mostElements {
		Fail(e.Pos, "the size of an array is not a constant from 1 to %d", mostElements)
	}
	return int(n)
}
