package ir

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// Limits of types; the file format and the verifier use the same constants.
const (
	MaxRank  = 8
	MaxDim   = 1 << 40
	MaxElems = 1 << 44
	MaxSyms  = 64
)

// Dim is the size of one dimension: A*Sym + B. A static dim has no Sym and A = 0.
type Dim struct {
	Sym  string
	A, B int64
}

// Static is a known size.
func Static(n int64) Dim { return Dim{B: n} }

// Named is the size that symbol sym stands for.
func Named(sym string) Dim { return Dim{Sym: sym, A: 1} }

// IsStatic reports a dim without a symbol.
func (d Dim) IsStatic() bool { return d.Sym == "" }

// Is reports a static dim of size n.
func (d Dim) Is(n int64) bool { return d.IsStatic() && d.B == n }

// Add is d + e; ok is false where the two have different symbols.
func (d Dim) Add(e Dim) (sum Dim, ok bool) {
	if !d.IsStatic() && !e.IsStatic() && d.Sym != e.Sym {
		return Dim{}, false
	}
	sum = Dim{Sym: d.Sym + e.Sym, A: d.A + e.A, B: d.B + e.B}
	if !d.IsStatic() && !e.IsStatic() {
		sum.Sym = d.Sym
	}
	if sum.A == 0 {
		sum.Sym = ""
	}
	return sum, true
}

// Mul is d * e; ok is false where both have a symbol or the product passes MaxElems.
func (d Dim) Mul(e Dim) (Dim, bool) {
	if !d.IsStatic() && !e.IsStatic() {
		return Dim{}, false
	}
	if d.IsStatic() {
		d, e = e, d
	}
	a, okA := mulCap(d.A, e.B)
	b, okB := mulCap(d.B, e.B)
	if a == 0 {
		return Dim{B: b}, okA && okB
	}
	return Dim{d.Sym, a, b}, okA && okB
}

// mulCap multiplies with a cap on the magnitude, so that no product of file values can wrap.
func mulCap(a, b int64) (int64, bool) {
	neg := (a < 0) != (b < 0)
	hi, lo := bits.Mul64(uint64(max(a, -a)), uint64(max(b, -b)))
	if hi != 0 || lo > MaxElems {
		return 0, false
	}
	if neg {
		return -int64(lo), true
	}
	return int64(lo), true
}

// Div is d / n where the division is exact for every value of the symbol.
func (d Dim) Div(n int64) (Dim, bool) {
	if n <= 0 || d.A%n != 0 || d.B%n != 0 {
		return Dim{}, false
	}
	return Dim{d.Sym, d.A / n, d.B / n}, true
}

// Eval is the size under the given values of symbols; a missing symbol counts as 0.
func (d Dim) Eval(syms map[string]int64) int64 {
	if d.IsStatic() {
		return d.B
	}
	return d.A*syms[d.Sym] + d.B
}

// String prints N, 2*N+3 or 7.
func (d Dim) String() string {
	if d.IsStatic() {
		return strconv.FormatInt(d.B, 10)
	}
	s := d.Sym
	if d.A != 1 {
		s = strconv.FormatInt(d.A, 10) + "*" + s
	}
	if d.B != 0 {
		s += fmt.Sprintf("%+d", d.B)
	}
	return s
}

// ParseDim reads what String prints.
func ParseDim(s string) (Dim, error) {
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Static(n), nil
	}
	d, rest := Dim{A: 1}, s
	if coef, sym, ok := strings.Cut(rest, "*"); ok {
		n, err := strconv.ParseInt(coef, 10, 64)
		if err != nil || n == 0 {
			return Dim{}, fmt.Errorf("dim %q: coefficient is not a number other than 0", s)
		}
		d.A, rest = n, sym
	}
	if i := strings.IndexAny(rest, "+-"); i > 0 {
		n, err := strconv.ParseInt(rest[i:], 10, 64)
		if err != nil {
			return Dim{}, fmt.Errorf("dim %q: offset is not a number", s)
		}
		d.B, rest = n, rest[:i]
	}
	if !isSymbol(rest) {
		return Dim{}, fmt.Errorf("dim %q: want a number, SYMBOL, A*SYMBOL or A*SYMBOL+B", s)
	}
	d.Sym = rest
	return d, nil
}

