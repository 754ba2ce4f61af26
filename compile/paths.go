package compile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/models/weights"
)

// modelName returns the name of a checkpoint without folder and extension. For model.safetensors and for folders it is
// the folder's name.
func modelName(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	name := filepath.Base(abs)
	switch ext := filepath.Ext(name); ext {
	case ".safetensors", ".json", ".gguf", ".ply":
		name = strings.TrimSuffix(strings.TrimSuffix(name, ext), ".safetensors.index")
	}
	if name == "model" {
		name = filepath.Base(filepath.Dir(abs))
	}
	return name
}

// configBeside returns the path that the config.json of a checkpoint has, if there is one.
func configBeside(path string) string {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return filepath.Join(path, "config.json")
	}
	return filepath.Join(filepath.Dir(path), "config.json")
}

// filesBeside returns a function that reads a file that belongs to the checkpoint, such as tokenizer.json: one that the
// checkpoint has in itself or, if it has none at all, one beside it.
func filesBeside(c weights.Stored, path string) func(name string, most int64) ([]byte, error) {
	if c.OwnsFiles() {
		return func(name string, _ int64) ([]byte, error) {
			if data, ok := c.Own(name); ok {
				return data, nil
			}
			return nil, fs.ErrNotExist
		}
	}
	dir := filepath.Dir(configBeside(path))
	return func(name string, most int64) ([]byte, error) { return regular.ReadFile(filepath.Join(dir, name), most) }
}

// sourcePaths lists the files of a checkpoint, including its index.
func sourcePaths(c *weights.Checkpoint) []string {
	dir, out := c.Path(), []string(nil)
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		dir, out = filepath.Dir(dir), append(out, dir)
	}
	for _, f := range c.Files() {
		out = append(out, filepath.Join(dir, f.Name))
	}
	return out
}

// sameFile reports whether both paths lead to one file.
func sameFile(a, b string) bool {
	x, xerr := os.Stat(a)
	y, yerr := os.Stat(b)
	return xerr == nil && yerr == nil && os.SameFile(x, y)
}
