package onnx

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// MaxBytes bounds the size of a .onnx file: protobuf messages are smaller. Larger models keep their weights in files
// beside it.
const MaxBytes = 1<<31 - 1

// File is an open .onnx file.
type File struct {
	path     string
	proto    *onnxpb.ModelProto
	size     int64
	data     io.ReaderAt                  // of the file
	inline   map[*onnxpb.TensorProto]span // tensors whose bytes are in data
	open     *os.File                     // data, nil for Decode
	external map[string]*os.File
	funcs    map[string]*onnxpb.FunctionProto
}

// Open opens a .onnx file, which must not change until it is closed: the bytes of large tensors are read when they are
// needed. Files with external data are opened when a tensor is in them. Close closes all.
func Open(path string) (*File, error) {
	f := &File{path: path, external: map[string]*os.File{}}
	file, info, err := regular.Open(path)
	switch {
	case err != nil:
		return nil, f.errorf("cannot be read: %w", err)
	case info.Size() > MaxBytes:
		file.Close()
		return nil, f.errorf("has %d bytes; allowed are up to %d", info.Size(), MaxBytes).WithHint(
			"keep the weights in a file beside it: onnx.save(..., save_as_external_data=True)")
	}
	f.open = file
	if err := f.parse(file, info.Size()); err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

// Decode parses the bytes of a .onnx file. path is for errors and for external data.
func Decode(path string, text []byte) (*File, error) {
	f := &File{path: path, external: map[string]*os.File{}}
	return f, f.parse(bytes.NewReader(text), int64(len(text)))
}

func (f *File) parse(r io.ReaderAt, size int64) (err error) {
	f.data, f.size = r, size
	// Subgraphs are nested messages, whose depth readModel bounds.
	if f.proto, f.inline, err = readModel(r, size); err != nil {
		return f.errorf("is not an ONNX model: %w", err)
	}
	switch v := f.proto.GetIrVersion(); {
	case f.proto.GetGraph() == nil:
		return f.errorf("is not an ONNX model: it has no graph")
	case v < 3:
		return f.errorf("has IR version %d; allowed are 3 and later", v).WithHint(
			"convert it with onnx.version_converter, or export the model again")
	case len(f.proto.GetOpsetImport()) == 0:
		return f.errorf("does not say which version of the ops it has (opset_import)")
	}
	return nil
}

// Size returns the number of bytes of the file, without external data.
func (f *File) Size() int64 { return f.size }

// Digest returns the SHA-256 of the file, without external data.
func (f *File) Digest() (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f.data, 0, f.size)); err != nil {
		return sum, f.errorf("cannot be read: %w", err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// InMemory returns the number of bytes of the file that are kept in memory: those that are not of large tensors.
func (f *File) InMemory() int64 {
	n := f.size
	for _, s := range f.inline {
		n -= s.length
	}
	return n
}

// Close closes the file and those with external data.
func (f *File) Close() {
	if f.open != nil {
		f.open.Close()
	}
	for _, x := range f.external {
		x.Close()
	}
}

// elementTypes are the types of ONNX that have a type here. Some are stored in a wider one.
var elementTypes = map[int32]dtype.DType{
	int32(onnxpb.TensorProto_FLOAT): dtype.F32, int32(onnxpb.TensorProto_UINT8): dtype.U8,
	int32(onnxpb.TensorProto_INT8): dtype.I8, int32(onnxpb.TensorProto_UINT16): dtype.I32,
	int32(onnxpb.TensorProto_INT16): dtype.I16, int32(onnxpb.TensorProto_INT32): dtype.I32,
	int32(onnxpb.TensorProto_INT64): dtype.I64, int32(onnxpb.TensorProto_BOOL): dtype.Bool,
	int32(onnxpb.TensorProto_FLOAT16): dtype.F16, int32(onnxpb.TensorProto_DOUBLE): dtype.F64,
	int32(onnxpb.TensorProto_UINT32): dtype.U32, int32(onnxpb.TensorProto_UINT64): dtype.I64,
	int32(onnxpb.TensorProto_BFLOAT16): dtype.BF16, int32(onnxpb.TensorProto_INT4): dtype.I8,
	int32(onnxpb.TensorProto_UINT4): dtype.U8, int32(onnxpb.TensorProto_INT2): dtype.I8,
	int32(onnxpb.TensorProto_UINT2): dtype.U8, int32(onnxpb.TensorProto_FLOAT8E4M3FN): dtype.U8,
	int32(onnxpb.TensorProto_FLOAT8E4M3FNUZ): dtype.U8, int32(onnxpb.TensorProto_FLOAT8E5M2): dtype.U8,
	int32(onnxpb.TensorProto_FLOAT8E5M2FNUZ): dtype.U8, int32(onnxpb.TensorProto_FLOAT8E8M0): dtype.U8,
	int32(onnxpb.TensorProto_FLOAT4E2M1): dtype.U8,
}

// typeName returns the name that ONNX gives an element type.
func typeName(t int32) string {
	if s, ok := onnxpb.TensorProto_DataType_name[t]; ok {
		return strings.ToLower(s)
	}
	return "type " + strconv.Itoa(int(t))
}

// initializer is a tensor of the file. Its bytes are read when they are needed.
type initializer struct {
	f    *File
	p    *onnxpb.TensorProto
	typ  ir.Type
	made *tensor.Tensor // instead of f and p, for values that the import computed
}

// newInitializer checks the type and the shape of a tensor.
func (f *File) newInitializer(p *onnxpb.TensorProto) (*initializer, error) {
	about := "tensor " + strconv.Quote(p.GetName())
	d, ok := elementTypes[p.GetDataType()]
	if !ok {
		return nil, f.errorf("%s has elements of %s, which is not supported", about, typeName(p.GetDataType()))
	}
	if len(p.GetDims()) > ir.MaxRank {
		return nil, f.errorf("%s has rank %d; allowed are ranks up to %d", about, len(p.GetDims()), ir.MaxRank)
	}
	n := int64(1)
	for _, k := range p.GetDims() {
		if k < 0 || k > ir.MaxDim || n*max(k, 1) > ir.MaxElems {
			return nil, f.errorf("%s has shape %v, which is too large", about, p.GetDims())
		}
		n *= max(k, 1)
	}
	if p.GetSegment() != nil {
		return nil, f.errorf("%s is in segments, which no exporter writes", about)
	}
	return &initializer{f: f, p: p, typ: ir.TypeOf(d, p.GetDims()...)}, nil
}

// read returns the value.
func (x *initializer) read() (tensor.Tensor, error) {
	if x.made != nil {
		return *x.made, nil
	}
	return x.f.decode(x.p, x.typ)
}

// raw returns the bytes of a tensor in its file form, from wherever they are.
func (f *File) raw(p *onnxpb.TensorProto, want int64) ([]byte, error) {
	about := "tensor " + strconv.Quote(p.GetName())
	if p.GetDataLocation() != onnxpb.TensorProto_EXTERNAL {
		if s, ok := f.inline[p]; ok && s.length == want {
			b := tensor.AlignedBytes(int(want))
			if _, err := io.ReadFull(io.NewSectionReader(f.data, s.offset, s.length), b); err != nil {
				return nil, f.errorf("%s cannot be read: %w", about, err)
			}
			return b, nil
		} else if ok {
			return nil, f.errorf("%s has %d bytes; its type and shape %v take %d", about, s.length, p.GetDims(), want)
		}
		if int64(len(p.GetRawData())) != want {
			return nil, f.errorf("%s has %d bytes; its type and shape %v take %d", about, len(p.GetRawData()),
				p.GetDims(), want)
		}
		return p.GetRawData(), nil
	}
	var location string
	offset, length := int64(0), want
	for _, e := range p.GetExternalData() {
		var err error
		switch e.GetKey() {
		case "location":
			location = e.GetValue()
		case "offset":
			offset, err = strconv.ParseInt(e.GetValue(), 10, 64)
		case "length":
			length, err = strconv.ParseInt(e.GetValue(), 10, 64)
		}
		if err != nil {
			return nil, f.errorf("%s: external %s is %q; want a number", about, e.GetKey(), e.GetValue())
		}
	}
	if length != want {
		return nil, f.errorf("%s: external length is %d; its type and shape %v take %d", about, length, p.GetDims(),
			want)
	}
	file, err := f.beside(location)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, f.errorf("%s: %w", about, err)
	}
	if offset < 0 || length > info.Size() || offset > info.Size()-length {
		return nil, f.errorf("%s: external bytes %d to %d are outside %s, which has %d", about, offset, offset+length,
			location, info.Size())
	}
	b := tensor.AlignedBytes(int(length))
	if _, err := io.ReadFull(io.NewSectionReader(file, offset, length), b); err != nil {
		return nil, f.errorf("%s: %s cannot be read: %w", about, location, err)
	}
	return b, nil
}

// beside opens a file with external data. It must be a regular file in the folder of the model or below it.
func (f *File) beside(location string) (*os.File, error) {
	if x := f.external[location]; x != nil {
		return x, nil
	}
	if !filepath.IsLocal(location) || strings.ContainsAny(location, "\\\x00") {
		return nil, f.errorf("external data is at %q; allowed is a file in the folder of the model", location)
	}
	root, err := os.OpenRoot(filepath.Dir(f.path))
	if err != nil {
		return nil, f.errorf("its folder cannot be opened: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(filepath.FromSlash(location))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, f.errorf("external data %s is missing", location).WithHint("copy it beside the model")
	case err != nil:
		return nil, f.errorf("external data %s cannot be read: %w", location, err)
	case !info.Mode().IsRegular():
		return nil, f.errorf("external data %s is not a regular file", location)
	}
	x, err := root.Open(filepath.FromSlash(location))
	if err != nil {
		return nil, f.errorf("external data %s cannot be read: %w", location, err)
	}
	f.external[location] = x
	return x, nil
}
