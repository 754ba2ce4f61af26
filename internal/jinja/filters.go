package jinja

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A filter is a function after |, or a test, which returns a bool.
type filter func(r *run, v value, a args) (value, error)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// where returns the items for which keep is true.
func (r *run) where(items []value, keep func(value) (bool, error)) (out []value, err error) {
	for _, v := range items {
		if err := r.step(); err != nil {
			return nil, err
		}
		ok, err := keep(v)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, v)
		}
	}
	return out, r.made(16 * len(out))
}

// ofString returns a filter that maps the text of a value.
func ofString(f func(string) string) filter {
	return func(r *run, v value, a args) (value, error) {
		s, err := r.show(v)
		if err == nil {
			err = a.take(nil)
		}
		if err != nil {
			return nil, err
		}
		return r.string(f(s))
	}
}

func length(r *run, v value, a args) (value, error) {
	if err := a.take(nil); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case string:
		r.steps -= len(v) / 64
		return len([]rune(v)), nil
	case *list:
		return len(v.items), nil
	case *dict:
		return len(v.keys), nil
	case undefined:
		return 0, nil
	}
	return nil, fmt.Errorf("%s has no length", typeName(v))
}

func otherwise(_ *run, v value, a args) (value, error) {
	var or, falsy value = "", false
	if err := a.take([]string{"default_value", "boolean"}, &or, &falsy); err != nil {
		return nil, err
	}
	if _, ok := v.(undefined); ok || truth(falsy) && !truth(v) {
		return or, nil
	}
	return v, nil
}

// endOf returns the filter first or last.
func endOf(last bool) filter {
	return func(r *run, v value, a args) (value, error) {
		items, err := r.items(v)
		if err != nil || len(items) == 0 {
			return undefined("an item of an empty list"), err
		}
		if last {
			return items[len(items)-1], a.take(nil)
		}
		return items[0], a.take(nil)
	}
}

