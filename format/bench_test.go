package format

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// benchWeights returns weights of the size of ViT-B's: 375 MB in 178 tensors, most of them large.
func benchWeights() []Weight {
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 31)
	}
	var ws []Weight
	for i := range 178 {
		t := ir.TypeOf(dtype.F32, 528, 1000) // 2.1 MB
		ws = append(
			ws, Weight{Name: "w" + string(rune('a'+i%26)) + string(rune('a'+i/26)), Type: t,
				Write: func(w io.Writer) error {
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

// BenchmarkVerify reads only structure: 4000 nodes with names, attributes and a symbol, about as many as SAM's methods
// have.
func BenchmarkVerify(b *testing.B) {
	text := "graph f\nsym N = 1..64\nx0 = input : f32[N,64]\n"
	for i := range 1000 {
		text += fmt.Sprintf(
			"m%d = matmul x%d, x%d {trans_b=true} : f32[N,N]\ns%d = softmax m%d {axis=1} : f32[N,N]\np%d = matmul s%d, x%d : f32[N,64]\nx%d = add p%d, x%d : f32[N,64]\n",
			i, i, i, i, i, i, i, i, i+1, i, i)
	}
	dir, err := Layout(nil)
	if err != nil {
		b.Fatal(err)
	}
	path := benchPath(b)
	if _, err := Write(context.Background(), path,
		Artifact{Programs: []*program.Program{build(b, text+"return y=x1000\n", "cpu", dir)}}, nil); err != nil {
		b.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := verifyBytes(file); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCopy is the baseline for Write: copying the same bytes with cp.
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
