package op

import "fmt"

// Params are the values of the attributes of an elementwise op, in the order of their names. All such attributes are
// numbers, and no op has more than two.
type Params [2]float64

// formulas are those of the elementwise ops of floats, by name.
type formulas[F any] map[string]F

// add makes the map when it is first used, because ops may be defined before the package's maps are initialized.
func (m *formulas[F]) add(name string, f F) {
	if *m == nil {
		*m = formulas[F]{}
	}
	(*m)[name] = f
}

var (
	scalars  formulas[func(x float64, p Params) float64]
	scalars2 formulas[func(x, y float64) float64]
)

// Scalar returns the formula of an elementwise op of one float, such as "gelu". A test such as "isnan" gives 1 or 0.
// Backends written in Go use it where they have no kernel of their own. It panics if there is no such op.
func Scalar(name string) func(x float64, p Params) float64 {
	f, ok := scalars[name]
	if !ok {
		panic(fmt.Sprintf("BUG: %s is not an elementwise op of one float", name))
	}
	return f
}

// Scalar2 returns the formula of an elementwise op of two floats, such as "pow". It panics if there is no such op.
func Scalar2(name string) func(x, y float64) float64 {
	f, ok := scalars2[name]
	if !ok {
		panic(fmt.Sprintf("BUG: %s is not an elementwise op of two floats", name))
	}
	return f
}

// addScalar lists the formula of an op for Scalar.
func (u *unarySpec[A]) addScalar() {
	if u.float == nil {
		return
	}
	var none A
	scalars.add(u.name, func(x float64, p Params) float64 {
		a := none
		if u.with != nil {
			a = u.with(p)
		}
		return u.float(a, x)
	})
}
