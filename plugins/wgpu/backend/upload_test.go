//go:build cgo && (darwin || amd64)

package backend

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestUpload uploads an odd number of bytes, in chunks and across the ends of buffers. They arrive, and the bytes
// before and after them stay.
func TestUpload(t *testing.T) {
	b := New(Options{MaxBuffer: 10 << 20})
	load(t, b, sums(t, 1, 16), nil)
	const size, from = 29 << 20, 512
	s, err := b.NewState(t.Context(), "", size)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rng := rand.NewChaCha8([32]byte{1})
	want := make([]byte, size)
	for _, r := range []struct{ at, n int }{{0, size}, {from, 27<<20 + 5}, {28<<20 + 1, 3}, {28<<20 + 256, 0}} {
		data := make([]byte, r.n)
		rng.Read(data)
		copy(want[r.at:], data)
		if err := s.Write(t.Context(), int64(r.at), data); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, size)
	if err := s.Read(t.Context(), 0, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("bytes differ")
	}
}
