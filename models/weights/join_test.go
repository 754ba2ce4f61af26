package weights

import (
	"io"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/models/arch"
)

// TestSlice checks that a slice has its rows, and that a tensor has no others.
func TestSlice(t *testing.T) {
	header := `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[4,2],"data_offsets":[1,9]},` +
		`"scalar":{"dtype":"U8","shape":[],"data_offsets":[9,10]}}`
	c, err := Open(write(t, t.TempDir(), "m.safetensors", file(header, 10)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, want := range []string{"\x01\x02\x03\x04", "\x05\x06\x07\x08"} {
		name := arch.Slice("b", i, 2)
		if info, ok := c.Info(name); !ok || info.Name != name || !slices.Equal(info.Shape, []int64{2, 2}) {
			t.Errorf("%s is %+v", name, info)
		}
		r, err := c.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
	for _, name := range []string{arch.Slice("b", 0, 3), arch.Slice("scalar", 0, 2), arch.Slice("c", 0, 2), "b@2@2",
		"b@-1@2", "b@0@2@4", "b@0", "@0@2"} {
		if info, ok := c.Info(name); ok {
			t.Errorf("%s is %+v", name, info)
		}
	}
	if got := arch.Tensors(arch.Join("a", arch.Slice("b", 1, 2))); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("tensors %q", got)
	}
}

// TestJoin checks that a joined name gives the rows of its parts in the order of the name, and that only parts of one
// type and shape can be joined.
func TestJoin(t *testing.T) {
	header := `{"a":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]},"b":{"dtype":"U8","shape":[2,3],"data_offsets":[6,12]},` +
		`"wide":{"dtype":"U8","shape":[3,2],"data_offsets":[12,18]},"signed":{"dtype":"I8","shape":[2,3],"data_offsets":[18,24]},` +
		`"none":{"dtype":"U8","shape":[0,3],"data_offsets":[24,24]},"scalar":{"dtype":"U8","shape":[],"data_offsets":[24,25]}}`
	c, err := Open(write(t, t.TempDir(), "m.safetensors", file(header, 25)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	name := arch.Join("b", "a", "b")
	if info, _ := c.Info(name); info.Name != name || !slices.Equal(info.Shape, []int64{6, 3}) || info.Size != 18 ||
		info.Stored != "U8" {
		t.Errorf("b, a, b are %+v", info)
	}
	r, err := c.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	want := "\x06\x07\x08\x09\x0a\x0b\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"
	if got, err := io.ReadAll(r); err != nil || string(got) != want {
		t.Errorf("b, a, b hold %q, %v; want %q", got, err, want)
	}
	if info, _ := c.Info("a"); !slices.Equal(info.Shape, []int64{2, 3}) {
		t.Errorf("joining changed a to %+v", info)
	}
	for _, other := range []string{"wide", "signed", "none", "scalar", "missing", ""} {
		for _, name := range []string{arch.Join("a", other), arch.Join(other, "a"), arch.Join(other, other)} {
			if info, ok := c.Info(name); ok && other != "wide" && other != "signed" ||
				ok && name != arch.Join(other, other) {
				t.Errorf("%q is %+v", name, info)
			}
		}
	}
}
