package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
)

// An object keeps the order of its keys.
type object struct {
	keys   []string
	values map[string]any
}

func (o *object) get(key string) (any, bool) {
	v, ok := o.values[key]
	return v, ok
}

func (o *object) set(key string, v any) {
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	if o.values == nil {
		o.values = map[string]any{}
	}
	o.values[key] = v
}

func (o *object) drop(key string) {
	if _, ok := o.values[key]; ok {
		delete(o.values, key)
		for i, k := range o.keys {
			if k == key {
				o.keys = append(o.keys[:i:i], o.keys[i+1:]...)
				return
			}
		}
	}
}

// clone copies the object, but not its values.
func (o *object) clone() *object {
	out := &object{}
	for _, k := range o.keys {
		out.set(k, o.values[k])
	}
	return out
}

// MarshalJSON writes the keys in their order.
func (o *object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(encoded(k))
		b.WriteByte(':')
		b.WriteString(encoded(o.values[k]))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// encoded returns a value as JSON, without escapes that are only for HTML.
func encoded(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: a JSON value cannot be written: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// parseJSON parses a value: nil, bool, json.Number, string, []any or *object.
func parseJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := value(d, 0)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more after the value")
	}
	return v, nil
}

func value(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("it is nested more than " + strconv.Itoa(maxDepth) + " deep")
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		out := []any{}
		for d.More() {
			v, err := value(d, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		_, err = d.Token()
		return out, err
	case json.Delim('{'):
		out := &object{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := value(d, depth+1)
			if err != nil {
				return nil, err
			}
			name := key.(string)
			if _, ok := out.get(name); ok {
				return nil, errors.New("an object has the key " + strconv.Quote(name) + " twice")
			}
			out.set(name, v)
		}
		_, err = d.Token()
		return out, err
	}
	return t, nil
}
