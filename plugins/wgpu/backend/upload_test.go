//go:build cgo && (darwin || amd64)

package backend

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"
)

// TestUpload: what is uploaded in chunks, over the ends of buffers and of an odd length, is what the device has; bytes
// before and after stay, but for those that fill the last word.
func TestUpload(t *testing.T) {
	b := New(Options{MaxBuffer: 10 << 20})
	load(t, b, sums(t, 1, 16), nil)
	g, err := b.open("")
	if err != nil {
		t.Fatal(err)
	}
	defer keepCallbacks()()
	const size, from = 29 << 20, 512
	s := g.planSpace(size)
	if err := s.make(g, "the test"); err != nil {
		t.Fatal(err)
	}
	defer s.release()
	rng := rand.NewChaCha8([32]byte{1})
	want := make([]byte, size)
	u := &g.uploader
	for _, r := range []struct{ at, n int }{{0, size}, {from, 27<<20 + 5}, {28 << 20, 3}, {28<<20 + 256, 0}} {
		data := make([]byte, r.n)
		rng.Read(data)
		copy(want[r.at:], data)
		clear(want[r.at+r.n : (r.at+r.n+3)&^3])
		if err := u.write(s, int64(r.at), data); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.wait(); err != nil {
		t.Fatal(err)
	}
	at := int64(0)
	for _, p := range s.pieces(0, size, 0) {
		st, err := g.newStaging(wgpu.MapMode_Read, p.size)
		if err != nil {
			t.Fatal(err)
		}
		defer st.release()
		if err := g.commands(func(enc *wgpu.CommandEncoder) error {
			return enc.CopyBufferToBuffer(p.buffer, uint64(p.offset), st.buffer, 0, uint64(p.size))
		}); err != nil {
			t.Fatal(err)
		}
		if err := g.access(st, p.size, time.Time{}, func(got []byte) {
			if !bytes.Equal(got[:p.size], want[at:at+p.size]) {
				t.Errorf("%d bytes at %d of the space differ", p.size, at)
			}
		}); err != nil {
			t.Fatal(err)
		}
		at += p.size
	}
}
