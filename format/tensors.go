package format

import (
	"fmt"
	"io"
	"math"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// Weight is a tensor to write to an artifact.
type Weight struct {
	Name string
	Type ir.Type // must be static
	// Mutable is set if a session may replace the weight: no constant of a program was computed from its values.
	Mutable bool
	// Write writes the tensor: dense, row-major, little-endian, exactly as many bytes as Type has. It is called once.
	Write func(w io.Writer) error
}

// Tensor is an entry of the weight directory.
type Tensor struct {
	Name         string
	Type         ir.Type // always static
	Offset, Size int64   // in bytes, in the weights section
	Mutable      bool    // see Weight.Mutable
}

// Attachment reports whether the type is u8[n], the type of an attachment: the bytes of a file.
func (t *Tensor) Attachment() bool { return t.Type.DType == dtype.U8 && t.Type.Rank() == 1 }

// Directory lists the weights by offset.
type Directory struct {
	tensors []Tensor
	byName  map[string]int
	size    int64
}

// Layout assigns offsets to weights in the given order: each at the next multiple of 256 bytes, or of 16 KiB for
// weights of 1 MiB or more. Errors are *diag.Error with code.ArtifactSource.
func Layout(weights []Weight) (*Directory, error) {
	d := &Directory{byName: map[string]int{}}
	if len(weights) > MaxWeights {
		return nil, diag.New(code.ArtifactSource, "", "%d weights; at most %d", len(weights), MaxWeights)
	}
	for _, w := range weights {
		size, err := tensorBytes(w.Type)
		if err == nil {
			err = ir.CheckName(w.Name)
		}
		if err != nil {
			return nil, diag.New(code.ArtifactSource, w.Name, "%w", err)
		}
		if _, dup := d.byName[w.Name]; dup {
			return nil, diag.New(code.ArtifactSource, w.Name, "two weights have this name")
		}
		d.add(Tensor{w.Name, w.Type, nextOffset(d.size, size), size, w.Mutable})
		if d.size > MaxFileSize {
			return nil, diag.New(code.ArtifactSource, w.Name, "the weights up to this one have %d bytes; at most %d",
				d.size, int64(MaxFileSize))
		}
	}
	return d, nil
}

func (d *Directory) add(t Tensor) {
	d.byName[t.Name] = len(d.tensors)
	d.tensors = append(d.tensors, t)
	d.size = t.Offset + t.Size
}

// nextOffset returns the offset of a tensor of size bytes if the one before it ends at end.
func nextOffset(end, size int64) int64 {
	if size >= LargeTensor {
		return alignUp(end, LargeAlign)
	}
	return alignUp(end, TensorAlign)
}

// tensorBytes returns the size in bytes of a weight of type t, which must be static and within the limits. An empty
// weight has 0 bytes.
func tensorBytes(t ir.Type) (int64, error) {
	if err := ir.Syms(nil).CheckType(t); err != nil {
		return 0, err
	}
	n := t.Bytes(nil)
	if n < 0 || n > MaxTensorBytes {
		return 0, fmt.Errorf("%v has %d bytes; a weight has at most %d", t, n, int64(MaxTensorBytes))
	}
	return n, nil
}

// Tensors returns the entries by offset. Do not change the slice.
func (d *Directory) Tensors() []Tensor { return d.tensors }

// Size returns the size of the weights section in bytes.
func (d *Directory) Size() int64 { return d.size }

// Find returns the entry of that name.
func (d *Directory) Find(name string) (Tensor, bool) {
	i, ok := d.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return d.tensors[i], true
}

// Offset returns the offset of the weight of that name in the weights section, in bytes.
func (d *Directory) Offset(name string) (int64, bool) {
	t, ok := d.Find(name)
	return t.Offset, ok
}

// rawTensor is an entry as stored in TNSR.
type rawTensor struct {
	at           int64
	name, quant  string // quant: the quantization scheme, "" for none
	typ          rawType
	offset, size int64
}

func (t *rawTensor) encode(e *encoder) {
	e.object(6)
	e.keyStr("dtype", string(t.typ.dtype))
	e.keyStr("name", t.name)
	e.keyInt("offset", t.offset)
	e.keyStr("quant", t.quant)
	e.key("shape")
	encodeShape(e, t.typ.shape)
	e.keyInt("size", t.size)
}

func decodeTensor(d *decoder) (t rawTensor) {
	t.at = d.at()
	d.object(6, "weight")
	t.typ.dtype = rawDType(d.keyWord("dtype", MaxName))
	t.name = d.keyStr("name", MaxName)
	t.offset = d.keyInt("offset", 0, math.MaxInt64)
	t.quant = d.keyWord("quant", MaxName)
	d.key("shape")
	t.typ.shape = decodeShape(d)
	t.size = d.keyInt("size", 0, math.MaxInt64)
	return t
}

// unsupportedDTypes are names of sub-byte and block element types that a later version may support. They are reserved,
// so that such a file is reported as unsupported and not as damaged.
var unsupportedDTypes = []rawDType{"u1", "i2", "u2", "i4", "u4", "f4", "q1_0", "q2_0", "tq1_0", "tq2_0", "iq1_s",
	"iq1_m", "iq2_xxs", "iq2_xs", "iq2_s",
	"iq3_xxs", "iq3_s", "nvfp4"}

func (r rawDType) parse() (dtype.DType, bool) { return dtype.Parse(string(r)) }