func isSymbol(s string) bool {
	for i, c := range s {
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// Sym is a size that is known at run time only, with its range (both ends included).
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

// Min evaluates every symbol at its lower bound.
func (s Syms) Min() map[string]int64 { return s.values(func(x Sym) int64 { return x.Min }) }

// Max evaluates every symbol at its upper bound.
func (s Syms) Max() map[string]int64 { return s.values(func(x Sym) int64 { return x.Max }) }

func (s Syms) values(of func(Sym) int64) map[string]int64 {
	m := make(map[string]int64, len(s))
	for _, x := range s {
		m[x.Name] = of(x)
	}
	return m
}

// Bounds are the smallest and largest size of d.
func (s Syms) Bounds(d Dim) (lo, hi int64) {
	if d.IsStatic() {
		return d.B, d.B
	}
	x, _ := s.Find(d.Sym)
	lo, hi = d.A*x.Min+d.B, d.A*x.Max+d.B
	return min(lo, hi), max(lo, hi)
}

// Shape is a list of dims, outermost first. Tensors are dense and row-major.
type Shape []Dim

// ShapeOf makes a static shape.
func ShapeOf(dims ...int64) Shape {
	s := make(Shape, len(dims))
	for i, d := range dims {
		s[i] = Static(d)
	}
	return s
}

// Equal compares dim by dim.
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

// IsStatic reports a shape without symbols.
func (s Shape) IsStatic() bool {
	for _, d := range s {
		if !d.IsStatic() {
			return false
		}
	}
	return true
}

// Numel is the number of elements; ok is false where two dims have a symbol or a limit is passed.
func (s Shape) Numel() (n Dim, ok bool) {
	n = Static(1)
	for _, d := range s {
		if n, ok = n.Mul(d); !ok {
			return Dim{}, false
		}
	}
	return n, true
}

// Eval gives the sizes under values of the symbols.
func (s Shape) Eval(syms map[string]int64) []int {
	out := make([]int, len(s))
	for i, d := range s {
		out[i] = int(d.Eval(syms))
	}
	return out
}

func (s Shape) String() string {
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = d.String()
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// ParseShape reads [2,N,2*M+1].
func ParseShape(text string) (Shape, error) {
	inner, ok := strings.CutPrefix(strings.TrimSpace(text), "[")
	inner, ok2 := strings.CutSuffix(inner, "]")
	if !ok || !ok2 {
		return nil, fmt.Errorf("shape %q: want [DIM,DIM,...]", text)
	}
	if strings.TrimSpace(inner) == "" {
		return Shape{}, nil
	}
	s := Shape{}
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

// TypeOf makes a static type.
func TypeOf(d dtype.DType, dims ...int64) Type { return Type{d, ShapeOf(dims...)} }

// Equal compares element type and shape.
func (t Type) Equal(u Type) bool { return t.DType == u.DType && t.Shape.Equal(u.Shape) }

// Rank is the number of dims.
func (t Type) Rank() int { return len(t.Shape) }

// Bytes is the size in bytes under values of the symbols.
func (t Type) Bytes(syms map[string]int64) int64 {
	n := int64(t.DType.Size())
	for _, d := range t.Shape {
		n *= d.Eval(syms)
	}
	return n
}

// String prints f32[2,N].
func (t Type) String() string { return t.DType.String() + t.Shape.String() }

// ParseType reads what String prints.
func ParseType(text string) (Type, error) {
	text = strings.TrimSpace(text)
	i := strings.IndexByte(text, '[')
	if i < 0 {
		return Type{}, fmt.Errorf("type %q: want DTYPE[DIM,...], such as f32[2,8]", text)
	}
	d, ok := dtype.Parse(text[:i])
	if !ok {
		return Type{}, fmt.Errorf("type %q: unknown element type %q (known: %v)", text, text[:i], dtype.All())
	}
	s, err := ParseShape(text[i:])
	return Type{d, s}, err
}

// MustType is ParseType for literals in our own code.
func MustType(text string) Type {
	t, err := ParseType(text)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return t
}

// CheckType applies the limits: rank, each dim at both ends of its symbols' ranges, elements at the upper bound.
func (s Syms) CheckType(t Type) error {
	if t.DType == dtype.Invalid {
		return fmt.Errorf("element type is invalid")
	}
	if len(t.Shape) > MaxRank {
		return fmt.Errorf("rank %d of %v; at most %d", len(t.Shape), t, MaxRank)
	}
	n := Static(1)
	for _, d := range t.Shape {
		if !d.IsStatic() {
			x, ok := s.Find(d.Sym)
			if !ok {
				return fmt.Errorf("dim %v of %v: symbol %s is not declared", d, t, d.Sym)
			}
			// Bounds multiplies without a check.
			if _, ok := mulCap(d.A, x.Max); !ok || d.B > MaxElems || d.B < -MaxElems {
				return fmt.Errorf("dim %v of %v is out of range", d, t)
			}
		}
		lo, hi := s.Bounds(d)
		if lo < 0 || hi > MaxDim {
			return fmt.Errorf("dim %v of %v is %d to %d; allowed are 0 to %d", d, t, lo, hi, int64(MaxDim))
		}
		if hi == 0 {
			continue // a zero dim must not hide an overflow of the others
		}
		var ok bool
		if n, ok = n.Mul(Static(hi)); !ok {
			return fmt.Errorf("%v has more than %d elements", t, int64(MaxElems))
		}
	}
	return nil
}

// At is the static type under values of the symbols.
func (t Type) At(syms map[string]int64) Type {
	s := make(Shape, len(t.Shape))
	for i, d := range t.Shape {
		s[i] = Static(d.Eval(syms))
	}
	return Type{t.DType, s}
}
