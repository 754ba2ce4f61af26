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
