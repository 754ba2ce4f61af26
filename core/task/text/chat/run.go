package chat

import (
	"errors"
	"fmt"
	"time"
)

// run is one rendering.
type run struct {
	out   []byte
	now   time.Time
	steps int // left
	bytes int // left
	calls int // macros in progress
}

// An expr evaluates an expression, a stmt runs a statement.
type (
	expr func(r *run, f *frame) (value, error)
	stmt func(r *run, f *frame) (signal, error)
)

// signal is how a statement ends.
type signal int

const (
	goOn signal = iota
	breakLoop
	nextIteration
)

// frame is a scope. The body of a loop and of a macro have one of their own; if has none.
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

// step counts evaluations.
func (r *run) step() error {
	if r.steps--; r.steps < 0 {
		return errors.New("it takes too many steps")
	}
	return nil
}

// made counts bytes of values and of output. Values are not counted down when they are no longer used.
func (r *run) made(n int) error {
	if n > r.bytes {
		r.bytes = 0
		return errors.New("it takes too much memory")
	}
	r.bytes -= n
	return nil
}

// string counts a new string.
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

// capture gives the output of f, which is not written.
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

// items are what a loop goes over.
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
