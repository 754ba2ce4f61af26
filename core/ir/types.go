package ir

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// Limits of types. The file format and the verifier use the same limits.
const (
	MaxRank  = 8
	MaxDim   = 1 << 40
	MaxElems = 1 << 44
	MaxSyms  = 64
)

// Sym is a size that is known only at run time, and its range, which includes both ends.
type Sym struct {
	Name     string
	Min, Max int64
}

// Syms are the symbols of a graph.
type Syms []Sym

// Find returns the symbol of that name.
func (s Syms) Find(name string) (Sym, bool) {
	for _, x := range s {
		if x.Name == name {
			return x, true
		}
	}
	return Sym{}, false
}

// Min returns the lower bound of each symbol.
func (s Syms) Min() map[string]int64 { return s.values(func(x Sym) int64 { return x.Min }) }

// Max returns the upper bound of each symbol.
func (s Syms) Max() map[string]int64 { return s.values(func(x Sym) int64 { return x.Max }) }

func (s Syms) values(of func(Sym) int64) map[string]int64 {
	m := make(map[string]int64, len(s))
	for _, x := range s {
		m[x.Name] = of(x)
	}
	return m
}

// Largest returns the upper bound of each dim.
func (s Syms) Largest(shape Shape) []int {
	out := make([]int, len(shape))
	for i, d := range shape {
		_, hi := s.Bounds(d)
		out[i] = int(hi)
	}
	return out
}

// Smallest returns the lower bound of each dim.
func (s Syms) Smallest(shape Shape) []int {
	out := make([]int, len(shape))
	for i, d := range shape {
		lo, _ := s.Bounds(d)
		out[i] = int(lo)
	}
	return out
}

// AtMost returns the static type whose dims are the upper bounds of t's.
func (s Syms) AtMost(t Type) Type {
	out := Type{t.DType, make(Shape, len(t.Shape))}
	for i, n := range s.Largest(t.Shape) {
		out.Shape[i] = Static(int64(n))
	}
	return out
}

// MaxBytes returns the upper bound of the size of t in bytes. It depends only on the number of elements, so a value and
// a view of it with another shape have the same bound.
func (s Syms) MaxBytes(t Type) int64 {
	n, simple := int64(1), true
	for _, d := range t.Shape {
		lo, hi, ok := s.growing(d)
		// The product of such dims has positive coefficients only, so it is largest where each dim is largest.
		simple = simple && ok && lo >= 0 && d.Const >= 0
		n = satMul(n, hi)
	}
	if simple {
		return n * int64(t.DType.Size())
	}
	n = 1
	if numel, ok := t.Shape.Numel(); ok {
		_, n = s.Bounds(numel)
	} else {
		for _, d := range s.Largest(t.Shape) {
			n *= int64(d)
		}
	}
	return n * int64(t.DType.Size())
}

// MaxElems returns the upper bound of the number of elements of t, 0 for the type of an absent operand.
func (s Syms) MaxElems(t Type) int64 {
	if !t.Present() {
		return 0
	}
	return s.MaxBytes(t) / int64(t.DType.Size())
}

// Shape is a list of dims, outermost first. Tensors are dense and row-major.
type Shape []Dim

// ShapeOf returns a static shape.
func ShapeOf(dims ...int64) Shape {
	s := make(Shape, len(dims))
	for i, d := range dims {
		s[i] = Static(d)
	}
	return s
}

// Equal reports whether all dims are the same.
func (s Shape) Equal(t Shape) bool {
	if len(s) != len(t) {
		return false
	}
	for i := range s {
		if s[i] != t[i] {
			return false
		}
	}
	return true
}

// IsStatic reports whether no dim has a symbol.
func (s Shape) IsStatic() bool {
	for _, d := range s {
		if !d.IsStatic() {
			return false
		}
	}
	return true
}

// Numel returns the number of elements. ok is false if it exceeds the limits of a dim.
func (s Shape) Numel() (n Dim, ok bool) {
	n = Static(1)
	for _, d := range s {
		if n, ok = n.Mul(d); !ok {
			return Dim{}, false
		}
	}
	return n, true
}

// Eval returns the sizes for the given values of the symbols.
func (s Shape) Eval(syms map[string]int64) []int {
	out := make([]int, len(s))
	for i, d := range s {
		out[i] = int(d.Eval(syms))
	}
	return out
}

func (s Shape) String() string {
	b := []byte{'['}
	for i, d := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, d.String()...)
	}
	return string(append(b, ']'))
}

