package weights

import (
	"io"
	"maps"
	"os"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
)

// File is an open file of a checkpoint that another package reads.
type File struct {
	Path string
	F    *os.File
}

// Part is a tensor of such a checkpoint. File is the base name of a file, Source has the tensor's bytes from Offset on.
// The shape of a packed type counts blocks in its last dim.
type Part struct {
	Info
	Source io.ReaderAt
	Offset int64
}

// Assemble makes a checkpoint of tensors that another package found; path is what errors name, and own are files that
// it holds, such as a config.json. The checkpoint closes the files, also where Assemble fails.
func Assemble(path string, files []File, parts []Part, own map[string][]byte) (*Checkpoint, error) {
	c := &Checkpoint{path: path, tensors: map[string]tensor{}, own: own}
	var failed error
	for _, f := range files {
		if _, err := c.addFile(f.Path, f.F); failed == nil {
			failed = err
		}
	}
	for _, p := range parts {
		if _, twice := c.tensors[p.Name]; twice && failed == nil {
			failed = diag.New(CodeTensor, path, "tensor %q: appears twice", p.Name)
		}
		c.tensors[p.Name] = tensor{Info: p.Info, src: p.Source, start: p.Offset}
	}
	if failed != nil {
		c.Close()
		return nil, failed
	}
	c.names = slices.Sorted(maps.Keys(c.tensors))
	return c, nil
}

// Own is a file that the checkpoint holds in itself, under the name that Transformers gives it; ok is false if it has
// none. A checkpoint of safetensors has none at all.
func (c *Checkpoint) Own(name string) (data []byte, ok bool) {
	data, ok = c.own[name]
	return data, ok
}

// OwnsFiles reports whether the checkpoint holds its configuration, so that files beside it are not its.
func (c *Checkpoint) OwnsFiles() bool { return c.own != nil }
