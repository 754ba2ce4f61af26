package jinja

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

func toInt(_ *run, v value, a args) (value, error) {
	var or value = 0
	if err := a.take([]string{"default"}, &or); err != nil {
		return nil, err
	}
	if f, i, whole, ok := numeric(v); ok && whole {
		return i, nil
	} else if ok && math.Abs(f) < 1<<62 {
		return int(f), nil
	}
	if s, ok := v.(string); ok {
		if i, ok := parseInt(s); ok {
			return i, nil
		}
		if f, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err == nil && math.Abs(f) < 1<<62 {
			return int(f), nil
		}
	}
	return or, nil
}

func toFloat(_ *run, v value, a args) (value, error) {
	var or value = 0.0
	if err := a.take([]string{"default"}, &or); err != nil {
		return nil, err
	}
	if f, _, _, ok := numeric(v); ok {
		return f, nil
	}
	if s, ok := v.(string); ok {
		if f, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err == nil {
			return f, nil
		}
	}
	return or, nil
}

func rounded(_ *run, v value, a args) (value, error) {
	var digits, method value = 0, "common"
	if err := a.take([]string{"precision", "method"}, &digits, &method); err != nil {
		return nil, err
	}
	f, _, _, ok := numeric(v)
	n, isInt := digits.(int)
	round := map[value]func(float64) float64{"common": math.RoundToEven, "ceil": math.Ceil, "floor": math.Floor}[method]
	if !ok || !isInt || n < 0 || n > 15 || round == nil {
		return nil, errors.New("round takes a number, a precision of 0 to 15, and common, ceil or floor")
	}
	return round(f*math.Pow10(n)) / math.Pow10(n), nil
}

// extreme returns the filter min or max.
func extreme(sign int) filter {
	return func(r *run, v value, a args) (value, error) {
		items, err := r.items(v)
		if err != nil || len(items) == 0 {
			return undefined("an item of an empty list"), err
		}
		best := items[0]
		for _, v := range items[1:] {
			n, err := r.order(v, best)
			if err != nil {
				return nil, err
			}
			if n*sign > 0 {
				best = v
			}
		}
		return best, a.take(nil)
	}
}

func absolute(r *run, v value, a args) (value, error) {
	if n, err := r.order(v, 0); err != nil || n >= 0 {
		return v, err
	}
	return r.arithmetic("-", 0, v)
}

func summed(r *run, v value, a args) (value, error) {
	items, err := r.items(v)
	var total value = 0
	for _, e := range items {
		if err == nil {
			total, err = r.arithmetic("+", total, e)
		}
	}
	return total, errors.Join(err, a.take(nil))
}
