package safetensors

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"io"
)

// DigestName is the name of the last tensor of a signed file, u8[32]: the SHA-256 of all bytes of the file before it.
// It reveals damage; it does not prove who wrote the file.
const DigestName = "rlx.sha256"

// An Item is a tensor to write.
type Item struct {
	Name  string
	DType string // as the format calls it: "F32"
	Shape []int
	Size  int64                    // in bytes
	Write func(to io.Writer) error // writes Size bytes
}

// WriteSigned writes a file with metadata and tensors in the given order, and at the end their digest. The data begin
// at a multiple of 8 bytes.
func WriteSigned(w io.Writer, meta map[string]string, items []Item) error {
	sum := sha256.New()
	digest := Item{DigestName, "U8", []int{sha256.Size}, sha256.Size, func(io.Writer) error { return nil }}
	if err := Write(io.MultiWriter(w, sum), meta, append(items[:len(items):len(items)], digest)); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// Write writes a file with metadata and tensors in the given order. The data begin at a multiple of 8 bytes.
func Write(w io.Writer, meta map[string]string, items []Item) error {
	type entry struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	header, at := map[string]any{"__metadata__": meta}, int64(0)
	for _, x := range items {
		shape := append([]int{}, x.Shape...) // a scalar has [], not null
		header[x.Name] = entry{x.DType, shape, [2]int64{at, at + x.Size}}
		at += x.Size
	}
	text, err := json.Marshal(header) // keys are sorted
	if err != nil {
		return err
	}
	text = append(text, bytes.Repeat([]byte(" "), -len(text)&7)...)
	if _, err := w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)); err != nil {
		return err
	}
	for _, x := range items {
		if err := x.Write(w); err != nil {
			return err
		}
	}
	return nil
}

// Signed divides the tensors of a signed file, as Parse returns them: those before the digest, and the offset of the
// digest. ok is false if the last tensor is not a digest.
func Signed(all []Tensor) (rest []Tensor, digest int64, ok bool) {
	n := len(all) - 1
	if n < 0 || all[n].Name != DigestName || all[n].Size != sha256.Size {
		return all, 0, false
	}
	return all[:n], all[n].Offset, true
}
