package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// is returns a test without arguments.
func is(f func(v value) bool) filter {
	return func(_ *run, v value, a args) (value, error) { return f(v), a.take(nil) }
}

// isType tests the type of a value.
func isType[T any](v value) bool { _, ok := v.(T); return ok }

// compared returns a test with one operand.
func compared(op string) filter {
	return func(r *run, v value, a args) (value, error) {
		var other value
		if err := a.take([]string{"other"}, &other); err != nil {
			return nil, err
		}
		return r.compare(op, v, other)
	}
}

// remainder returns the test odd or even.
func remainder(want int) filter {
	return func(_ *run, v value, a args) (value, error) {
		_, i, whole, ok := numeric(v)
		if !ok || !whole {
			return nil, fmt.Errorf("%s is neither odd nor even", typeName(v))
		}
		return i&1 == want, a.take(nil)
	}
}

var tests = map[string]filter{
	"defined":   is(func(v value) bool { return !isType[undefined](v) }),
	"undefined": is(isType[undefined]),
	"none":      is(func(v value) bool { return v == nil }),
	"string":    is(isType[string]), "boolean": is(isType[bool]), "integer": is(isType[int]),
	"float":   is(isType[float64]),
	"number":  is(func(v value) bool { _, _, _, ok := numeric(v); return ok }),
	"mapping": is(isType[*dict]),
	"iterable": is(func(v value) bool {
		return isType[string](v) || isType[*list](v) || isType[*dict](v) || isType[undefined](v)
	}),
	"sequence": is(func(v value) bool {
		return isType[string](v) || isType[*list](v) || isType[*dict](v) || isType[undefined](v)
	}),
	"callable": is(isType[function]),
	"true":     is(func(v value) bool { return v == true }), "false": is(func(v value) bool { return v == false }),
	"odd": remainder(1), "even": remainder(0),
	"eq": compared("=="), "equalto": compared("=="), "==": compared("=="), "ne": compared("!="), "!=": compared("!="),
	"lt": compared("<"), "lessthan": compared("<"), "<": compared("<"), "le": compared("<="), "<=": compared("<="),
	"gt": compared(">"), "greaterthan": compared(">"), ">": compared(">"), "ge": compared(">="), ">=": compared(">="),
	"in": compared("in"),
	"sameas": func(_ *run, v value, a args) (value, error) {
		var other value
		if err := a.take([]string{"other"}, &other); err != nil {
			return nil, err
		}
		if isType[function](v) || isType[function](other) {
			return false, nil
		}
		return v == other, nil
	},
	"lower": is(func(v value) bool { s, ok := v.(string); return ok && s == strings.ToLower(s) && hasLetter(s) }),
	"upper": is(func(v value) bool { s, ok := v.(string); return ok && s == strings.ToUpper(s) && hasLetter(s) }),
	"divisibleby": func(_ *run, v value, a args) (value, error) {
		var by value
		if err := a.take([]string{"num"}, &by); err != nil {
			return nil, err
		}
		_, i, w1, ok1 := numeric(v)
		_, j, w2, ok2 := numeric(by)
		if !ok1 || !ok2 || !w1 || !w2 || j == 0 {
			return nil, errors.New("divisibleby takes integers")
		}
		return i%j == 0, nil
	},
}

func hasLetter(s string) bool { return strings.IndexFunc(s, unicode.IsLetter) >= 0 }
