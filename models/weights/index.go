package weights

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/lazyregexp"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/safetensors"
	"github.com/rlx-go/rlx/internal/strictjson"
)

const maxShards = 4096

var shardName = lazyregexp.New(`^[A-Za-z0-9._-]{1,255}\.safetensors$`)

// openIndex opens the shards of an index. It checks that each mapped tensor is in exactly its shard, and that no shard
// has other tensors. It ignores metadata.total_size, because writers disagree about its meaning.
func (c *Checkpoint) openIndex(path string) error {
	doc, err := regular.ReadFile(path, safetensors.MaxHeader)
	if err != nil {
		return diag.New(CodeRead, path, "%w", err)
	}
	where, shards, err := decodeIndex(doc)
	if err != nil {
		return diag.New(CodeIndex, path, "%w", err)
	}
	c.addText(path, doc)
	root, prefix, err := openRoot(filepath.Dir(path))
	if err != nil {
		return diag.New(CodeRead, filepath.Dir(path), "cannot be opened: %w", cause(err))
	}
	defer root.Close()
	for _, shard := range shards {
		if err := c.addShard(root, prefix, filepath.Dir(path), shard, path, where); err != nil {
			return err
		}
	}
	for name, shard := range where {
		if _, ok := c.tensors[name]; !ok {
			return diag.New(CodeIndex, path, "tensor %q: mapped to %s, which does not hold it", name, shard)
		}
	}
	return nil
}

// addShard adds the tensors of one shard.
func (c *Checkpoint) addShard(root *os.Root, prefix, dir, shard, index string, where map[string]string) error {
	full := filepath.Join(dir, shard)
	f, _, err := regular.OpenIn(root, filepath.Join(prefix, shard))
	if err != nil {
		return diag.New(CodeRead, full, "%w", err)
	}
	src, err := c.addFile(full, f)
	if err != nil {
		return err
	}
	ts, meta, err := parse(full, f, src.Size)
	if err != nil {
		return err
	}
	for k, v := range meta {
		if _, ok := c.meta[k]; !ok {
			if c.meta == nil {
				c.meta = map[string]string{}
			}
			c.meta[k] = v
		}
	}
	for _, t := range ts {
		switch mapped, ok := where[t.Name]; {
		case !ok:
			return diag.New(CodeIndex, index, "tensor %q: in %s, but not in weight_map", t.Name, shard)
		case mapped != shard:
			return diag.New(CodeIndex, index, "tensor %q: in %s, but weight_map names %s", t.Name, shard, mapped)
		}
		t.File, t.src = shard, io.ReaderAt(f)
		c.tensors[t.Name] = t
	}
	return nil
}

// openRoot opens the directory that links of shards may not leave. A hub cache stores snapshots/REVISION/x.safetensors
// as links into a sibling blobs/; there the root is the cache directory of the repository, and prefix leads to the
// snapshot.
func openRoot(dir string) (root *os.Root, prefix string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, "", err
	}
	if parent := filepath.Dir(abs); filepath.Base(parent) == "snapshots" {
		repo := filepath.Dir(parent)
		if st, err := os.Stat(filepath.Join(repo, "blobs")); err == nil && st.IsDir() {
			root, err = os.OpenRoot(repo)
			return root, filepath.Join("snapshots", filepath.Base(abs)), err
		}
	}
	root, err = os.OpenRoot(abs)
	return root, ".", err
}

// decodeIndex returns the map from tensors to shards, and the shards in ascending order.
func decodeIndex(doc []byte) (where map[string]string, shards []string, err error) {
	r, err := strictjson.New(doc)
	if err != nil {
		return nil, nil, err
	}
	err = r.Object("the index", func(key string) error {
		if key != "weight_map" {
			return r.Skip()
		}
		where = map[string]string{}
		return r.Object("weight_map", func(name string) error {
			shard, err := r.String(fmt.Sprintf("weight_map %q", name))
			if err != nil {
				return err
			}
			if !shardName.MatchString(shard) {
				return fmt.Errorf(
					"tensor %q: shard name %.300q is not allowed; allowed are letters, digits, '.', '_' and '-', ending in .safetensors",
					name, shard)
			}
			if len(where) == safetensors.MaxTensors {
				return fmt.Errorf("weight_map has more than %d tensors", safetensors.MaxTensors)
			}
			where[name] = shard
			return nil
		})
	})
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return nil, nil, err
	}
	if len(where) == 0 {
		return nil, nil, fmt.Errorf("has no weight_map, or an empty one")
	}
	seen := map[string]bool{}
	for _, s := range where {
		if !seen[s] {
			seen[s] = true
			shards = append(shards, s)
		}
	}
	if len(shards) > maxShards {
		return nil, nil, fmt.Errorf("names %d shards; the limit is %d", len(shards), maxShards)
	}
	slices.Sort(shards)
	return where, shards, nil
}
