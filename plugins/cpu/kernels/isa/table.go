package isa

import (
	"sync"
	"sync/atomic"
)

// maxSets is how many sets there can be, with those of tests.
const maxSets = 256

// Table holds the routines of a family of kernels for each set. R is a struct of functions that differ between sets.
// Their contracts hold for all sets, so that kernels are written once. Routines are made when they are first asked for.
type Table[R any] struct {
	made  [maxSets]atomic.Pointer[R]
	mu    sync.Mutex
	makes map[*Set]func() *R
}

// Add says how to make the routines of a set. Sets that extend it have the same ones, unless they are added, too.
func (t *Table[R]) Add(s *Set, routines func() *R) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.makes == nil {
		t.makes = map[*Set]func() *R{}
	}
	t.makes[s] = routines
}

// On returns the routines of a set.
func (t *Table[R]) On(s *Set) *R {
	if r := t.made[s.id].Load(); r != nil {
		return r
	}
	return t.make(s)
}

func (t *Table[R]) make(s *Set) *R {
	t.mu.Lock()
	f := t.makes[s]
	t.mu.Unlock()
	var r *R
	switch {
	case f != nil:
		r = f()
	case s.base != nil:
		r = t.On(s.base)
	default:
		panic("BUG: there are no routines for the instruction set " + s.Name)
	}
	if t.made[s.id].CompareAndSwap(nil, r) {
		return r
	}
	return t.made[s.id].Load()
}
