package weights

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// stack combines the tensors of numbered experts, such as mlp.experts.0.up_proj.weight, into one tensor with a leading
// axis of experts, mlp.experts.up_proj.weight, because a model multiplies by all of them in one step. Numbers must
// start at 0 without gaps, and types and shapes must be equal; otherwise the tensors stay separate.
func (c *Checkpoint) stack() {
	const mark = ".experts."
	experts := map[string]map[int]tensor{} // keyed by the name of the combined tensor
	for name, t := range c.tensors {
		before, after, ok := strings.Cut(name, mark)
		number, rest, dotted := strings.Cut(after, ".")
		n, err := strconv.Atoi(number)
		if !ok || !dotted || err != nil || n < 0 || strconv.Itoa(n) != number {
			continue
		}
		whole := before + mark + rest
		if experts[whole] == nil {
			experts[whole] = map[int]tensor{}
		}
		experts[whole][n] = t
	}
	for whole, parts := range experts {
		first, numbered := parts[0]
		_, taken := c.tensors[whole]
		same := numbered && !taken && first.Size > 0
		all := make([]tensor, len(parts))
		for n, t := range parts {
			if same = same && n < len(all) && t.DType == first.DType && t.Stored == first.Stored &&
				slices.Equal(t.Shape, first.Shape); same {
				all[n] = t
			}
		}
		if !same {
			continue
		}
		for _, t := range parts {
			delete(c.tensors, t.Name)
		}
		t := first
		t.Name, t.Shape, t.Size = whole, append([]int64{int64(len(all))}, first.Shape...), first.Size*int64(len(all))
		t.src, t.start = stacked{all, first.Size}, 0
		c.tensors[whole] = t
	}
	c.names = slices.Sorted(maps.Keys(c.tensors))
}

// stacked reads tensors of equal size one after another.
type stacked struct {
	parts []tensor
	size  int64
}

func (s stacked) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		i, off := (at+int64(n))/s.size, (at+int64(n))%s.size
		if i >= int64(len(s.parts)) {
			return n, io.EOF
		}
		want := min(int64(len(b)-n), s.size-off)
		got, err := s.parts[i].src.ReadAt(b[n:n+int(want)], s.parts[i].start+off)
		n += got
		if int64(got) < want {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		}
	}
	return n, nil
}
