// Package weights reads checkpoints: one safetensors file, or the shards named by a model.safetensors.index.json.
//
// The reader is strict; see safetensors.Parse and openIndex for the rules. Opening a checkpoint reads only headers.
// Tensors are read on request, by any number of goroutines.
//
// It must not import any model.
package weights

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/safetensors"
)

// Codes of this package.
var (
	CodeRead    = code.CheckpointRead
	CodeHeader  = code.CheckpointHeader
	CodeTensor  = code.CheckpointTensor
	CodeIndex   = code.CheckpointIndex
	CodeDType   = code.CheckpointDType
	CodeMissing = code.CheckpointMissing
)

// Info describes a tensor of a checkpoint.
type Info struct {
	Name   string
	DType  dtype.DType // Invalid if the stored type has no counterpart, such as F8_E4M3
	Stored string      // type as written in the file: "BF16"
	Shape  []int64     // row-major; empty for a scalar
	Size   int64       // bytes
	File   string      // base name of the file that contains it
}

// A SourceFile is a file of the checkpoint.
type SourceFile struct {
	Name string // base name
	Size int64  // bytes
}

// A Checkpoint gives access to the tensors of an open checkpoint. All methods except Close may be called concurrently.
type Checkpoint struct {
	path    string
	files   []*source
	tensors map[string]tensor
	names   []string
	meta    map[string]string
	own     map[string][]byte // see Own
}

type tensor struct {
	Info
	src   io.ReaderAt
	start int64 // offset in src
}

const (
	indexName  = "model.safetensors.index.json"
	singleName = "model.safetensors"
)

// Open opens a checkpoint. path is a safetensors file, an index (a .json file beside its shards), or a directory with
// model.safetensors or model.safetensors.index.json. Errors are *diag.Error with a code of this package.
func Open(path string) (*Checkpoint, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, diag.New(CodeRead, path, "cannot be opened: %w", cause(err))
	}
	if st.IsDir() {
		if path, err = choose(path); err != nil {
			return nil, err
		}
	}
	c := &Checkpoint{path: path, tensors: map[string]tensor{}}
	if strings.HasSuffix(path, ".json") {
		err = c.openIndex(path)
	} else {
		err = c.openSingle(path)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.stack()
	return c, nil
}

// choose returns the checkpoint in a directory.
func choose(dir string) (string, error) {
	var found []string
	for _, name := range []string{singleName, indexName} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 1:
		return filepath.Join(dir, found[0]), nil
	case 2:
		return "", diag.New(CodeRead, dir, "holds both %s and %s", found[0], found[1]).WithHint("name the one to read")
	}
	e := diag.New(CodeRead, dir, "holds neither %s nor %s", singleName, indexName)
	for _, ext := range []string{".safetensors", ".gguf"} {
		if others, _ := filepath.Glob(filepath.Join(dir, "*"+ext)); len(others) == 1 {
			return "", e.WithHint("name the file: %s", others[0])
		} else if len(others) > 0 {
			return "", e.WithHint("name a file, such as %s", others[0])
		}
	}
	return "", e.WithHint("name a .safetensors or .gguf file")
}

func (c *Checkpoint) openSingle(path string) error {
	f, _, err := regular.Open(path)
	if err != nil {
		return diag.New(CodeRead, path, "%w", err)
	}
	src, err := c.addFile(path, f)
	if err != nil {
		return err
	}
	ts, meta, err := parse(path, f, src.Size)
	if err != nil {
		return err
	}
	base := src.Name
	c.meta = meta
	for _, t := range ts {
		t.File, t.src = base, f
		c.tensors[t.Name] = t
	}
	return nil
}

// parse reads the header of a file.
func parse(path string, f io.ReaderAt, size int64) ([]tensor, map[string]string, error) {
	list, meta, err := safetensors.Parse(
		path, f, size, safetensors.Codes{Read: CodeRead, Header: CodeHeader, Tensor: CodeTensor})
	ts := make([]tensor, len(list))
	for i, t := range list {
		ts[i] = tensor{Info: Info{Name: t.Name, DType: t.DType, Stored: t.Stored, Shape: t.Shape, Size: t.Size},
			start: t.Offset}
	}
	return ts, meta, err
}

// cause drops the path from os errors, because the subject of the error has it already.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Path returns the file that was opened. For a directory, it is the file that Open chose.
func (c *Checkpoint) Path() string { return c.path }

// Names returns the names of the tensors in ascending order. The caller must not change it.
func (c *Checkpoint) Names() []string { return c.names }

// Info describes a tensor. ok is false if no tensor has that name. Here and below a name may be joined (arch.Join).
func (c *Checkpoint) Info(name string) (info Info, ok bool) {
	t, ok := c.find(name)
	return t.Info, ok
}

// Files lists the files of the checkpoint: the index, if any, then the shards in ascending order.
func (c *Checkpoint) Files() []SourceFile {
	var out []SourceFile
	for _, s := range c.files {
		out = append(out, s.SourceFile)
	}
	return out
}

// Metadata returns the string pairs in __metadata__. If shards have the same key, the first shard wins.
func (c *Checkpoint) Metadata() map[string]string { return maps.Clone(c.meta) }

// Open returns the raw little-endian bytes of a tensor of any element type. The reader also reads at any offset, and is
// independent of all others.
func (c *Checkpoint) Open(name string) (*io.SectionReader, error) {
	t, ok := c.find(name)
	if !ok {
		return nil, diag.New(CodeMissing, c.path, "tensor %q: not in the checkpoint", name)
	}
	return io.NewSectionReader(t.src, t.start, t.Size), nil
}

func (c *Checkpoint) fileOf(t tensor) string { return filepath.Join(filepath.Dir(c.path), t.File) }

// Close closes the files. Readers from Open fail afterwards.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, s := range c.files {
		if s.f != nil {
			errs = append(errs, s.f.Close())
		}
	}
	return errors.Join(errs...)
}
