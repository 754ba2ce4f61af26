//go:build unix

package bridge

import (
	"context"
	"math/bits"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
)

// A region is memory that is shared with the program.
type region struct {
	mu    sync.RWMutex // read-locked while a call uses data
	data  []byte
	ended bool
}

type regionArgs struct {
	Size int `json:"size"` // in bytes
}

// region maps the file whose descriptor came with the request.
func (c *call) region(_ context.Context, a regionArgs) (any, error) {
	if c.file < 0 {
		return nil, diag.New(diag.Usage, "region", "came without a descriptor")
	}
	defer unix.Close(c.file)
	var st unix.Stat_t
	if err := unix.Fstat(c.file, &st); err != nil {
		return nil, diag.New(diag.Usage, "region", "cannot be examined: %w", err)
	}
	if a.Size <= 0 || int64(a.Size) > st.Size {
		return nil, diag.New(diag.Usage, "region", "is said to have %d bytes; the file has %d", a.Size, st.Size)
	}
	data, err := unix.Mmap(c.file, 0, a.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, diag.New(diag.Usage, "region", "cannot be mapped: %w", err)
	}
	r := &region{data: data}
	return created{c.server.objects.add(r, 0, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = true
		return unix.Munmap(r.data)
	})}, nil
}

// place says where the bytes of a call's tensors are: in a region, or in the payload if Region is 0.
type place struct {
	Region int64 `json:"region"`
	// Space is the offset in the region from which results may be written.
	Space int `json:"space"`
}

// enter returns the memory for the inputs of a call. It stays mapped until leave is called.
func (c *call) enter(p place) (memory []byte, leave func(), err error) {
	if p.Region == 0 {
		return c.payload, func() {}, nil
	}
	r, err := object[*region](c, p.Region, "region")
	if err != nil {
		return nil, nil, err
	}
	r.mu.RLock()
	if r.ended {
		r.mu.RUnlock()
		return nil, nil, diag.New(diag.Usage, "region", "object %d is closed, or is not of the kind region", p.Region)
	}
	return r.data, r.mu.RUnlock, nil
}

// A tensor describes an input or a result of a call.
type tensor struct {
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	Offset int    `json:"offset"` // of its bytes in the payload or the region

	data []byte
}

// in returns a tensor whose bytes are in memory.
func (t tensor) in(memory []byte, name string) (rlx.Tensor, error) {
	d, ok := dtype.Parse(t.DType)
	if !ok {
		return rlx.Tensor{}, diag.New(diag.Usage, name, "has the unknown element type %.20q", t.DType)
	}
	out := rlx.Tensor{DType: rlx.DType(d), Shape: t.Shape}
	size := uint64(out.DType.Size())
	for _, n := range t.Shape {
		over, product := bits.Mul64(size, uint64(n))
		if n < 0 || over != 0 {
			return out, diag.New(diag.Usage, name, "has the shape %v", t.Shape)
		}
		size = product
	}
	if t.Offset < 0 || t.Offset > len(memory) || size > uint64(len(memory)-t.Offset) {
		return out, diag.New(diag.Usage, name, "has %d bytes at %d, beyond the %d that were sent", size, t.Offset,
			len(memory))
	}
	out.Data = memory[t.Offset : t.Offset+int(size)]
	return out, nil
}

// alignment of results in bytes.
const alignment = 64

func aligned(n int) int { return (n + alignment - 1) / alignment * alignment }

// delivered is the part of an answer that says where results are.
type delivered struct {
	Tensors map[string]*tensor `json:"tensors,omitempty"`
	Inline  bool               `json:"inline,omitempty"` // in the payload; otherwise in the region
	// Grow, if not 0, is the number of bytes that a region needs for the results. Result is then the object from which
	// the call collect takes them.
	Grow   int   `json:"grow,omitempty"`
	Result int64 `json:"result,omitempty"`
}

// deliver places results. memory is what enter has returned for p.
func (c *call) deliver(p place, memory []byte, results map[string]*tensor) delivered {
	total := 0
	for _, t := range results {
		total += aligned(len(t.data))
	}
	d := delivered{Tensors: results}
	switch {
	case total <= InlineMax:
		d.Inline = true
		c.answer = make([]byte, total)
		pack(c.answer, 0, results)
	case p.Region != 0 && p.Space >= 0 && p.Space <= len(memory) && total+alignment <= len(memory)-p.Space:
		pack(memory, aligned(p.Space), results)
	default:
		d.Tensors, d.Grow = nil, total+alignment
		d.Result = c.server.objects.add(results, 0, nil)
	}
	return d
}

// hand places results of a call that reads nothing from the memory of p any more.
func (c *call) hand(p place, results map[string]*tensor) (delivered, error) {
	memory, leave, err := c.enter(p)
	if err != nil {
		return delivered{}, err
	}
	defer leave()
	return c.deliver(p, memory, results), nil
}

func pack(memory []byte, at int, results map[string]*tensor) {
	for _, t := range results {
		t.Offset = at
		at += aligned(copy(memory[at:], t.data))
	}
}

type collectArgs struct {
	place
	Result int64 `json:"result"`
}

// collect delivers results that did not fit into the region of their call.
func (c *call) collect(_ context.Context, a collectArgs) (any, error) {
	results, err := object[map[string]*tensor](c, a.Result, "result")
	if err != nil {
		return nil, err
	}
	d, err := c.hand(a.place, results)
	if err != nil {
		return nil, err
	}
	return d, c.server.objects.close(a.Result)
}
