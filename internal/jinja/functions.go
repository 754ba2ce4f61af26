package jinja

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

const maxRange = 100_000 // as in Jinja's sandbox

// globals holds the functions that every template can call.
var globals = map[string]function{
	"range":     rangeOf,
	"namespace": func(r *run, a args) (value, error) { d, err := dictOf(r, a); return namespace{d}, err },
	"dict":      func(r *run, a args) (value, error) { return dictOf(r, a) },
}

func rangeOf(r *run, a args) (value, error) {
	n := [3]int{0, 0, 1}
	if len(a.list) < 1 || len(a.list) > 3 || len(a.keys) > 0 {
		return nil, errors.New("range takes one to three integers")
	}
	for i, v := range a.list {
		_, k, whole, ok := numeric(v)
		if !ok || !whole {
			return nil, fmt.Errorf("range takes integers; found %s", typeName(v))
		}
		n[i] = k
	}
	if len(a.list) == 1 {
		n[0], n[1] = 0, n[0]
	}
	if n[2] == 0 {
		return nil, errors.New("the step of a range is 0")
	}
	var out []value
	for i := n[0]; n[2] > 0 && i < n[1] || n[2] < 0 && i > n[1]; {
		if len(out) == maxRange {
			return nil, fmt.Errorf("a range has more than %d numbers", maxRange)
		}
		out = append(out, i)
		next := i + n[2]
		if (next > i) != (n[2] > 0) {
			break
		}
		i = next
	}
	return r.list(out)
}

// dictOf implements dict: it returns the items of the mappings in a, followed by the keyword arguments, sorted by name.
func dictOf(r *run, a args) (*dict, error) {
	d := newDict()
	for _, v := range a.list {
		from, ok := v.(*dict)
		if !ok || len(a.list) > 1 {
			return nil, fmt.Errorf("a mapping cannot be made of %s", typeName(v))
		}
		for _, key := range from.keys {
			d.set(key, from.items[key])
		}
	}
	for _, key := range sortedKeys(a.keys) {
		d.set(key, a.keys[key])
	}
	return d, r.made(64 * len(d.keys))
}

var dictMethods = map[string]func(r *run, d *dict, a args) (value, error){
	"items": func(r *run, d *dict, a args) (value, error) {
		out := make([]value, len(d.keys))
		for i, key := range d.keys {
			out[i] = &list{[]value{key, d.items[key]}, true}
		}
		return &list{items: out}, errors.Join(a.take(nil), r.made(64*len(out)))
	},
	"keys": func(r *run, d *dict, a args) (value, error) {
		out, err := r.items(d)
		return &list{items: out}, errors.Join(err, a.take(nil))
	},
	"values": func(r *run, d *dict, a args) (value, error) {
		out := make([]value, len(d.keys))
		for i, key := range d.keys {
			out[i] = d.items[key]
		}
		return &list{items: out}, errors.Join(a.take(nil), r.made(16*len(out)))
	},
	"get": func(_ *run, d *dict, a args) (value, error) {
		var key, otherwise value
		if err := a.take([]string{"key", "default"}, &key, &otherwise); err != nil {
			return nil, fmt.Errorf("get %w", err)
		}
		if s, ok := key.(string); ok {
			if v, ok := d.items[s]; ok {
				return v, nil
			}
		}
		return otherwise, nil
	},
}

type stringMethod func(r *run, s string, a args) (value, error)

// mapping returns a method without arguments that maps a string.
func mapping(f func(string) string) stringMethod {
	return func(r *run, s string, a args) (value, error) {
		if err := a.take(nil); err != nil {
			return nil, err
		}
		return r.string(f(s))
	}
}

// class returns a method that reports whether a string is not empty and is true for all its characters.
func class(is func(rune) bool) stringMethod {
	return func(_ *run, s string, a args) (value, error) {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !is(c) }) < 0, a.take(nil)
	}
}

// stripping returns the method strip, lstrip or rstrip.
func stripping(left, right bool) stringMethod {
	return func(r *run, s string, a args) (value, error) {
		var chars value
		if err := a.take([]string{"chars"}, &chars); err != nil {
			return nil, err
		}
		return stripped(r, s, chars, left, right)
	}
}

func stripped(r *run, s string, chars value, left, right bool) (value, error) {
	is := unicode.IsSpace
	if chars != nil {
		set, ok := chars.(string)
		if !ok {
			return nil, fmt.Errorf("strips the characters of a string; found %s", typeName(chars))
		}
		in := map[rune]bool{}
		for _, c := range set {
			in[c] = true
		}
		is = func(c rune) bool { return in[c] }
		if err := r.made(len(set)); err != nil {
			return nil, err
		}
	}
	if left {
		s = strings.TrimLeftFunc(s, is)
	}
	if right {
		s = strings.TrimRightFunc(s, is)
	}
	return s, nil
}

// affix returns the method startswith or endswith.
func affix(has func(s, affix string) bool) stringMethod {
	return func(_ *run, s string, a args) (value, error) {
		var v value
		if err := a.take([]string{"prefix"}, &v); err != nil {
			return nil, err
		}
		options := []value{v}
		if l, ok := v.(*list); ok {
			options = l.items
		}
		for _, o := range options {
			t, ok := o.(string)
			if !ok {
				return nil, fmt.Errorf("takes a string; found %s", typeName(o))
			}
			if has(s, t) {
				return true, nil
			}
		}
		return false, nil
	}
}

// withString returns a method that takes one string.
func withString(f func(r *run, s, t string) (value, error)) stringMethod {
	return func(r *run, s string, a args) (value, error) {
		var v value
		if err := a.take([]string{"value"}, &v); err != nil {
			return nil, err
		}
		t, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("takes a string; found %s", typeName(v))
		}
		return f(r, s, t)
	}
}

