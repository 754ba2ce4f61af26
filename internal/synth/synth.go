// Package synth makes deterministic tensors and checkpoints from a formula, so that goldens need no stored weights and
// benchmarks no downloads. testdata/goldens/README.md describes the formula.
//
// It is for tests and benchmarks. It imports only core/dtype, core/tensor, internal/atomicfile and internal/npy.
package synth

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/internal/npy"
)

// Entry is one tensor of a manifest.
type Entry struct {
	Name  string  `json:"name"`
	Shape []int   `json:"shape"`
	Scale float64 `json:"scale"`
	Shift float64 `json:"shift"`
}

// fill computes the elements of the tensor called name into dst, starting at element first.
func fill(dst []float32, name string, first int, scale, shift float64) {
	h := fnv.New64a()
	io.WriteString(h, name)
	const step = 0x9E3779B97F4A7C15
	state := h.Sum64() + uint64(first)*step
	for i := range dst {
		state += step
		z := state
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		z ^= z >> 31
		u := float64(z>>40) / (1 << 24)
		dst[i] = float32(shift + float64(scale*(2*u-1))) // the conversion prevents fusing multiplication and addition
	}
}

// Tensor returns the tensor called name, row-major. Element i is shift + scale*(2u-1), where u in [0,1) is a hash of
// name and i.
func Tensor(name string, shape []int, scale, shift float64) []float32 {
	out := make([]float32, tensor.Numel(shape))
	fill(out, name, 0, scale, shift)
	return out
}

// WriteNpy writes the tensor of e as f32.
func WriteNpy(path string, e Entry) error {
	data := tensor.Bytes(Tensor(e.Name, e.Shape, e.Scale, e.Shift))
	return npy.WriteFile(context.Background(), path, tensor.Tensor{DType: dtype.F32, Shape: e.Shape, Data: data})
}

// ReadManifest reads a JSON list of entries.
func ReadManifest(path string) ([]Entry, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var es []Entry
	if err := json.Unmarshal(raw, &es); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return es, nil
}

// Write writes a safetensors checkpoint with the tensors of a manifest as element type d (f32, f16 or bf16, rounded
// once from f32), in ascending order of names. It holds only a small part of a tensor in memory.
func Write(path string, es []Entry, d dtype.DType) error {
	name := map[dtype.DType]string{dtype.F32: "F32", dtype.F16: "F16", dtype.BF16: "BF16"}[d]
	if name == "" {
		return fmt.Errorf("element type %s; allowed are f32, f16 and bf16", d)
	}
	es = slices.SortedFunc(slices.Values(es), func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return atomicfile.WriteFile(context.Background(), path, func(w io.Writer) error {
		h := header(es, name, d.Size())
		if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(h)))); err != nil {
			return err
		}
		if _, err := io.WriteString(w, h); err != nil {
			return err
		}
		vals, raw := make([]float32, 1<<16), make([]byte, 4<<16)
		for _, e := range es {
			n := tensor.Numel(e.Shape)
			for at := 0; at < n; {
				part := vals[:min(len(vals), n-at)]
				fill(part, e.Name, at, e.Scale, e.Shift)
				if _, err := w.Write(encode(raw, part, d)); err != nil {
					return err
				}
				at += len(part)
			}
		}
		return nil
	})
}

func header(es []Entry, dtypeName string, size int) string {
	var h strings.Builder
	h.WriteString("{")
	off := 0
	for i, e := range es {
		if i > 0 {
			h.WriteString(",")
		}
		end := off + tensor.Numel(e.Shape)*size
		key, _ := json.Marshal(e.Name)
		shape, _ := json.Marshal(append([]int{}, e.Shape...)) // a nil shape must also become []
		fmt.Fprintf(&h, `%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, key, dtypeName, shape, off, end)
		off = end
	}
	h.WriteString("}")
	for h.Len()%8 != 0 {
		h.WriteString(" ")
	}
	return h.String()
}

func encode(dst []byte, vals []float32, d dtype.DType) []byte {
	for i, v := range vals {
		switch d {
		case dtype.F32:
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		case dtype.F16:
			binary.LittleEndian.PutUint16(dst[2*i:], dtype.F32ToF16(v))
		case dtype.BF16:
			binary.LittleEndian.PutUint16(dst[2*i:], dtype.F32ToBF16(v))
		}
	}
	return dst[:len(vals)*d.Size()]
}
