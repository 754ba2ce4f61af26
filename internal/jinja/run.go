package jinja

import (
	"errors"
	"fmt"
)

// A run is the state of one rendering.
type run struct {
	out   []byte
	steps int // that may still be made
	bytes int // that may still be allocated
	calls int // macros that have not returned
}

// An expr evaluates an expression; a stmt executes a statement.
type (
	expr func(r *run, f *frame) (value, error)
	stmt func(r *run, f *frame) (signal, error)
)

// A signal tells how a statement ended.
type signal int

const (
	goOn signal = iota
	breakLoop
	nextIteration
)

// A frame is a scope. Bodies of loops and macros have their own; bodies of if do not.
type frame struct {
	vars map[string]value
	up   *frame
}

func newFrame(up *frame) *frame { return &frame{map[string]value{}, up} }

func (f *frame) get(name string) value {
	for ; f != nil; f = f.up {
		if v, ok := f.vars[name]; ok {
			return v
		}
	}
	return undefined(name)
}

// step counts an evaluation. It fails if the limit is reached.
func (r *run) step() error {
	if r.steps--; r.steps < 0 {
		return errors.New("it takes too many steps")
	}
	return nil
}

// made counts n bytes of values or output. Values that are no longer used still count.
func (r *run) made(n int) error {
	if n > r.bytes {
		return r.exhausted()
	}
	r.bytes -= n
	return nil
}

// exhausted fails as made does, for sizes that may not fit an int. Nothing more can be made.
func (r *run) exhausted() error {
	r.bytes = 0
	return errors.New("it takes too much memory")
}

// string counts a new string and returns it.
func (r *run) string(s string) (value, error) { return s, r.made(len(s)) }

func (r *run) list(items []value) (value, error) { return &list{items: items}, r.made(16 * len(items)) }

func (r *run) block(body []stmt, f *frame) (signal, error) {
	for _, s := range body {
		if err := r.step(); err != nil {
			return goOn, err
		}
		if sig, err := s(r, f); err != nil || sig != goOn {
			return sig, err
		}
	}
	return goOn, nil
}

// capture returns the output of f instead of writing it.
func (r *run) capture(f func() error) (value, error) {
	outer := r.out
	r.out = nil
	err := f()
	text := string(r.out)
	r.out = outer
	return text, err
}

func (r *run) write(s string) error {
	if err := r.made(len(s)); err != nil {
		return err
	}
	r.out = append(r.out, s...)
	return nil
}

// items returns the items that a loop over v visits.
func (r *run) items(v value) ([]value, error) {
	switch v := v.(type) {
	case *list:
		return v.items, nil
	case undefined:
		return nil, nil
	case *dict:
		out := make([]value, len(v.keys))
		for i, key := range v.keys {
			out[i] = key
		}
		return out, r.made(16 * len(out))
	case string:
		if err := r.made(32 * len(v)); err != nil {
			return nil, err
		}
		var out []value
		for _, c := range v {
			out = append(out, string(c))
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s is not iterable", typeName(v))
}

// loop is the variable loop in a for block.
type loop struct {
	i     int
	items []value
}

func (l *loop) attr(name string) (value, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return l.i + 1, true
	case "index0":
		return l.i, true
	case "revindex":
		return n - l.i, true
	case "revindex0":
		return n - l.i - 1, true
	case "first":
		return l.i == 0, true
	case "last":
		return l.i == n-1, true
	case "length":
		return n, true
	case "depth":
		return 1, true
	case "depth0":
		return 0, true
	case "previtem":
		if l.i > 0 {
			return l.items[l.i-1], true
		}
		return undefined("previtem"), true
	case "nextitem":
		if l.i+1 < n {
			return l.items[l.i+1], true
		}
		return undefined("nextitem"), true
	case "cycle":
		return function(func(r *run, a args) (value, error) {
			if len(a.list) == 0 {
				return nil, errors.New("cycle has no values")
			}
			return a.list[l.i%len(a.list)], nil
		}), true
	}
	return nil, false
}