var stringMethods = map[string]stringMethod{
	"upper": mapping(strings.ToUpper), "lower": mapping(strings.ToLower), "title": mapping(title),
	"capitalize": mapping(capitalize),
	"strip":      stripping(true, true), "lstrip": stripping(true, false), "rstrip": stripping(false, true),
	"startswith": affix(strings.HasPrefix), "endswith": affix(strings.HasSuffix),
	"isdigit": class(unicode.IsDigit), "isalpha": class(unicode.IsLetter), "isspace": class(unicode.IsSpace),
	"isalnum":      class(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
	"removeprefix": withString(func(_ *run, s, t string) (value, error) { return strings.TrimPrefix(s, t), nil }),
	"removesuffix": withString(func(_ *run, s, t string) (value, error) { return strings.TrimSuffix(s, t), nil }),
	"find": withString(func(_ *run, s, t string) (value, error) {
		i := strings.Index(s, t)
		if i > 0 {
			i = len([]rune(s[:i]))
		}
		return i, nil
	}),
	"count": withString(func(_ *run, s, t string) (value, error) { return strings.Count(s, t), nil }),
	"join": func(r *run, s string, a args) (value, error) {
		var v value
		if err := a.take([]string{"iterable"}, &v); err != nil {
			return nil, err
		}
		return r.join(v, s)
	},
	"replace": func(r *run, s string, a args) (value, error) {
		var old, with, count value = nil, nil, -1
		if err := a.take([]string{"old", "new", "count"}, &old, &with, &count); err != nil {
			return nil, err
		}
		return r.replace(s, old, with, count)
	},
	"split":  splitting(false),
	"rsplit": splitting(true),
	"splitlines": func(r *run, s string, a args) (value, error) {
		var out []value
		lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n"), "\n")
		for i, line := range lines {
			if i < len(lines)-1 || line != "" {
				out = append(out, line)
			}
		}
		return &list{items: out}, errors.Join(a.take(nil), r.made(len(s)+16*len(out)))
	},
}

func (r *run) join(v value, with string) (value, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for i, e := range items {
		s, err := r.show(e)
		if err == nil {
			err = r.made(len(s) + len(with))
		}
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString(with)
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func (r *run) replace(s string, old, with, count value) (value, error) {
	o, okO := old.(string)
	w, okW := with.(string)
	n, okN := count.(int)
	if count == nil {
		n, okN = -1, true
	}
	if !okO || !okW || !okN {
		return nil, errors.New("replace takes two strings and a count")
	}
	found := strings.Count(s, o)
	if n >= 0 {
		found = min(found, n)
	}
	if len(w) > 0 && found > r.bytes/len(w) {
		return nil, r.exhausted()
	}
	if err := r.made(len(s) + found*len(w)); err != nil {
		return nil, err
	}
	return strings.Replace(s, o, w, n), nil
}

func splitting(right bool) stringMethod {
	return func(r *run, s string, a args) (value, error) {
		var sep, most value = nil, -1
		if err := a.take([]string{"sep", "maxsplit"}, &sep, &most); err != nil {
			return nil, err
		}
		n, ok := most.(int)
		if !ok {
			return nil, errors.New("maxsplit is not an integer")
		}
		if err := r.made(32 * (len(s) + 1)); err != nil {
			return nil, err
		}
		var parts []string
		switch sep := sep.(type) {
		case nil:
			parts = fields(s, n, right)
		case string:
			if sep == "" {
				return nil, errors.New("the separator is empty")
			}
			parts = splitString(s, sep, n, right)
		default:
			return nil, fmt.Errorf("takes a string; found %s", typeName(sep))
		}
		out := make([]value, len(parts))
		for i, p := range parts {
			out[i] = p
		}
		return &list{items: out}, nil
	}
}

func splitString(s, sep string, n int, right bool) []string {
	if n < 0 {
		return strings.Split(s, sep)
	}
	if !right {
		return strings.SplitN(s, sep, n+1)
	}
	all := strings.Split(s, sep)
	if extra := len(all) - 1 - n; extra > 0 {
		all = append([]string{strings.Join(all[:extra+1], sep)}, all[extra+1:]...)
	}
	return all
}

// fields splits s at white space, at most n times unless n is negative.
func fields(s string, n int, right bool) []string {
	if n < 0 {
		return strings.Fields(s)
	}
	var out []string
	for s = strings.TrimSpace(s); s != ""; n-- {
		i := strings.IndexFunc(s, unicode.IsSpace)
		if right {
			i = strings.LastIndexFunc(s, unicode.IsSpace)
		}
		switch {
		case n == 0 || i < 0:
			out, s = append(out, s), ""
		case right:
			part := strings.TrimLeftFunc(s[i:], unicode.IsSpace)
			out, s = append(out, part), strings.TrimSpace(s[:i])
		default:
			out, s = append(out, s[:i]), strings.TrimSpace(s[i:])
		}
	}
	if right {
		for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
			out[i], out[j] = out[j], out[i]
		}
	}
	return out
}

func capitalize(s string) string {
	for i, c := range s {
		return string(unicode.ToTitle(c)) + strings.ToLower(s[i+len(string(c)):])
	}
	return ""
}

func title(s string) string {
	inside := false
	return strings.Map(func(c rune) rune {
		was := inside
		inside = unicode.IsLetter(c)
		if was {
			return unicode.ToLower(c)
		}
		return unicode.ToTitle(c)
	}, s)
}

func parseInt(s string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	return n, err == nil
}
