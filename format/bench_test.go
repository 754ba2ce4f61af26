package format

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
)

// benchWeights are of the size of ViT-B's: 375 MB in 178 tensors, most of them large.
func benchWeights() []Weight {
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 31)
	}
	var ws []Weight
	for i := range 178 {
		t := ir.TypeOf(1, 528, 1000) // f32: 2.1 MB
		ws = append(ws, Weight{"w" + string(rune('a'+i%26)) + string(rune('a'+i/26)), t, func(w io.Writer) error {
			for left := t.Bytes(nil); left > 0; {
				n, err := w.Write(block[:min(left, int64(len(block)))])
				if err != nil {
					return err
				}
				left -= int64(n)
			}
			return nil
		}})
	}
	return ws
}

func benchArtifact(b *testing.B) (Artifact, []Weight) {
	ws := append(testWeights(), benchWeights()...)
	dir, err := Layout(ws)
	if err != nil {
		b.Fatal(err)
	}
	return Artifact{Programs: nil, Meta: Meta{}}, func() []Weight { _ = dir; return ws }()
}

func BenchmarkWrite(b *testing.B) {
	a, ws := benchArtifact(b)
	path := filepath.Join(b.TempDir(), "b.rlx")
	for b.Loop() {
		info, err := Write(context.Background(), path, a, ws)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(info.Size)
	}
}

func BenchmarkOpen(b *testing.B) {
	a, ws := benchArtifact(b)
	path := filepath.Join(b.TempDir(), "b.rlx")
	info, err := Write(context.Background(), path, a, ws)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size)
	for b.Loop() {
		v, err := Open(path, Policy{})
		if err != nil {
			b.Fatal(err)
		}
		v.Close()
	}
}

// BenchmarkCopy is what Write is compared with: cp of the same bytes.
func BenchmarkCopy(b *testing.B) {
	a, ws := benchArtifact(b)
	path := filepath.Join(b.TempDir(), "b.rlx")
	info, err := Write(context.Background(), path, a, ws)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size)
	for b.Loop() {
		in, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		out, err := os.Create(path + ".copy")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(struct{ io.Writer }{out}, in); err != nil {
			b.Fatal(err)
		}
		in.Close()
		out.Close()
		os.Remove(path + ".copy")
	}
}
