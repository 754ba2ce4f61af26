package main

import (
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/npy"
)

var testOffers = []offer{{name: "mask", pictures: []string{"0", "1"}}, {name: "overlay", pictures: []string{""}},
	{name: "iou"}}

func TestParseSinks(t *testing.T) {
	sinks, err := parseSinks([]string{"a/m.png", "overlay=o.PNG", "iou=-", "iou=q.npy"}, testOffers, "mask")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range sinks {
		got = append(got, s.offer.name+":"+strings.Join(s.paths(), ","))
	}
	if want := []string{"mask:a/m.0.png,a/m.1.png", "overlay:o.PNG", "iou:", "iou:q.npy"}; !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
	for arg, text := range map[string]string{
		"m.jpg":     "ends in .png",
		"iou=m.png": ".npy, .npz and .txt",
		"what=x":    `no output "what"; outputs are mask, overlay, iou`,
		"iou=":      "name is missing",
		"mask=-":    "2 images cannot go to stdout together",
	} {
		_, err := parseSinks([]string{arg}, testOffers, "mask")
		wantError(t, arg, err, diag.Usage, text)
	}
	_, err = parseSinks([]string{"x.npy"}, testOffers, "")
	wantError(t, "no primary", err, diag.Usage, "does not name an output", "-o mask=x.npy")
}

func TestCheckSinks(t *testing.T) {
	dir := t.TempDir()
	artifact := filepath.Join(dir, "a.rlx")
	if err := os.WriteFile(artifact, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	at := func(name string) []sink { return []sink{{offer{name: "iou"}, filepath.Join(dir, name)}} }
	if err := checkSinks(t.Context(), at("q.npy"), []string{filepath.Join(dir, "t.json")}, artifact); err != nil {
		t.Error(err)
	}
	wantError(t, "missing directory", checkSinks(t.Context(), at("no/q.npy"), nil, artifact), code.Output, "q.npy")
	wantError(t, "twice", checkSinks(t.Context(), slices.Concat(at("q.npy"), at("./q.npy")), nil, artifact), diag.Usage,
		"two outputs")
	wantError(t, "artifact", checkSinks(t.Context(), at("a.rlx"), nil, artifact), diag.Usage, "the artifact itself")
	wantError(t, "directory", checkSinks(t.Context(), at(""), nil, artifact), code.Output, "is a directory")
	onlyFiles(t, dir, "a.rlx")
}

func onlyFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("files are %q; want %q", got, want)
	}
}

// TestWriteAllOrNothing checks that no output is written if one cannot be written.
func TestWriteAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	env := &cli.Env{Stdout: &out}
	one := tensor.New(dtype.F32, 2, 2)
	copy(tensor.View[float32](one.Data), []float32{1, 0.5, -3e-9, float32(math.NaN())})
	img := image.NewGray(image.Rect(0, 0, 3, 2))
	img.Pix[4] = 255
	products := map[string]product{"iou": {tensor: one}, "mask": {image: func(int) image.Image { return img }}}
	sinks := []sink{{testOffers[2], filepath.Join(dir, "q.npy")}, {testOffers[0], filepath.Join(dir, "m.png")},
		{testOffers[2], "-"}}

	var bad files
	err := writeAll(t.Context(), env, append(slices.Clone(sinks), sink{testOffers[2], "/dev/full"}), products, &bad)
	bad.abort()
	if err == nil || !errors.Is(err, code.DiskFull) || out.Len() > 0 {
		t.Errorf("full disk: %v, stdout %q", err, out.String())
	}
	onlyFiles(t, dir)

	var w files
	if err := writeAll(t.Context(), env, sinks, products, &w); err != nil {
		t.Fatal(err)
	}
	w.abort()
	onlyFiles(t, dir, "m.0.png", "m.1.png", "q.npy")
	if want := "1 0.5\n-3e-09 NaN\n"; out.String() != want {
		t.Errorf("stdout %q; want %q", out.String(), want)
	}
	back, err := npy.ReadFile(t.Context(), filepath.Join(dir, "q.npy"), nil)
	if err != nil || !slices.Equal(back.Data, one.Data) {
		t.Errorf("q.npy: %v, %v", back, err)
	}
	f, err := os.Open(filepath.Join(dir, "m.1.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	decoded, err := png.Decode(f)
	if err != nil || !slices.Equal(decoded.(*image.Gray).Pix, img.Pix) {
		t.Errorf("m.1.png: %v, %v", decoded, err)
	}
}

func TestWriteText(t *testing.T) {
	ints := tensor.New(dtype.I64, 2, 1, 3)
	for i := range 6 {
		tensor.View[int64](ints.Data)[i] = int64(i) - 3
	}
	half := tensor.New(dtype.F16, 2)
	half.Data[1], half.Data[3] = 0x3c, 0xc0 // 1 and -2 as float16
	scalar := tensor.New(dtype.F64)
	tensor.View[float64](scalar.Data)[0] = 0.1
	for _, c := range []struct {
		t    tensor.Tensor
		want string
		json string
	}{
		{ints, "-3 -2 -1\n\n0 1 2\n", "[[[-3 -2 -1]] [[0 1 2]]]"},
		{half, "1 -2\n", "[1 -2]"},
		{scalar, "0.1\n", "0.1"},
		{tensor.New(dtype.F32, 0, 3), "", "[]"},
	} {
		var b strings.Builder
		if err := writeText(&b, c.t); err != nil || b.String() != c.want {
			t.Errorf("%v%v: %q, %v; want %q", c.t.DType, c.t.Shape, b.String(), err, c.want)
		}
		if got := fmt.Sprint(nested(c.t)); got != c.json {
			t.Errorf("%v%v nested: %s; want %s", c.t.DType, c.t.Shape, got, c.json)
		}
	}
	if err := writeText(failing{}, ints); err == nil {
		t.Error("no error from a writer that fails")
	}
}

// TestWriteTextChunks checks that rows and matrices may be longer than the chunks in which text is formatted.
func TestWriteTextChunks(t *testing.T) {
	for _, shape := range [][]int{{2*textChunk + 1}, {2, textChunk/3 + 1, 5}, {textChunk, 1, 3}, {1, textChunk}} {
		x := tensor.New(dtype.I32, shape...)
		var want strings.Builder
		for i := range tensor.View[int32](x.Data) {
			tensor.View[int32](x.Data)[i] = int32(i)
			row, col := i/shape[len(shape)-1], i%shape[len(shape)-1]
			if col > 0 {
				want.WriteString(" ")
			} else if i > 0 {
				want.WriteString("\n")
				if len(shape) > 1 && row%shape[len(shape)-2] == 0 {
					want.WriteString("\n")
				}
			}
			fmt.Fprint(&want, i)
		}
		var got strings.Builder
		if err := writeText(&got, x); err != nil || got.String() != want.String()+"\n" {
			t.Errorf("%v: %v, %d bytes; want %d", shape, err, got.Len(), want.Len()+1)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
