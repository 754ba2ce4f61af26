package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// An object is a JSON object whose keys must all be read; done reports keys that were not.
type object struct {
	what   string
	fields map[string]any
	used   map[string]bool
	err    error // first error of any method
}

// asObject returns nil for null.
func asObject(what string, v any) (*object, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		if kind, ok := v["type"].(string); ok {
			what += fmt.Sprintf(" %.40s", kind)
		}
		return &object{what: what, fields: v, used: map[string]bool{}}, nil
	}
	return nil, fmt.Errorf("%s is not an object", what)
}

// done returns the first error, or an error that names a key which was not read.
func (o *object) done() error {
	if o.err != nil {
		return o.err
	}
	for _, key := range slices.Sorted(maps.Keys(o.fields)) {
		if !o.used[key] {
			return unsupported("%s has the key %.40q, which this version does not know", o.what, key)
		}
	}
	return nil
}

func (o *object) take(key string) (any, bool) {
	o.used[key] = true
	v, ok := o.fields[key]
	return v, ok
}

func (o *object) fail(key, want string) {
	if o.err == nil {
		o.err = fmt.Errorf("%s: %s is not %s", o.what, key, want)
	}
}

// str returns a string, or the default if it is null or absent.
func (o *object) str(key, otherwise string) string {
	v, _ := o.take(key)
	if v == nil {
		return otherwise
	}
	s, ok := v.(string)
	if !ok {
		o.fail(key, "a string")
	}
	return s
}

func (o *object) boolean(key string, otherwise bool) bool {
	v, _ := o.take(key)
	if v == nil {
		return otherwise
	}
	b, ok := v.(bool)
	if !ok {
		o.fail(key, "true or false")
	}
	return b
}

func (o *object) integer(key string, otherwise, most int) int {
	v, _ := o.take(key)
	if v == nil {
		return otherwise
	}
	n, ok := v.(json.Number)
	i, err := strconv.ParseUint(n.String(), 10, 63)
	if !ok || err != nil || i > uint64(most) {
		o.fail(key, fmt.Sprintf("a whole number from 0 to %d", most))
		return 0
	}
	return int(i)
}

// pattern reads {"String": "..."} or {"Regex": "..."}.
func (o *object) pattern() (pattern, error) {
	v, _ := o.take("pattern")
	p, err := asObject(o.what+": pattern", v)
	if err != nil || p == nil {
		return nil, errors.Join(err, fmt.Errorf("%s has no pattern", o.what))
	}
	var found pattern
	switch {
	case len(p.fields) != 1:
		return nil, unsupported("%s: pattern has %d keys; allowed is String or Regex", o.what, len(p.fields))
	case p.fields["Regex"] != nil:
		expr := p.str("Regex", "")
		if found, err = compileRegex(expr); err != nil {
			return nil, unsupported("%s: the regular expression %.60q %v", o.what, expr, err)
		}
	default:
		s := p.str("String", "")
		if len(s) > maxPattern {
			return nil, fmt.Errorf("%s: pattern has %d bytes; at most %d are allowed", o.what, len(s), maxPattern)
		}
		found = literal(s)
	}
	return found, p.done()
}

func (o *object) behaviour(otherwise string) (behaviour, error) {
	name := o.str("behavior", otherwise)
	b, ok := behaviours[name]
	if !ok {
		return 0,
			unsupported("%s has the behavior %.40q; allowed are %v", o.what, name, slices.Sorted(maps.Keys(behaviours)))
	}
	return b, nil
}

// readList reads an array of objects.
func readList[T any](o *object, key string, read func(*object) (T, error)) ([]T, error) {
	v, _ := o.take(key)
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: %s is not an array", o.what, key)
	}
	if len(list) > maxParts {
		return nil, fmt.Errorf("%s: %s has %d elements; at most %d are allowed", o.what, key, len(list), maxParts)
	}
	var out []T
	for _, v := range list {
		part, err := asObject(key, v)
		if err != nil || part == nil {
			return nil, errors.Join(err, fmt.Errorf("%s: %s holds null", o.what, key))
		}
		one, err := read(part)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}
