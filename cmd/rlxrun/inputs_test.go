package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/npy"
	"github.com/rlx-go/rlx/models/weights"
)

func TestReadInputs(t *testing.T) {
	m, err := tinySession(t, debugFlags{}).model.Method("decode")
	if err != nil {
		t.Fatal(err)
	}
	fits := func(int64) error { return nil }
	dir := t.TempDir()
	emb := tensor.New(dtype.F32, 1, 1, 8, 8)
	tensor.View[float32](emb.Data)[3] = 7
	file := filepath.Join(dir, "e.npy")
	if err := npy.WriteFile(t.Context(), file, emb); err != nil {
		t.Fatal(err)
	}
	wide := filepath.Join(dir, "w.npy")
	if err := npy.WriteFile(t.Context(), wide, tensor.New(dtype.F64, 1, 1, 2)); err != nil {
		t.Fatal(err)
	}
	in, err := readInputs(t.Context(), m, []string{"embeddings=@" + file, "points=1,2.5, 3,-4", "labels=1 -1"}, fits,
		nothing)
	if err != nil {
		t.Fatal(err)
	}
	if p := in["points"]; !slices.Equal(p.Shape, []int{1, 2, 2}) ||
		!slices.Equal(tensor.View[float32](p.Data), []float32{1, 2.5, 3, -4}) {
		t.Errorf("points %v", p)
	}
	if l := in["labels"]; !slices.Equal(l.Shape, []int{1, 2}) ||
		!slices.Equal(tensor.View[int32](l.Data), []int32{1, -1}) {
		t.Errorf("labels %v", l)
	}
	if tensor.View[float32](in["embeddings"].Data)[3] != 7 {
		t.Error("embeddings differ from the file")
	}
	syms, err := m.Sizes(in)
	if err != nil || syms["N"] != 2 || len(syms) != 1 {
		t.Errorf("sizes %v, %v; want N = 2", syms, err)
	}
	for _, c := range []struct {
		args []string
		code error
		text string
	}{
		{[]string{"points"}, diag.Usage, "is not NAME=VALUE"},
		{[]string{"point=1,2"}, diag.Usage,
			`no input "point"; its inputs are embeddings f32[1,1,8,8], points f32[1,N,2], labels i32[1,N]`},
		{[]string{"labels=1", "labels=1"}, diag.Usage, "twice"},
		{[]string{"labels=1"}, diag.Usage, `"embeddings" is not given`},
		{[]string{"points=1,2,3"}, diag.Usage, "multiple of 2"},
		{[]string{"points=1,2,1,2,1,2,1,2,1,2,1,2"}, diag.Usage, "N from 1 to 5"},
		{[]string{"points=1,x"}, diag.Usage, `"x" is not a number`},
		{[]string{"embeddings=e.npy"}, diag.Usage, "a file is named with an @: -i embeddings=@e.npy"},
		{[]string{"embeddings=g.safetensors:e"}, diag.Usage,
			"a file is named with an @: -i embeddings=@g.safetensors:e"},
		{[]string{"labels=1.5"}, diag.Usage, "is not an integer"},
		{[]string{"labels=3000000000"}, diag.Usage, "2147483647"},
		{[]string{"embeddings=1,2"}, diag.Usage, "it takes 64"},
		{[]string{"labels=@x.bin"}, diag.Usage, "allowed are @FILE.npy"},
		{[]string{"points=@" + wide}, device.ErrInput,
			"input points: is f64[1,1,2]; allowed is f32[1,N,2] with N from 1 to 5; save it as a.astype('float32')"},
		{[]string{"labels=@" + dir + "/none.npy"}, npy.CodeRead, "none.npy"},
		{[]string{"labels=@" + dir + "/none.safetensors:x"}, code.InputTensor, "no such file"},
	} {
		_, err := readInputs(t.Context(), m, c.args, fits, nothing)
		wantError(t, c.args[0], err, c.code, c.text)
	}
}

func anyTensor(dtype.DType, []int) error { return nil }

const goldens = "../../demo/golden.safetensors"

// TestSafetensorsAgrees checks that the readers of runtime and compiler agree on every tensor of a file that neither
// has written.
func TestSafetensorsAgrees(t *testing.T) {
	f, err := weights.Open(goldens)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names := 0
	for _, name := range f.Names() {
		got, err := readSafetensors(goldens, name, anyTensor)
		if err != nil {
			t.Fatal(err)
		}
		want, err := f.Bytes(name, got.DType) // converts if its own reading of the type differs
		if err != nil {
			t.Fatal(err)
		}
		info, _ := f.Info(name)
		if got.DType != info.DType || !bytes.Equal(got.Data, want) || len(got.Shape) != len(info.Shape) {
			t.Errorf("%s: %v%v and %d bytes; want %v%v", name, got.DType, got.Shape, len(got.Data), info.DType,
				info.Shape)
		}
		names++
	}
	if names == 0 {
		t.Error("no tensors compared")
	}
	_, err = readSafetensors(goldens, "nonsense", anyTensor)
	wantError(t, "unknown name", err, code.InputTensor, `no tensor "nonsense"; it has `)
}

// TestSafetensorsStrict checks that files which rlxc refuses are refused here as well: duplicate keys, holes, overlaps.
func TestSafetensorsStrict(t *testing.T) {
	dir := t.TempDir()
	const x, y = `"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`,
		`"y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}`
	for header, want := range map[string]string{
		"{" + x + "," + y + "}":                                       "",
		"{" + x + "," + strings.Replace(y, "y", "x", 1) + "}":         `key "x" twice`,
		"{" + x + "," + strings.Replace(y, "[4,8]", "[0,4]", 1) + "}": "overlap",
		"{" + strings.Replace(x, "[0,4]", "[4,8]", 1) + "}":           "hole",
		"{" + x + "}": "the file has 8 bytes of data",
	} {
		b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		file := filepath.Join(dir, "f.safetensors")
		if err := os.WriteFile(file, append(append(b, header...), 1, 2, 3, 4, 5, 6, 7, 8), 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := readSafetensors(file, "x", anyTensor)
		if want == "" {
			if err != nil || !bytes.Equal(got.Data, []byte{1, 2, 3, 4}) {
				t.Errorf("%s: %v, %v", header, got.Data, err)
			}
			continue
		}
		wantError(t, header, err, code.InputTensor, want)
	}
	for name, want := range map[string]string{dir: "a directory", filepath.Join(dir, "none"): "no such file"} {
		_, err := readSafetensors(name, "x", anyTensor)
		wantError(t, name, err, code.InputTensor, want)
	}
}

// nothing generates no inputs.
func nothing([]rlx.Value) (map[string]rlx.Tensor, error) { return nil, nil }
