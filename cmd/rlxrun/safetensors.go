package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"os"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// CodeSafetensors is reported for an input tensor in a safetensors file that cannot be had.
var CodeSafetensors = code.InputTensor

const maxSafetensorsHeader = 100_000_000 // bytes, the limit of the reference reader

// readSafetensors reads one tensor of a safetensors file. It is the runtime's own small reader: the compiler's, which checks
// whole checkpoints, is not part of rlxrun.
func readSafetensors(ctx context.Context, path, key string) (tensor.Tensor, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return tensor.Tensor{}, diag.New(CodeSafetensors, path, "is not a regular file")
	}
	f, err := ctxio.Open(ctx, path)
	if err != nil {
		return tensor.Tensor{}, diag.New(CodeSafetensors, path, "cannot be opened: %w", unpath(err))
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return tensor.Tensor{}, diag.New(CodeSafetensors, path, "cannot be examined: %w", unpath(err))
	}
	t, err := oneSafetensor(f, st.Size(), key)
	if err != nil {
		return tensor.Tensor{}, diag.New(CodeSafetensors, path, "%w", err)
	}
	return t, nil
}

// oneSafetensor reads the tensor key from a file of the given size. Nothing is allocated before its size has been
// compared with the file's.
func oneSafetensor(r io.ReaderAt, size int64, key string) (t tensor.Tensor, err error) {
	var head [8]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return t, fmt.Errorf("is shorter than 8 bytes")
	}
	n := binary.LittleEndian.Uint64(head[:])
	if n > maxSafetensorsHeader || int64(n) > size-8 {
		return t, fmt.Errorf("has a header of %d bytes in a file of %d", n, size)
	}
	header := make([]byte, n)
	if _, err := r.ReadAt(header, 8); err != nil && err != io.EOF {
		return t, fmt.Errorf("cannot be read: %w", err)
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(header, &all); err != nil {
		return t, fmt.Errorf("header is not JSON: %w", err)
	}
	delete(all, "__metadata__")
	raw, ok := all[key]
	if !ok {
		return t, fmt.Errorf("has no tensor %q; it has %s", key, someOf(all))
	}
	var e struct {
		DType   string  `json:"dtype"`
		Shape   []int64 `json:"shape"`
		Offsets []int64 `json:"data_offsets"`
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil || len(e.Offsets) != 2 {
		return t, fmt.Errorf("entry of tensor %q is malformed", key)
	}
	if t.DType, ok = dtype.Parse(strings.ToLower(e.DType)); !ok {
		return t, fmt.Errorf("tensor %q has element type %q; allowed are F64, F32, F16, BF16, I64, I32, I16, I8, U32, U8 and BOOL", key, e.DType)
	}
	data := size - 8 - int64(n)
	begin, end := e.Offsets[0], e.Offsets[1]
	if begin < 0 || end < begin || end > data {
		return t, fmt.Errorf("tensor %q lies at %d to %d of %d bytes", key, begin, end, data)
	}
	want := uint64(t.DType.Size())
	for _, d := range e.Shape {
		hi, lo := bits.Mul64(want, uint64(d))
		if d < 0 || hi != 0 || lo > 1<<62 {
			return t, fmt.Errorf("tensor %q has the impossible shape %v", key, e.Shape)
		}
		want = lo
		t.Shape = append(t.Shape, int(d))
	}
	if want != uint64(end-begin) {
		return t, fmt.Errorf("tensor %q has %d bytes; shape %v of %s takes %d", key, end-begin, e.Shape, t.DType, want)
	}
	t.Data = tensor.AlignedBytes(int(want))
	if _, err := r.ReadAt(t.Data, 8+int64(n)+begin); err != nil && !(err == io.EOF && want == 0) {
		return t, fmt.Errorf("tensor %q cannot be read: %w", key, err)
	}
	return t, nil
}

// someOf lists a few of the names.
func someOf(all map[string]json.RawMessage) string {
	names := make([]string, 0, len(all))
	for k := range all {
		names = append(names, k)
	}
	slices.Sort(names)
	if len(names) > 8 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:8], ", "), len(names)-8)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
