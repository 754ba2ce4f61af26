//go:build unix

package bridge

import (
	"errors"
	"slices"
	"sync"
)

// objects holds the objects that the program has opened, by number. An object that belongs to another is closed before
// it.
type objects struct {
	mu   sync.Mutex
	last int64
	all  map[int64]*entry
}

type entry struct {
	value any
	owner int64 // 0 if the object belongs to no other
	close func() error
}

// add adds an object and returns its number. closer may be nil.
func (o *objects) add(value any, owner int64, closer func() error) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[int64]*entry{}
	}
	o.last++
	o.all[o.last] = &entry{value, owner, closer}
	return o.last
}

func (o *objects) get(id int64) any {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.all[id]; e != nil {
		return e.value
	}
	return nil
}

// owner returns the object that an object belongs to, or 0.
func (o *objects) owner(id int64) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.all[id]; e != nil {
		return e.owner
	}
	return 0
}

// close closes an object, after the objects that belong to it, the youngest first.
func (o *objects) close(id int64) error {
	o.mu.Lock()
	e := o.all[id]
	delete(o.all, id)
	var owned []int64
	for n, x := range o.all {
		if e != nil && x.owner == id {
			owned = append(owned, n)
		}
	}
	o.mu.Unlock()
	if e == nil {
		return nil
	}
	var errs []error
	slices.Sort(owned)
	for _, n := range slices.Backward(owned) {
		errs = append(errs, o.close(n))
	}
	if e.close != nil {
		errs = append(errs, e.close())
	}
	return errors.Join(errs...)
}

// closeAll closes all objects.
func (o *objects) closeAll() {
	for id := o.last; id > 0; id-- {
		o.close(id)
	}
}
