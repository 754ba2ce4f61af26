// Package gguf opens GGUF files as checkpoints in the form of the Transformers library: with its tensor names,
// configuration, tokenizer and chat template. Model families then have to know only that form.
//
// The format's llama files store the rows of q and k in another order, which this package undoes while it reads. The
// alternative, rotary embedding of adjacent pairs, would need a second form of every graph. A row is contiguous in
// every element type, packed ones included, so reordering changes only the order of reading.
package gguf

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/gguf"
	"github.com/rlx-go/rlx/internal/lazyregexp"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/models/weights"
)

// Is reports whether a path names a GGUF file.
func Is(path string) bool { return filepath.Ext(path) == ".gguf" }

// types maps the element types of the format that weights may have.
var types = map[string]dtype.DType{
	"F32": dtype.F32, "F16": dtype.F16, "BF16": dtype.BF16, "F64": dtype.F64,
	"Q4_0": dtype.Q4_0, "Q4_1": dtype.Q4_1, "Q5_0": dtype.Q5_0, "Q5_1": dtype.Q5_1, "Q8_0": dtype.Q8_0,
	"Q2_K": dtype.Q2_K, "Q3_K": dtype.Q3_K,
	"Q4_K": dtype.Q4_K, "Q5_K": dtype.Q5_K, "Q6_K": dtype.Q6_K, "Q8_K": dtype.Q8_K, "IQ4_NL": dtype.IQ4_NL,
	"IQ4_XS": dtype.IQ4_XS, "MXFP4": dtype.MXFP4,
}

// Open opens a GGUF file, or the first file of a split checkpoint. Errors are *diag.Error with code.GGUF,
// code.GGUFFeature or code.CheckpointRead.
func Open(path string) (*weights.Checkpoint, error) {
	var files []weights.File
	closeAll := func() {
		for _, f := range files {
			f.F.Close()
		}
	}
	var parts []weights.Part
	read := func(path string) (*gguf.Header, error) {
		f, st, err := regular.Open(path)
		if err != nil {
			return nil, diag.New(code.CheckpointRead, path, "%w", err)
		}
		files = append(files, weights.File{Path: path, F: f})
		h, err := gguf.Parse(f, st.Size())
		if err != nil {
			return nil, diag.New(code.GGUF, path, "%w", err)
		}
		for _, t := range h.Tensors {
			p, err := part(t, f, filepath.Base(path))
			if err != nil {
				return nil, diag.New(code.GGUFFeature, path, "%w", err)
			}
			parts = append(parts, p)
		}
		return h, nil
	}
	first, err := read(path)
	if err == nil {
		err = readSplits(path, first, read, func() int { return len(parts) })
	}
	var m *model
	if err == nil {
		if m, err = describe(first.Meta, parts); err != nil {
			err = about(err, path)
		}
	}
	if err != nil {
		closeAll()
		return nil, err
	}
	return weights.Assemble(path, files, m.parts, m.files)
}

// about adds the code and the path to an error of the metadata.
func about(err error, path string) error {
	var unknown feature
	if errors.As(err, &unknown) {
		return diag.New(code.GGUFFeature, path, "%w", err)
	}
	return diag.New(code.GGUF, path, "%w", err)
}

// A feature is an error about a feature of the format that is valid but not supported by this version.
type feature struct{ error }

func unsupported(format string, args ...any) error { return feature{fmt.Errorf(format, args...)} }

func part(t gguf.Tensor, f io.ReaderAt, file string) (weights.Part, error) {
	d, ok := types[t.Type.String()]
	if !ok {
		return weights.Part{}, fmt.Errorf("tensor %.80q has element type %v, which is not supported", t.Name, t.Type)
	}
	shape := append([]int64{}, t.Dims...)
	if d.IsPacked() {
		shape[len(shape)-1] /= int64(d.Values())
	}
	return weights.Part{Info: weights.Info{Name: t.Name, DType: d, Stored: t.Type.String(), Shape: shape, Size: t.Size,
		File: file}, Source: f, Offset: t.Offset}, nil
}

var splitName = lazyregexp.New(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

const maxSplits = 1000

// readSplits reads the other files of a split checkpoint.
func readSplits(path string, first *gguf.Header, read func(string) (*gguf.Header, error), tensors func() int) error {
	meta := metadata(first.Meta)
	count, err := meta.integer("split.count", 0, 0, maxSplits)
	if err != nil {
		return about(err, path)
	}
	if count <= 1 {
		return nil
	}
	name := splitName.FindStringSubmatch(filepath.Base(path))
	if name == nil || name[3] != fmt.Sprintf("%05d", count) {
		return diag.New(code.GGUF, path, "is one of %d files, which must be called NAME-00001-of-%05d.gguf and so on",
			count, count)
	}
	if no, err := meta.integer("split.no", 0, 0, maxSplits); err != nil || no != 0 || name[2] != "00001" {
		return diag.New(code.GGUF, path, "is not the first of %d files", count).WithHint(
			"name the first: %s-00001-of-%05d.gguf", name[1], count)
	}
	for i := 1; i < count; i++ {
		p := filepath.Join(filepath.Dir(path), name[1]+"-"+fmt.Sprintf("%05d-of-%05d.gguf", i+1, count))
		h, err := read(p)
		if err != nil {
			return err
		}
		m := metadata(h.Meta)
		no, errNo := m.integer("split.no", -1, 0, maxSplits)
		n, errCount := m.integer("split.count", -1, 0, maxSplits)
		if errNo != nil || errCount != nil || no != i || n != count {
			return diag.New(code.GGUF, p, "says that it is file %d of %d; want %d of %d (counted from 0)", no, n, i,
				count)
		}
	}
	if total, err := meta.integer("split.tensors.count", tensors(), 0, 1<<30); err != nil || total != tensors() {
		return diag.New(code.GGUF, path, "and the files that belong to it have %d tensors; %d are expected", tensors(),
			total)
	}
	return nil
}

// metadata gives typed access to the values of a header.
type metadata map[string]any

// integer returns a whole number from least to most, or otherwise if the key is absent.
func (m metadata) integer(key string, otherwise, least, most int) (int, error) {
	v, ok := m[key]
	if !ok {
		return otherwise, nil
	}
	switch v := v.(type) {
	case uint64:
		if v >= uint64(least) && v <= uint64(most) {
			return int(v), nil
		}
	case int64:
		if v >= int64(least) && v <= int64(most) {
			return int(v), nil
		}
	}
	return 0, fmt.Errorf("%s is %.40s; allowed are whole numbers from %d to %d", key, fmt.Sprint(v), least, most)
}

func get[T any](m metadata, key string, otherwise T) (T, error) {
	v, ok := m[key]
	if !ok {
		return otherwise, nil
	}
	t, ok := v.(T)
	if !ok {
		return otherwise, fmt.Errorf("%s does not have the type that the format requires", key)
	}
	return t, nil
}

// number formats a float of the file as the shortest decimal, as in the configuration from which the file was made.
func number(f float64) string {
	if float64(float32(f)) == f {
		return strconv.FormatFloat(f, 'g', -1, 32)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
