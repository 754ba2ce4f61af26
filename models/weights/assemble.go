package weights

import (
	"io"
	"maps"
	"os"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
)

// A File is an open file of a checkpoint that another package reads.
type File struct {
	Path string
	F    *os.File
}

// A Part is a tensor of such a checkpoint. File is the base name of a file. Source has the bytes of the tensor from
// Offset on. The last dim of a packed type counts blocks.
type Part struct {
	Info
	Source io.ReaderAt
	Offset int64
}

// Assemble returns a checkpoint of tensors that another package found. Errors name path. own holds files inside the
// checkpoint, such as a config.json. The checkpoint closes files; so does Assemble if it fails.
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

// Own returns a file inside the checkpoint, under its name in Transformers. ok is false if the checkpoint contains no
// such file. A checkpoint of safetensors never does.
func (c *Checkpoint) Own(name string) (data []byte, ok bool) {
	data, ok = c.own[name]
	return data, ok
}

// OwnsFiles reports whether the checkpoint contains its configuration. Then files beside it do not belong to it.
func (c *Checkpoint) OwnsFiles() bool { return c.own != nil }
