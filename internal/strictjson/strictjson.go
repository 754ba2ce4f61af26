// Package strictjson reads JSON token by token. Unlike json.Unmarshal, it detects duplicate keys, compares keys
// exactly, and stores no more of a hostile document than the caller keeps.
//
// Errors are plain. Their texts follow the name of the document. The package imports nothing of this module.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// Reader reads one document.
type Reader struct{ dec *json.Decoder }

// maxDepth bounds the nesting of values that Skip and Value accept.
const maxDepth = 64

// New returns a Reader of doc, which must be UTF-8.
func New(doc []byte) (*Reader, error) {
	if !utf8.Valid(doc) { // encoding/json would replace invalid bytes, and two names could become equal
		return nil, errors.New("is not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	return &Reader{d}, nil
}

// token returns the next token. The end of the document is an error.
func (r *Reader) token() (json.Token, error) {
	t, err := r.dec.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("is not valid JSON at byte %d: %w", r.dec.InputOffset(), err)
	}
	return t, nil
}

// Object reads an object. It calls each after every key; each must read the value.
func (r *Reader) Object(what string, each func(key string) error) error {
	t, err := r.token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("%s is %s, not an object", what, describe(t))
	}
	return r.members(what, each)
}

func (r *Reader) members(what string, each func(key string) error) error {
	seen := map[string]struct{}{}
	for {
		t, err := r.token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return nil // after a value, the decoder accepts only a key or the closing brace
		}
		if _, dup := seen[key]; dup {
			return fmt.Errorf("%s has the key %q twice", what, key)
		}
		seen[key] = struct{}{}
		if err := each(key); err != nil {
			return err
		}
	}
}

// String reads a string.
func (r *Reader) String(what string) (string, error) {
	t, err := r.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("%s is %s, not a string", what, describe(t))
	}
	return s, nil
}

// Ints reads an array of at most limit whole numbers from 0 to 2^63-1.
func (r *Reader) Ints(what string, limit int) ([]int64, error) {
	t, err := r.token()
	if err != nil {
		return nil, err
	}
	if t != json.Delim('[') {
		return nil, fmt.Errorf("%s is %s, not an array", what, describe(t))
	}
	out := []int64{}
	for {
		if t, err = r.token(); err != nil {
			return nil, err
		}
		if t == json.Delim(']') {
			return out, nil
		}
		num, ok := t.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%s holds %s, not a number", what, describe(t))
		}
		v, err := strconv.ParseUint(num.String(), 10, 63)
		if err != nil {
			return nil, fmt.Errorf("%s holds %.40s; allowed are whole numbers from 0 to 2^63-1", what, num)
		}
		if len(out) == limit {
			return nil, fmt.Errorf("%s has more than %d numbers", what, limit)
		}
		out = append(out, int64(v))
	}
}

// Skip skips any value.
func (r *Reader) Skip() error {
	for depth := 0; ; {
		t, err := r.token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxDepth {
				return fmt.Errorf("is nested deeper than %d levels", maxDepth)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// End fails unless only white space follows.
func (r *Reader) End() error {
	if _, err := r.dec.Token(); err != io.EOF {
		return fmt.Errorf("has more after the JSON object, at byte %d", r.dec.InputOffset())
	}
	return nil
}

func describe(t json.Token) string {
	switch t := t.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return strconv.FormatBool(t)
	case json.Number:
		return fmt.Sprintf("the number %.40s", t)
	case json.Delim:
		if t == '{' {
			return "an object"
		}
	}
	return "an array"
}

// Array reads an array. It calls each before every element; each must read the element.
func (r *Reader) Array(what string, each func(i int) error) error {
	t, err := r.token()
	if err != nil {
		return err
	}
	if t != json.Delim('[') {
		return fmt.Errorf("%s is %s, not an array", what, describe(t))
	}
	for i := 0; r.dec.More(); i++ {
		if err := each(i); err != nil {
			return err
		}
	}
	_, err = r.token()
	return err
}

// Value reads any value, made of at most limit values: nil, bool, json.Number, string, []any or map[string]any.
func (r *Reader) Value(what string, limit int) (any, error) {
	return r.value(what, &limit, 0)
}

func (r *Reader) value(what string, left *int, depth int) (any, error) {
	if *left--; *left < 0 {
		return nil, fmt.Errorf("%s has more values than are allowed", what)
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("%s is nested deeper than %d levels", what, maxDepth)
	}
	t, err := r.token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		out := map[string]any{}
		err := r.members(what, func(key string) (err error) {
			out[key], err = r.value(what, left, depth+1)
			return err
		})
		return out, err
	case json.Delim('['):
		out := []any{}
		for r.dec.More() {
			v, err := r.value(what, left, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		_, err := r.token()
		return out, err
	}
	return t, nil
}

// Raw reads any value and returns its text, which is valid JSON.
func (r *Reader) Raw() ([]byte, error) {
	var raw json.RawMessage
	if err := r.dec.Decode(&raw); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("is not valid JSON at byte %d: %w", r.dec.InputOffset(), err)
	}
	return raw, nil
}