// ParseShape parses a shape, such as [2,N,2*M+1].
func ParseShape(text string) (Shape, error) {
	inner, ok := strings.CutPrefix(strings.TrimSpace(text), "[")
	inner, ok2 := strings.CutSuffix(inner, "]")
	if !ok || !ok2 {
		return nil, fmt.Errorf("shape %q: want [DIM,DIM,...]", text)
	}
	if strings.TrimSpace(inner) == "" {
		return Shape{}, nil
	}
	s := make(Shape, 0, 1+strings.Count(inner, ","))
	for part := range strings.SplitSeq(inner, ",") {
		d, err := ParseDim(part)
		if err != nil {
			return nil, err
		}
		s = append(s, d)
	}
	return s, nil
}

// Type is an element type and a shape.
type Type struct {
	DType dtype.DType
	Shape Shape
}

// TypeOf returns a static type.
func TypeOf(d dtype.DType, dims ...int64) Type { return Type{d, ShapeOf(dims...)} }

// Equal reports whether element type and shape are the same.
func (t Type) Equal(u Type) bool { return t.DType == u.DType && t.Shape.Equal(u.Shape) }

// Rank returns the number of dims.
func (t Type) Rank() int { return len(t.Shape) }

// Bytes returns the size in bytes for the given values of the symbols.
func (t Type) Bytes(syms map[string]int64) int64 {
	n := int64(t.DType.Size())
	for _, d := range t.Shape {
		n *= d.Eval(syms)
	}
	return n
}

// String returns the type as text, such as f32[2,N].
func (t Type) String() string { return t.DType.String() + t.Shape.String() }

// ParseType parses the text that Type.String returns.
func ParseType(text string) (Type, error) {
	text = strings.TrimSpace(text)
	i := strings.IndexByte(text, '[')
	if i < 0 {
		return Type{}, fmt.Errorf("type %q: want DTYPE[DIM,...], such as f32[2,8]", text)
	}
	d, ok := dtype.Parse(text[:i])
	if !ok {
		return Type{}, fmt.Errorf("type %q: unknown element type %q (known: %v)", text, text[:i], dtype.Known())
	}
	s, err := ParseShape(text[i:])
	return Type{d, s}, err
}

// MustType is ParseType for literals in code. It panics if the text is not a type.
func MustType(text string) Type {
	t, err := ParseType(text)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return t
}

// CheckType checks the limits: the rank, the bounds of each dim, and the number of elements at the upper bounds.
func (s Syms) CheckType(t Type) error {
	if t.DType == dtype.Invalid {
		return fmt.Errorf("element type is invalid")
	}
	if len(t.Shape) > MaxRank {
		if len(t.Shape) > 2*MaxRank { // the text of the type may be as long as a file
			return fmt.Errorf("rank %d; at most %d", len(t.Shape), MaxRank)
		}
		return fmt.Errorf("rank %d of %v; at most %d", len(t.Shape), t, MaxRank)
	}
	n := int64(1)
	for _, d := range t.Shape {
		if err := s.CheckDim(d); err != nil {
			return fmt.Errorf("dim %v of %v: %w", d, t, err)
		}
		_, hi := s.Bounds(d)
		if hi == 0 {
			continue // a dim of 0 must not hide an overflow of the others
		}
		if n = satMul(n, hi); n > MaxElems {
			return fmt.Errorf("%v has more than %d elements", t, int64(MaxElems))
		}
	}
	// the product of the bounds is within, but not the bound of the product
	if s.MaxBytes(t) > MaxElems*int64(t.DType.Size()) {
		return fmt.Errorf("%v may have more than %d elements", t, int64(MaxElems))
	}
	return nil
}

// CheckDim returns an error if d has an undeclared symbol or its bounds are not those of a size. If it returns nil, d
// can be evaluated without overflow.
func (s Syms) CheckDim(d Dim) error {
	if !d.IsStatic() {
		if name := s.undeclared(d); name != "" {
			return fmt.Errorf("symbol %s is not declared", name)
		}
		if s.magnitude(d) >= unbounded {
			return fmt.Errorf("some value on the way to it is out of range")
		}
	}
	if lo, hi := s.Bounds(d); lo < 0 || hi > MaxDim {
		return fmt.Errorf("its bounds are %d and %d; allowed are 0 to %d", lo, hi, int64(MaxDim))
	}
	return nil
}

// At returns the static type for the given values of the symbols.
func (t Type) At(syms map[string]int64) Type {
	s := make(Shape, len(t.Shape))
	for i, d := range t.Shape {
		s[i] = Static(d.Eval(syms))
	}
	return Type{t.DType, s}
}
