package jinja

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// numeric returns the value of a number as a float and, if it is whole, as an int.
func numeric(v value) (f float64, i int, whole, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int:
		return float64(v), v, true, true
	case float64:
		return v, 0, false, true
	}
	return 0, 0, false, false
}

func known(vs ...value) error {
	for _, v := range vs {
		if u, ok := v.(undefined); ok {
			return fmt.Errorf("%.60q is undefined", string(u))
		}
	}
	return nil
}

var (
	errOverflow = errors.New("a whole number has more than 64 bits")
	errZero     = errors.New("division by zero")
)

func (r *run) arithmetic(op string, a, b value) (value, error) {
	if op == "~" {
		x, err := r.show(a)
		if err != nil {
			return nil, err
		}
		y, err := r.show(b)
		if err != nil {
			return nil, err
		}
		return r.concat(x, y)
	}
	if err := known(a, b); err != nil {
		return nil, err
	}
	x, i, wholeA, okA := numeric(a)
	y, j, wholeB, okB := numeric(b)
	if okA && okB {
		if wholeA && wholeB {
			return wholeOps[op](i, j)
		}
		return float(op, x, y)
	}
	switch l, isList := a.(*list); {
	case op == "+" && isList:
		if m, ok := b.(*list); ok {
			if err := r.made(16 * (len(l.items) + len(m.items))); err != nil {
				return nil, err
			}
			return &list{items: append(append([]value{}, l.items...), m.items...)}, nil
		}
	case op == "*" && okB && wholeB:
		if s, ok := a.(string); ok {
			return r.repeat(s, j)
		}
	case op == "*" && okA && wholeA:
		if s, ok := b.(string); ok {
			return r.repeat(s, i)
		}
	case op == "+":
		s, okS := a.(string)
		t, okT := b.(string)
		if okS && okT {
			return r.concat(s, t)
		}
	}
	return nil, fmt.Errorf("%s cannot be applied to %s and %s", op, typeName(a), typeName(b))
}

func (r *run) concat(a, b string) (value, error) {
	if err := r.made(len(a) + len(b)); err != nil {
		return nil, err
	}
	return a + b, nil
}

func (r *run) repeat(s string, n int) (value, error) {
	n = max(n, 0)
	if hi, lo := bits.Mul64(uint64(len(s)), uint64(n)); hi != 0 || lo > uint64(r.bytes) {
		return nil, r.exhausted()
	}
	return strings.Repeat(s, n), r.made(len(s) * n)
}

// wholeOps holds the operators of two whole numbers.
var wholeOps = map[string]func(a, b int) (value, error){
	"+": add, "-": subtract, "*": multiply, "**": power, "/": divide, "//": floorDivide, "%": modulo,
}

func add(a, b int) (value, error) {
	if c := a + b; (c > a) == (b > 0) {
		return c, nil
	}
	return nil, errOverflow
}

func subtract(a, b int) (value, error) {
	if c := a - b; (c < a) == (b > 0) {
		return c, nil
	}
	return nil, errOverflow
}

func multiply(a, b int) (value, error) {
	if a == 0 || b == 0 {
		return 0, nil
	}
	if a == -1 && b == math.MinInt || b == -1 && a == math.MinInt { // their quotients overflow, too
		return nil, errOverflow
	}
	if c := a * b; c/b == a {
		return c, nil
	}
	return nil, errOverflow
}

