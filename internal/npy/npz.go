package npy

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/regular"
)

// maxDirectory bounds the list of arrays in a .npz file, in bytes: archive/zip reads it as a whole.
const maxDirectory = 1 << 20

// ReadArchive reads the array called key from the .npz file path, in which numpy.savez or numpy.savez_compressed has
// put some. An empty key is the only array of a file. ctx ends reading. accept is as for ReadFile.
func ReadArchive(ctx context.Context, path, key string, accept func(dtype.DType, []int) error) (tensor.Tensor,
	error) {
	f, st, err := regular.Open(path)
	if err != nil {
		return tensor.Tensor{}, diag.New(CodeRead, path, "%w", err)
	}
	defer f.Close()
	return readArchive(ctx, path, f, st.Size(), key, accept)
}

func readArchive(ctx context.Context, path string, f io.ReaderAt, size int64, key string,
	accept func(dtype.DType, []int) error) (tensor.Tensor, error) {
	wrong := func(format string, args ...any) (tensor.Tensor, error) {
		return tensor.Tensor{}, diag.New(CodeFormat, path, format, args...)
	}
	if err := checkDirectory(f, size); err != nil {
		return wrong("%w", err)
	}
	z, err := zip.NewReader(f, size)
	if err != nil {
		return wrong("is not a .npz file: %w", err)
	}
	var names []string
	var found *zip.File
	for _, e := range z.File {
		name, ok := strings.CutSuffix(e.Name, ".npy")
		if !ok {
			continue
		}
		names = append(names, name)
		if found == nil && (name == key || key == "") {
			found = e
		}
	}
	if key == "" && len(names) > 1 {
		return wrong("has the arrays %.200q; add which one: @FILE.npz:NAME", names)
	}
	if found == nil {
		return wrong("has no array %.40q; it has %.200q", key, names)
	}
	r, err := found.Open()
	if err != nil {
		return wrong("array %.40q: %w", key, err)
	}
	defer r.Close()
	return Read(path+":"+strings.TrimSuffix(found.Name, ".npy"), ctxio.NewReader(ctx, r), accept)
}

// checkDirectory checks the record at the end of a zip file, which says how large the directory before it is.
func checkDirectory(f io.ReaderAt, size int64) error {
	const record = 22 // bytes, before a comment of at most 64 KiB
	tail := make([]byte, min(size, record+math.MaxUint16))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && err != io.EOF {
		return err
	}
	at := bytes.LastIndex(tail, []byte("PK\x05\x06"))
	if at < 0 || len(tail)-at < record {
		return bad("is not a .npz file: no zip directory is at its end")
	}
	end := tail[at:]
	entries, length, offset := binary.LittleEndian.Uint16(end[10:]), binary.LittleEndian.Uint32(end[12:]),
		binary.LittleEndian.Uint32(end[16:])
	if entries == math.MaxUint16 || length == math.MaxUint32 || offset == math.MaxUint32 {
		return bad("has more than 4 GiB or 65534 arrays; save each array with numpy.save")
	}
	if length > maxDirectory {
		return bad("has a directory of %d bytes; the limit is %d", length, maxDirectory)
	}
	return nil
}

// WriteArchive writes a .npz file with one array, which is not compressed.
func WriteArchive(w io.Writer, name string, t tensor.Tensor) error {
	z := zip.NewWriter(w)
	e, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy"}) // stored, without a time
	if err == nil {
		err = Write(e, t)
	}
	if err != nil {
		return err
	}
	return z.Close()
}
