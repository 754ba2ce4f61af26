package weights

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestStack checks that tensors of numbered experts are combined, unless a number is missing or a tensor differs.
func TestStack(t *testing.T) {
	entry := func(name, dtype, shape string, from, to int) string {
		return fmt.Sprintf(`%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, name, dtype, shape, from, to)
	}
	all := []string{
		entry("a.experts.1.w", "U8", "[2,3]", 0, 6), entry("a.experts.0.w", "U8", "[2,3]", 6, 12),
		entry("a.experts.2.w", "U8", "[2,3]", 12, 18),
		entry("gap.experts.0.w", "U8", "[1]", 18, 19), entry("gap.experts.2.w", "U8", "[1]", 19, 20),
		entry("odd.experts.0.w", "U8", "[2]", 20, 22), entry("odd.experts.1.w", "U8", "[1]", 22, 23),
		entry("type.experts.0.w", "U8", "[1]", 23, 24), entry("type.experts.1.w", "I8", "[1]", 24, 25),
		entry("taken.experts.0.w", "U8", "[1]", 25, 26), entry("taken.experts.w", "U8", "[1]", 26, 27),
		entry("none.experts.00.w", "U8", "[1]", 27, 28), entry("none.experts.1", "U8", "[1]", 28, 29),
	}
	c, err := Open(write(t, t.TempDir(), "m.safetensors", file("{"+strings.Join(all, ",")+"}", 29)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := len(c.Names()); got != len(all)-2 {
		t.Errorf("tensors %q; want %d", c.Names(), len(all)-2)
	}
	if info, _ := c.Info("a.experts.w"); !slices.Equal(info.Shape, []int64{3, 2, 3}) || info.Size != 18 ||
		info.Stored != "U8" {
		t.Errorf("the experts are %+v", info)
	}
	r, err := c.Open("a.experts.w")
	if err != nil {
		t.Fatal(err)
	}
	want := "\x06\x07\x08\x09\x0a\x0b\x00\x01\x02\x03\x04\x05\x0c\x0d\x0e\x0f\x10\x11"
	for _, size := range []int{1, 4, 7, 18} {
		for at := 0; at+size <= 18; at++ {
			b := make([]byte, size)
			if n, err := r.ReadAt(b, int64(at)); n != size || err != nil && err != io.EOF ||
				string(b) != want[at:at+size] {
				t.Errorf("%d bytes at %d: %x, %v", size, at, b, err)
			}
		}
	}
}
