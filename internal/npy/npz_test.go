package npy

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

// archive returns a zip file of arrays in the given compression.
func archive(t testing.TB, method uint16, arrays map[string]tensor.Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, x := range arrays {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err == nil {
			err = Write(w, x)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchives(t *testing.T) {
	x := tensor.Tensor{DType: dtype.U8, Shape: []int{3}, Data: []byte{1, 2, 3}}
	two := map[string]tensor.Tensor{"x.npy": x, "y.npy": x, "readme.txt": x}
	one := map[string]tensor.Tensor{"x.npy": x}
	var own bytes.Buffer
	if err := WriteArchive(&own, "x", x); err != nil {
		t.Fatal(err)
	}
	large := archive(t, zip.Store, one)
	binary.LittleEndian.PutUint32(large[len(large)-10:], maxDirectory+1)
	huge := archive(t, zip.Store, one)
	binary.LittleEndian.PutUint32(huge[len(huge)-6:], 1<<32-1)
	for _, c := range []struct {
		name, key, want string // want is a part of the error, or empty
		file            []byte
	}{
		{"stored", "x", "", archive(t, zip.Store, two)},
		{"compressed", "y", "", archive(t, zip.Deflate, two)},
		{"the only one", "", "", archive(t, zip.Deflate, one)},
		{"our own", "", "", own.Bytes()},
		{"no key", "", "add which one", archive(t, zip.Store, two)},
		{"another key", "z", `has no array "z"; it has ["x"`, archive(t, zip.Store, one)},
		{"not an array", "readme", "has no array", archive(t, zip.Store, two)},
		{"no zip", "x", "no zip directory", []byte("PK")},
		{"empty", "x", "no zip directory", nil},
		{"cut", "x", "no zip directory", own.Bytes()[:own.Len()-1]},
		{"a large directory", "x", "has a directory of", large},
		{"zip64", "x", "4 GiB", huge},
	} {
		path := filepath.Join(t.TempDir(), "a.npz")
		if err := os.WriteFile(path, c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadArchive(t.Context(), path, c.key, nil)
		switch {
		case c.want == "" && (err != nil || !bytes.Equal(got.Data, x.Data)):
			t.Errorf("%s: %v, %v", c.name, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
}

// FuzzReadArchive checks that no bytes make it panic.
func FuzzReadArchive(f *testing.F) {
	x := tensor.Tensor{DType: dtype.U8, Shape: []int{3}, Data: []byte{1, 2, 3}}
	f.Add(archive(f, zip.Store, map[string]tensor.Tensor{"x.npy": x}))
	f.Add(archive(f, zip.Deflate, map[string]tensor.Tensor{"x.npy": x}))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := readArchive(t.Context(), "f.npz", bytes.NewReader(b), int64(len(b)), "", nil)
		if err == nil && len(got.Data) != tensor.Numel(got.Shape)*got.DType.Size() {
			t.Errorf("shape %v with %d bytes", got.Shape, len(got.Data))
		}
	})
}
