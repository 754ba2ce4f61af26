package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/rlx-go/rlx/internal/jinja"
)

// maxDepth bounds how deep JSON nests.
const maxDepth = 64

// fromJSON returns JSON as a value of a template. Objects keep the order of their keys.
func fromJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := next(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("has more than one JSON value")
	}
	return v, nil
}

func next(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, errors.New("nests too deep")
	}
	switch x := t.(type) {
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return int(i), nil
		}
		return x.Float64()
	case json.Delim:
		if x == '[' {
			list := []any{}
			for d.More() {
				v, err := next(d, depth+1)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err := d.Token()
			return list, err
		}
		dict := jinja.Dict{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := next(d, depth+1)
			if err != nil {
				return nil, err
			}
			dict = append(dict, jinja.Item{Key: key.(string), Value: v})
		}
		_, err := d.Token()
		return dict, err
	}
	return t, nil // a string, a bool or null
}
