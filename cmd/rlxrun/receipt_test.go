package main

import (
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/npy"
	"github.com/rlx-go/rlx/internal/receipt"
)

// TestNear compares results of two devices: tensors by the largest element, masks by their IoU.
func TestNear(t *testing.T) {
	dir := t.TempDir()
	result := func(name string, write func(io.Writer) error) receipt.Result {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := write(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		x, err := digestFile(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return receipt.Result{Name: name, Path: path, Bytes: x.Bytes, SHA256: x.SHA256}
	}
	floats := func(name string, v ...float32) receipt.Result {
		return result(name, func(w io.Writer) error {
			return npy.Write(w, tensor.Tensor{DType: dtype.F32, Shape: []int{len(v)}, Data: tensor.Bytes(v)})
		})
	}
	square := func(name string, side int, inside uint8) receipt.Result {
		m := image.NewGray(image.Rect(0, 0, 40, 40))
		for i := range m.Pix {
			if i%40 < 20 && i/40 < side {
				m.Pix[i] = inside
			}
		}
		return result(name, func(w io.Writer) error { return png.Encode(w, m) })
	}
	was, gone := floats("a.npy", 100, 1), floats("gone.npy", 1, 2)
	if err := os.WriteFile(gone.Path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		was, is receipt.Result
		want    string // of the text, or of the error
	}{
		"near":           {was, floats("b.npy", 100.05, 0.95), "differs by at most 0.05"},
		"far":            {was, floats("c.npy", 100, 1.2), "error: 1 of 2 elements differs"},
		"another shape":  {was, floats("d.npy", 100, 1, 2), "error: its type is"},
		"overwritten":    {gone, was, "error: the file is no longer the result"},
		"near masks":     {square("a.png", 20, 255), square("b.png", 20, 255), "the IoU is 1.0000"},
		"far masks":      {square("c.png", 20, 255), square("d.png", 19, 255), "error: the IoU is 0.9500"},
		"no mask at all": {square("e.png", 20, 255), square("f.png", 0, 255), "error: the IoU is 0.0000"},
		"other pictures": {square("g.png", 20, 100), square("h.png", 19, 100), "error: the share of equal pixels"},
		"another kind":   {receipt.Result{Path: "x.txt"}, was, "error: only tensors in .npy"},
		"without a file": {receipt.Result{Path: filepath.Join(dir, "none.npy")}, was,
			"error: the result of the first run"},
	} {
		about, err := (&verifyReceiptFlags{tolerance: defaultReceiptTolerance}).near(t.Context(), c.was, c.is)
		if err != nil {
			about = "error: " + err.Error()
		}
		if !strings.Contains(about, c.want) {
			t.Errorf("%s: %q; want %q", name, about, c.want)
		}
	}
}

// TestMoved replaces the paths of files in flags.
func TestMoved(t *testing.T) {
	for _, c := range [][2]string{{"a/x.npy", "NEW"}, {"in=@a/x.npy", "in=@NEW"}, {"in=@a/x.npy:key", "in=@NEW:key"},
		{"in=@a/x.npyz", "in=@a/x.npyz"}, {"a/x.npy2", "a/x.npy2"}, {"@a/x.npy", "@a/x.npy"},
		{"text a/x.npy", "text a/x.npy"}} {
		if got := moved(c[0], "a/x.npy", "NEW"); got != c[1] {
			t.Errorf("%q becomes %q; want %q", c[0], got, c[1])
		}
	}
}