// power returns a float if b is negative, as Python does.
func power(a, b int) (value, error) {
	if b < 0 {
		return math.Pow(float64(a), float64(b)), nil
	}
	if a >= -1 && a <= 1 && b > 2 {
		b = 2 - b%2 // the powers repeat: a**b is a**1 or a**2
	}
	var out value = 1
	var err error
	for range min(b, 64) { // the 64th power of any other number overflows
		if out, err = multiply(out.(int), a); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func divide(a, b int) (value, error) {
	if b == 0 {
		return nil, errZero
	}
	return float64(a) / float64(b), nil
}

func floorDivide(a, b int) (value, error) {
	if b == 0 {
		return nil, errZero
	}
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q, nil
}

// modulo returns a remainder with the sign of b, as Python does.
func modulo(a, b int) (value, error) {
	if b == 0 {
		return nil, errZero
	}
	m := a % b
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m, nil
}

func float(op string, a, b float64) (value, error) {
	switch op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "**":
		return math.Pow(a, b), nil
	}
	if b == 0 {
		return nil, errZero
	}
	switch op {
	case "/":
		return a / b, nil
	case "//":
		return math.Floor(a / b), nil
	}
	m := math.Mod(a, b)
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m, nil
}

// equal compares values like == in Python.
func (r *run) equal(a, b value, depth int) (bool, error) {
	if err := r.step(); err != nil {
		return false, err
	}
	if depth > MaxDepth {
		return false, errors.New("values are nested too deep to be compared")
	}
	x, i, wholeA, okA := numeric(a)
	y, j, wholeB, okB := numeric(b)
	if okA && okB {
		if wholeA && wholeB {
			return i == j, nil
		}
		return x == y, nil
	}
	switch a := a.(type) {
	case nil:
		return b == nil, nil
	case undefined:
		_, ok := b.(undefined)
		return ok, nil
	case string:
		s, ok := b.(string)
		return ok && a == s, nil
	case *list:
		l, ok := b.(*list)
		if !ok {
			return false, nil
		}
		return r.equalLists(a, l, depth)
	case *dict:
		d, ok := b.(*dict)
		if !ok {
			return false, nil
		}
		return r.equalDicts(a, d, depth)
	case namespace:
		n, ok := b.(namespace)
		return ok && a.dict == n.dict, nil
	}
	return false, nil
}

func (r *run) equalLists(a, b *list, depth int) (bool, error) {
	if len(a.items) != len(b.items) {
		return false, nil
	}
	for i := range a.items {
		if same, err := r.equal(a.items[i], b.items[i], depth+1); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (r *run) equalDicts(a, b *dict, depth int) (bool, error) {
	if len(a.keys) != len(b.keys) {
		return false, nil
	}
	for key, v := range a.items {
		w, ok := b.items[key]
		if !ok {
			return false, nil
		}
		if same, err := r.equal(v, w, depth+1); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// order compares two numbers or two strings.
func (r *run) order(a, b value) (int, error) {
	if err := known(a, b); err != nil {
		return 0, err
	}
	x, _, _, okA := numeric(a)
	y, _, _, okB := numeric(b)
	if okA && okB {
		return cmp.Compare(x, y), nil
	}
	s, okS := a.(string)
	t, okT := b.(string)
	if okS && okT {
		return strings.Compare(s, t), nil
	}
	return 0, fmt.Errorf("%s and %s have no order", typeName(a), typeName(b))
}

func (r *run) compare(op string, a, b value) (bool, error) {
	switch op {
	case "==", "!=":
		same, err := r.equal(a, b, 0)
		return same == (op == "=="), err
	case "in", "not in":
		found, err := r.contains(b, a)
		return found == (op == "in"), err
	}
	n, err := r.order(a, b)
	return map[string]bool{"<": n < 0, "<=": n <= 0, ">": n > 0, ">=": n >= 0}[op], err
}

func (r *run) contains(in, v value) (bool, error) {
	switch in := in.(type) {
	case string:
		s, ok := v.(string)
		if !ok {
			return false, fmt.Errorf("%s cannot be in a string", typeName(v))
		}
		r.steps -= len(in) / 64
		return strings.Contains(in, s), nil
	case *dict:
		s, ok := v.(string)
		_, has := in.items[s]
		return ok && has, nil
	case *list:
		for _, e := range in.items {
			if same, err := r.equal(e, v, 0); err != nil || same {
				return same, err
			}
		}
		return false, nil
	case undefined:
		return false, nil
	}
	return false, fmt.Errorf("%s has no items", typeName(in))
}

// attribute evaluates v.name, which is a method or an item of a mapping.
func (r *run) attribute(v value, name string) (value, error) {
	switch v := v.(type) {
	case undefined:
		return nil, fmt.Errorf("%.60q is undefined and has no attribute %.60q", string(v), name)
	case namespace:
		if x, ok := v.items[name]; ok {
			return x, nil
		}
	case *loop:
		if x, ok := v.attr(name); ok {
			return x, nil
		}
	case *dict:
		if m, ok := dictMethods[name]; ok {
			return function(func(r *run, a args) (value, error) { return m(r, v, a) }), nil
		}
		if x, ok := v.items[name]; ok {
			return x, nil
		}
	case string:
		if m, ok := stringMethods[name]; ok {
			return function(func(r *run, a args) (value, error) {
				if err := r.made(len(v)); err != nil { // about the cost of searching it
					return nil, err
				}
				out, err := m(r, v, a)
				if err != nil {
					err = fmt.Errorf("method %s: %w", name, err)
				}
				return out, err
			}), nil
		}
	}
	return undefined(name), nil
}

// item evaluates v[i].
func (r *run) item(v, i value) (value, error) {
	switch v := v.(type) {
	case undefined:
		return nil, fmt.Errorf("%.60q is undefined and has no items", string(v))
	case *dict:
		if key, ok := i.(string); ok {
			if x, ok := v.items[key]; ok {
				return x, nil
			}
			return r.attribute(v, key)
		}
	case *list:
		if _, n, whole, ok := numeric(i); ok && whole {
			if n < 0 {
				n += len(v.items)
			}
			if n >= 0 && n < len(v.items) {
				return v.items[n], nil
			}
		}
	case string:
		if _, n, whole, ok := numeric(i); ok && whole {
			chars, err := r.items(v)
			if err != nil {
				return nil, err
			}
			return r.item(&list{items: chars}, n)
		}
	}
	if name, ok := i.(string); ok {
		return r.attribute(v, name)
	}
	return undefined("an item"), nil
}

// slice evaluates v[start:stop:step] as Python does.
func (r *run) slice(v value, at [3]value) (value, error) {
	if err := known(v); err != nil {
		return nil, err
	}
	_, isString := v.(string)
	if _, isList := v.(*list); !isList && !isString {
		return nil, fmt.Errorf("%s has no slices", typeName(v))
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	var n [3]int
	for i, x := range at {
		_, k, whole, ok := numeric(x)
		if x != nil && (!ok || !whole) {
			return nil, fmt.Errorf("a slice has %s as a bound; allowed are integers", typeName(x))
		}
		n[i] = k
	}
	step := 1
	if at[2] != nil {
		step = n[2]
	}
	if step == 0 {
		return nil, errors.New("the step of a slice is 0")
	}
	low, high := 0, len(items)
	if step < 0 {
		low, high = -1, len(items)-1
	}
	bound := func(i, otherwise int) int {
		if at[i] == nil {
			return otherwise
		}
		k := n[i]
		if k < 0 {
			k += len(items)
		}
		return min(max(k, low), high)
	}
	start, stop := bound(0, low), bound(1, high)
	if step < 0 {
		start, stop = bound(0, high), bound(1, low)
	}
	var out []value
	for i := start; step > 0 && i < stop || step < 0 && i > stop; {
		out = append(out, items[i])
		if step > len(items) || step < -len(items) {
			break
		}
		i += step
	}
	if !isString {
		return r.list(out)
	}
	var b strings.Builder
	for _, c := range out {
		b.WriteString(c.(string))
	}
	return r.string(b.String())
}
