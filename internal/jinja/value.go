package jinja

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A value is nil, undefined, bool, int, float64, string, *list, *dict, *namespace, *loop or function.
type value any

// undefined is the value of a name or item that does not exist.
type undefined string

type list struct {
	items []value
	tuple bool // printed as a tuple
}

// A dict keeps its keys in insertion order, as in Python.
type dict struct {
	keys  []string
	items map[string]value
}

func newDict() *dict { return &dict{items: map[string]value{}} }

func (d *dict) set(key string, v value) {
	if _, ok := d.items[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.items[key] = v
}

// A namespace is a dict that set may change.
type namespace struct{ *dict }

// A function is a global function, a macro, or a method bound to its object.
type function func(r *run, args args) (value, error)

// args holds the arguments of a call.
type args struct {
	list []value
	keys map[string]value
}

// take stores the arguments into variables, by position or name. Variables without an argument keep their values.
func (a args) take(names []string, into ...*value) error {
	if len(a.list) > len(into) {
		return fmt.Errorf("takes %d arguments; found %d", len(into), len(a.list))
	}
	for i, v := range a.list {
		*into[i] = v
	}
	for key, v := range a.keys {
		i := slices.Index(names, key)
		if i < 0 {
			return fmt.Errorf("has no argument %.40q", key)
		}
		*into[i] = v
	}
	return nil
}

// fromGo converts a Go value.
func fromGo(v any, depth int) (value, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("is nested deeper than %d levels", MaxDepth)
	}
	switch v := v.(type) {
	case nil, bool, int, float64, string:
		return v, nil
	case []any:
		l := &list{}
		for _, e := range v {
			x, err := fromGo(e, depth+1)
			if err != nil {
				return nil, err
			}
			l.items = append(l.items, x)
		}
		return l, nil
	case map[string]any:
		d := newDict()
		for _, key := range slices.Sorted(maps.Keys(v)) {
			x, err := fromGo(v[key], depth+1)
			if err != nil {
				return nil, err
			}
			d.set(key, x)
		}
		return d, nil
	case Dict:
		d := newDict()
		for _, item := range v {
			x, err := fromGo(item.Value, depth+1)
			if err != nil {
				return nil, err
			}
			d.set(item.Key, x)
		}
		return d, nil
	case Function:
		return v.function(), nil
	}
	return nil, fmt.Errorf("is a %T, which templates cannot take", v)
}

// function returns what calls f.
func (f Function) function() function {
	return func(r *run, a args) (value, error) {
		given := make([]value, len(f.Params))
		into := make([]*value, len(f.Params))
		for i := range given {
			into[i] = &given[i]
		}
		if err := a.take(f.Params, into...); err != nil {
			return nil, err
		}
		plain := make([]any, len(given))
		for i, v := range given {
			switch v := v.(type) {
			case undefined:
			case nil, bool, int, float64, string:
				plain[i] = v
			default:
				s, err := r.show(v)
				if err != nil {
					return nil, err
				}
				plain[i] = s
			}
		}
		out, err := f.Call(plain)
		if err != nil {
			return nil, err
		}
		return r.string(out)
	}
}

func truth(v value) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *list:
		return len(v.items) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

func typeName(v value) string {
	switch v.(type) {
	case nil:
		return "none"
	case undefined:
		return "undefined"
	case bool:
		return "a boolean"
	case int:
		return "an integer"
	case float64:
		return "a float"
	case string:
		return "a string"
	case *list:
		return "a list"
	case *dict:
		return "a mapping"
	}
	return "a function"
}

// show returns the text that {{ v }} prints, like str(v) in Python.
func (r *run) show(v value) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case undefined:
		return "", nil
	}
	var b strings.Builder
	err := r.repr(&b, v, 0)
	return b.String(), err
}

func (r *run) repr(b *strings.Builder, v value, depth int) error {
	if err := r.made(16); err != nil {
		return err
	}
	if depth > MaxDepth {
		return errors.New("a value is nested too deep to be printed")
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case undefined:
		b.WriteString("Undefined")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int:
		b.WriteString(strconv.Itoa(v))
	case float64:
		b.WriteString(floatRepr(v))
	case string:
		if err := r.made(len(v)); err != nil {
			return err
		}
		stringRepr(b, v)
	case *list:
		left, right := "[", "]"
		if v.tuple {
			left, right = "(", ")"
			if len(v.items) == 1 {
				right = ",)"
			}
		}
		b.WriteString(left)
		for i, e := range v.items {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := r.repr(b, e, depth+1); err != nil {
				return err
			}
		}
		b.WriteString(right)
	case *dict:
		b.WriteByte('{')
		for i, key := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			stringRepr(b, key)
			b.WriteString(": ")
			if err := r.repr(b, v.items[key], depth+1); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	default:
		return errors.New("a function cannot be printed")
	}
	return nil
}

func floatRepr(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func stringRepr(b *strings.Builder, s string) {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b.WriteRune(quote)
	for _, c := range s {
		switch {
		case c == quote || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\r':
			b.WriteString(`\r`)
		case c < 0x20 || c >= 0x7f && c <= 0xa0 || c == 0xad:
			fmt.Fprintf(b, `\x%02x`, c)
		case !unicode.IsPrint(c) && c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		case !unicode.IsPrint(c):
			fmt.Fprintf(b, `\U%08x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteRune(quote)
}

// toJSON writes v like json.dumps in Python with ensure_ascii=False.
func (r *run) toJSON(b *strings.Builder, v value, indent string, depth int, sorted bool) error {
	if err := r.made(16 + depth*len(indent)); err != nil {
		return err
	}
	if depth > MaxDepth {
		return errors.New("tojson: the value is nested too deep")
	}
	lineEnd, comma := "", ", "
	if indent != "" {
		lineEnd, comma = "\n"+strings.Repeat(indent, depth), ","
	}
	item := func(i int) {
		if i > 0 {
			b.WriteString(comma)
		}
		if indent != "" {
			b.WriteString(lineEnd + indent)
		}
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int:
		b.WriteString(strconv.Itoa(v))
	case float64:
		b.WriteString(map[string]string{"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[floatRepr(v)])
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			b.WriteString(floatRepr(v))
		}
	case string:
		if err := r.made(len(v)); err != nil {
			return err
		}
		jsonString(b, v)
	case *list:
		b.WriteByte('[')
		for i, e := range v.items {
			item(i)
			if err := r.toJSON(b, e, indent, depth+1, sorted); err != nil {
				return err
			}
		}
		if len(v.items) > 0 {
			b.WriteString(lineEnd)
		}
		b.WriteByte(']')
	case *dict:
		keys := v.keys
		if sorted {
			keys = slices.Sorted(slices.Values(keys))
		}
		b.WriteByte('{')
		for i, key := range keys {
			item(i)
			jsonString(b, key)
			b.WriteString(": ")
			if err := r.toJSON(b, v.items[key], indent, depth+1, sorted); err != nil {
				return err
			}
		}
		if len(keys) > 0 {
			b.WriteString(lineEnd)
		}
		b.WriteByte('}')
	default:
		return fmt.Errorf("tojson cannot write %s", typeName(v))
	}
	return nil
}

func jsonString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < 0x20:
			if i := strings.IndexRune("\b\f\n\r\t", c); i >= 0 {
				b.WriteString(`\` + "bfnrt"[i:i+1])
			} else {
				fmt.Fprintf(b, `\u%04x`, c)
			}
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}
