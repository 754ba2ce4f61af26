package format

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
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
		t := ir.TypeOf(dtype.F32, 528, 1000) // 2.1 MB
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

func benchPath(b *testing.B) string { return filepath.Join(b.TempDir(), "b.rlx") }

func BenchmarkWrite(b *testing.B) {
	ws, path := benchWeights(), benchPath(b)
	for b.Loop() {
		info, err := Write(context.Background(), path, Artifact{}, ws)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(info.Size)
	}
}

func BenchmarkOpen(b *testing.B) {
	ws, path := benchWeights(), benchPath(b)
	info, err := Write(context.Background(), path, Artifact{}, ws)
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
	ws, path := benchWeights(), benchPath(b)
	info, err := Write(context.Background(), path, Artifact{}, ws)
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
