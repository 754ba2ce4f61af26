package tensor_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/tensor"
)

func TestCopy(t *testing.T) {
	src := make([]byte, 9<<20+17)
	rng := rand.NewChaCha8([32]byte{1})
	rng.Read(src)
	for _, n := range []int{0, 1, 1<<20 - 1, 2 << 20, 2<<20 + 3, 7<<20 + 1, 9<<20 + 17} {
		dst := make([]byte, n+2)
		dst[0], dst[n+1] = 0xaa, 0xbb
		tensor.Copy(dst[1:n+1], src[:n])
		if !bytes.Equal(dst[1:n+1], src[:n]) || dst[0] != 0xaa || dst[n+1] != 0xbb {
			t.Errorf("%d bytes are not copied as they are", n)
		}
		moved, from := make([]byte, n+2), bytes.Clone(src[:n])
		moved[0], moved[n+1] = 0xaa, 0xbb
		if tensor.Move(moved[1:n+1], from); !bytes.Equal(moved, dst) || !bytes.Equal(from, make([]byte, n)) {
			t.Errorf("%d bytes are not moved as they are, or stay", n)
		}
		tensor.Clear(dst[1 : n+1])
		tensor.Touch(dst[1 : n+1])
		if !bytes.Equal(dst[1:n+1], make([]byte, n)) || dst[0] != 0xaa || dst[n+1] != 0xbb {
			t.Errorf("%d bytes are not cleared, or more are", n)
		}
	}
}

// TestUncleared: new memory begins at a multiple of 64, has its own bytes, and can be written as a whole.
func TestUncleared(t *testing.T) {
	for _, n := range []int{0, 1, 63, 512<<10 - 1, 512 << 10, 512<<10 + 1, 3<<20 + 5} {
		a, b := tensor.Uncleared(n), tensor.Uncleared(n)
		for i := range a {
			a[i], b[i] = 1, 2
		}
		if len(a) != n || cap(a) != n || !tensor.Aligned(a, 64) || bytes.Count(a, []byte{1}) != n ||
			bytes.Count(b, []byte{2}) != n {
			t.Errorf("%d bytes: %d, capacity %d, aligned %v", n, len(a), cap(a), tensor.Aligned(a, 64))
		}
	}
}
