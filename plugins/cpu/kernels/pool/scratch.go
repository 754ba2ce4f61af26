package pool

import "reflect"

// Size is an upper bound of the memory that a kernel needs beside its operands, in bytes. It counts only what
// grows with the operands.
type Size struct {
	Shared int64 // scratch memory that all workers share
	Worker int64 // scratch memory of each worker
	Alone  int64 // Shared of the pool of each worker; see Pool.Alone
	Other  int64 // memory that the kernel allocates from Go and keeps for the next call
	Packed int64 // weights that are packed once and kept
}

// With returns a size that suffices for either of two kernels, which run one after the other.
func (r Size) With(o Size) Size {
	return Size{max(r.Shared, o.Shared), max(r.Worker, o.Worker), max(r.Alone, o.Alone), max(r.Other, o.Other),
		r.Packed + o.Packed}
}

// Bytes returns the total for all workers of a pool. It adds a quarter to Other and Packed, the most by which Go's
// allocator rounds up.
func (r Size) Bytes(p *Pool) int64 {
	own := r.Other + r.Packed
	return r.Shared + int64(p.Threads())*(r.Worker+r.Alone) + own + own/4
}

// Reserve allocates the scratch memory in advance. allocate must return the given number of floats, aligned to 64
// bytes. Without Reserve the pool grows its memory when a kernel needs more, and holds the old block beside the new one
// until it is collected.
func (p *Pool) Reserve(r Size, allocate func(floats int64) ([]float32, error)) error {
	err := p.Shared.reserve(r.Shared, allocate)
	for i := 0; i < p.Threads() && err == nil; i++ {
		w := &p.workers[i]
		if err = w.scratch.reserve(r.Worker, allocate); err == nil && r.Alone > 0 {
			err = w.alone.Shared.reserve(r.Alone, allocate)
		}
	}
	return err
}

func (s *Scratch) reserve(bytes int64, allocate func(floats int64) ([]float32, error)) (err error) {
	if bytes > 4*int64(len(s.block)) {
		s.block, err = allocate(bytes / 4)
	}
	return err
}

// FloatBytes returns the size in bytes of slices of these lengths, as scratch.floats allocates them.
func FloatBytes(lengths ...int) (n int64) {
	for _, l := range lengths {
		n += 4 * int64((l+15)&^15)
	}
	return n
}

// SizeOf returns the size in bytes of n values of type T.
func SizeOf[T any](n int) int64 { return int64(n) * int64(reflect.TypeFor[T]().Size()) }

// Used returns the largest amount of memory that kernels have needed: Shared, and Worker and Alone for the worker that
// needed most. Tests compare it with the amount that kernels declare.
func (p *Pool) Used() (r Size) {
	r.Shared = p.Shared.Peak()
	for i := range p.workers {
		r.Worker = max(r.Worker, p.workers[i].scratch.Peak())
		r.Alone = max(r.Alone, p.workers[i].alone.Shared.Peak())
	}
	return r
}

// Peak returns how many bytes floats was asked for at most since the last reset.
func (s *Scratch) Peak() int64 { return FloatBytes(max(s.need, s.most)) }