// path looks up an attribute such as "function.name".
func (r *run) path(v value, attr value) (value, error) {
	s, err := r.show(attr)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(s, ".") {
		if err := r.step(); err != nil {
			return nil, err
		}
		var key value = part
		if i, ok := parseInt(part); ok {
			key = i
		}
		if v, err = r.item(v, key); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// selecting returns the filter select, reject, selectattr or rejectattr.
func selecting(byAttr, want bool) filter {
	return func(r *run, v value, a args) (value, error) {
		if !truth(v) {
			return &list{}, nil
		}
		items, err := r.items(v)
		if err != nil {
			return nil, err
		}
		var attr value
		if byAttr {
			if len(a.list) == 0 {
				return nil, errors.New("selectattr and rejectattr take the name of an attribute")
			}
			attr, a.list = a.list[0], a.list[1:]
		}
		test := func(_ *run, v value, _ args) (value, error) { return truth(v), nil }
		if len(a.list) > 0 {
			name, _ := a.list[0].(string)
			t, ok := tests[name]
			if !ok {
				return nil, fmt.Errorf("test %.40q is not supported", name)
			}
			test, a.list = t, a.list[1:]
		}
		items, err = r.where(items, func(v value) (bool, error) {
			var err error
			if byAttr {
				if v, err = r.path(v, attr); err != nil {
					return false, err
				}
			}
			ok, err := test(r, v, a)
			return truth(ok) == want, err
		})
		return &list{items: items}, err
	}
}

// mapped implements the filter map, which returns an attribute of each item or applies a filter to it.
func mapped(r *run, v value, a args) (value, error) {
	if !truth(v) {
		return &list{}, nil
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	f := func(v value) (value, error) { return r.path(v, a.keys["attribute"]) }
	if a.keys["attribute"] == nil {
		if len(a.list) == 0 {
			return nil, errors.New("map takes a filter or an attribute")
		}
		name, _ := a.list[0].(string)
		fn, ok := filters[name]
		if !ok {
			return nil, fmt.Errorf("filter %.40q is not supported", name)
		}
		rest := args{a.list[1:], a.keys}
		f = func(v value) (value, error) { return fn(r, v, rest) }
	}
	out := make([]value, len(items))
	for i, v := range items {
		x, err := f(v)
		if err != nil {
			return nil, err
		}
		if _, ok := x.(undefined); ok && a.keys["default"] != nil {
			x = a.keys["default"]
		}
		out[i] = x
		if err := r.step(); err != nil {
			return nil, err
		}
	}
	return r.list(out)
}

// sorted implements the filter sort. It sorts items, or an attribute of them, and ignores case unless case_sensitive is
// set.
func sorted(r *run, v value, a args) (value, error) {
	var reverse, sensitive, attr value = false, false, nil
	if err := a.take([]string{"reverse", "case_sensitive", "attribute"}, &reverse, &sensitive, &attr); err != nil {
		return nil, err
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	type entry struct{ key, v value }
	all := make([]entry, len(items))
	for i, v := range items {
		key := v
		if attr != nil {
			if key, err = r.path(v, attr); err != nil {
				return nil, err
			}
		}
		if s, ok := key.(string); ok && !truth(sensitive) {
			if key, err = r.string(strings.ToLower(s)); err != nil {
				return nil, err
			}
		}
		all[i] = entry{key, v}
	}
	var failed error
	slices.SortStableFunc(all, func(x, y entry) int {
		if failed == nil {
			failed = r.step()
		}
		if failed != nil {
			return 0
		}
		n, err := r.order(x.key, y.key)
		failed = err
		if truth(reverse) {
			n = -n
		}
		return n
	})
	out := make([]value, len(all))
	for i, e := range all {
		out[i] = e.v
	}
	if failed != nil {
		return nil, failed
	}
	return r.list(out)
}

func reversed(r *run, v value, a args) (value, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(items)
	slices.Reverse(out)
	if _, ok := v.(string); ok {
		return r.join(&list{items: out}, "")
	}
	if err := a.take(nil); err != nil {
		return nil, err
	}
	return r.list(out)
}

func tojson(r *run, v value, a args) (value, error) {
	var ascii, indent, separators, sortKeys value = false, nil, nil, false
	names := []string{"ensure_ascii", "indent", "separators", "sort_keys"}
	if err := a.take(names, &ascii, &indent, &separators, &sortKeys); err != nil {
		return nil, err
	}
	n, isInt := indent.(int)
	if truth(ascii) || separators != nil || indent != nil && !isInt || n < 0 || n > 16 {
		return nil, errors.New("tojson: ensure_ascii, separators and indents other than 0 to 16 are not supported")
	}
	var b strings.Builder
	if err := r.toJSON(&b, v, strings.Repeat(" ", n), 0, truth(sortKeys)); err != nil {
		return nil, err
	}
	return b.String(), nil
}

// indented implements the filter indent, which puts spaces before each line, but not before the first unless asked to.
func indented(r *run, v value, a args) (value, error) {
	var width, first, blank value = 4, false, false
	if err := a.take([]string{"width", "first", "blank"}, &width, &first, &blank); err != nil {
		return nil, err
	}
	s, err := r.show(v)
	if err != nil {
		return nil, err
	}
	with, isString := width.(string)
	if n, ok := width.(int); ok && n >= 0 && n <= 1000 {
		with = strings.Repeat(" ", n)
	} else if !isString {
		return nil, errors.New("indent takes a string, or a number from 0 to 1000")
	}
	lines := strings.Split(s, "\n")
	if err := r.made(len(s) + len(lines)*(len(with)+16)); err != nil {
		return nil, err
	}
	for i := range lines {
		if (i > 0 || truth(first)) && (lines[i] != "" || truth(blank)) {
			lines[i] = with + lines[i]
		}
	}
	return strings.Join(lines, "\n"), nil
}

func dictsorted(r *run, v value, a args) (value, error) {
	d, ok := v.(*dict)
	if !ok || a.take(nil) != nil {
		return nil, errors.New("dictsort takes a mapping, and no arguments are supported")
	}
	keys := slices.Clone(d.keys)
	slices.SortStableFunc(
		keys, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	out := make([]value, len(keys))
	for i, key := range keys {
		out[i] = &list{[]value{key, d.items[key]}, true}
	}
	return &list{items: out}, r.made(64*len(out) + 16*len(keys))
}

func unique(r *run, v value, a args) (value, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	var out []value
	for _, v := range items {
		found := false
		for _, w := range out {
			if found, err = r.equal(v, w, 0); err != nil {
				return nil, err
			}
			if found {
				break
			}
		}
		if !found {
			out = append(out, v)
		}
	}
	if err := a.take(nil); err != nil {
		return nil, err
	}
	return r.list(out)
}

var filters map[string]filter

func init() { // not in the declaration: some filters look up others
	text := func(r *run, v value, a args) (value, error) {
		s, err := r.show(v)
		return s, errors.Join(err, a.take(nil))
	}
	filters = map[string]filter{
		"upper": ofString(strings.ToUpper), "lower": ofString(strings.ToLower), "title": ofString(title),
		"capitalize": ofString(capitalize),
		"string":     text, "safe": text, "length": length, "count": length, "default": otherwise, "d": otherwise,
		"first": endOf(false), "last": endOf(true), "map": mapped, "sort": sorted, "reverse": reversed,
		"unique": unique,
		"select": selecting(false, true), "reject": selecting(false, false), "selectattr": selecting(true, true),
		"rejectattr": selecting(true, false),
		"tojson":     tojson, "indent": indented, "dictsort": dictsorted, "int": toInt, "float": toFloat,
		"round": rounded,
		"min":   extreme(-1), "max": extreme(1),
		"escape": escaped, "e": escaped,
		"trim":    trimmed,
		"list":    listed,
		"items":   itemsOf,
		"join":    joined,
		"replace": replaced,
		"abs":     absolute,
		"sum":     summed,
	}
}

func escaped(r *run, v value, a args) (value, error) {
	s, err := r.show(v)
	if err == nil {
		err = errors.Join(a.take(nil), r.made(6*len(s)))
	}
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace(s), err
}

func trimmed(r *run, v value, a args) (value, error) {
	var chars value
	if err := a.take([]string{"chars"}, &chars); err != nil {
		return nil, err
	}
	s, err := r.show(v)
	if err != nil {
		return nil, err
	}
	return stripped(r, s, chars, true, true)
}

func listed(r *run, v value, a args) (value, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	out, err := r.list(slices.Clone(items))
	return out, errors.Join(err, a.take(nil))
}

func itemsOf(r *run, v value, a args) (value, error) {
	d, ok := v.(*dict)
	if _, is := v.(undefined); is {
		d, ok = newDict(), true
	}
	if !ok {
		return nil, fmt.Errorf("items takes a mapping; found %s", typeName(v))
	}
	return dictMethods["items"](r, d, a)
}

func joined(r *run, v value, a args) (value, error) {
	var with, attr value = "", nil
	if err := a.take([]string{"d", "attribute"}, &with, &attr); err != nil {
		return nil, err
	}
	if attr != nil {
		var err error
		if v, err = mapped(r, v, args{keys: map[string]value{"attribute": attr}}); err != nil {
			return nil, err
		}
	}
	s, err := r.show(with)
	if err != nil {
		return nil, err
	}
	return r.join(v, s)
}

func replaced(r *run, v value, a args) (value, error) {
	var old, with, count value
	if err := a.take([]string{"old", "new", "count"}, &old, &with, &count); err != nil {
		return nil, err
	}
	s, err := r.show(v)
	if err != nil {
		return nil, err
	}
	return r.replace(s, old, with, count)
}
