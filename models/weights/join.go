package weights

import (
	"slices"

	"github.com/rlx-go/rlx/models/arch"
)

// find returns a tensor by its name, a slice of one (arch.Slice), or the parts of a joined name (arch.Join) as one
// tensor.
func (c *Checkpoint) find(name string) (t tensor, ok bool) {
	if t, ok = c.tensors[name]; ok {
		return t, true
	}
	names := arch.Parts(name)
	if len(names) == 1 {
		return c.slice(name)
	}
	parts := make([]tensor, len(names))
	for i, n := range names {
		parts[i], ok = c.tensors[n]
		if first := parts[0]; !ok || first.Size == 0 || len(first.Shape) == 0 || parts[i].DType != first.DType ||
			parts[i].Stored != first.Stored ||
			!slices.Equal(parts[i].Shape, first.Shape) {
			return tensor{}, false
		}
	}
	t = parts[0]
	t.src, t.start = stacked{parts, t.Size}, 0
	t.Name, t.Size, t.Shape = name, t.Size*int64(len(parts)), slices.Clone(t.Shape)
	t.Shape[0] *= int64(len(parts))
	return t, true
}

// slice returns a slice of the rows of a tensor.
func (c *Checkpoint) slice(name string) (t tensor, ok bool) {
	whole, i, n := arch.Sliced(name)
	if n == 1 {
		return tensor{}, false
	}
	if t, ok = c.tensors[whole]; !ok || len(t.Shape) == 0 || t.Shape[0]%int64(n) != 0 {
		return tensor{}, false
	}
	t.Name, t.Size, t.Shape = name, t.Size/int64(n), slices.Clone(t.Shape)
	t.start += int64(i) * t.Size
	t.Shape[0] /= int64(n)
	return t, true
}
