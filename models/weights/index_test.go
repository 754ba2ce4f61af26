package weights

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
)

// shards writes two shards that hold a, b and c, and an index.
func shards(t *testing.T, dir, index string) string {
	write(t, dir, "m-1.safetensors", file(two, 12))
	write(t, dir, "m-2.safetensors",
		file(`{"__metadata__":{"format":"pt"},"c":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4))
	return write(t, dir, indexName, []byte(index))
}

const goodIndex = `{"metadata":{"total_size":1},"weight_map":{"a":"m-1.safetensors","b":"m-1.safetensors","c":"m-2.safetensors"}}`

func TestIndex(t *testing.T) {
	dir := t.TempDir()
	path := shards(t, dir, goodIndex)
	for _, arg := range []string{dir, path} {
		c, err := Open(arg)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(c.Names(), []string{"a", "b", "c"}) || c.Path() != path {
			t.Errorf("names %v of %s", c.Names(), c.Path())
		}
		if info, _ := c.Info("c"); info.File != "m-2.safetensors" || c.Metadata()["format"] != "pt" {
			t.Errorf("info %+v, metadata %v", info, c.Metadata())
		}
		var files []string
		for _, f := range c.Files() {
			files = append(files, f.Name)
		}
		if !slices.Equal(files, []string{indexName, "m-1.safetensors", "m-2.safetensors"}) {
			t.Errorf("files %v", files)
		}
		c.Close()
	}
}

func TestIndexRefused(t *testing.T) {
	edit := func(old, new string) string { return strings.Replace(goodIndex, old, new, 1) }
	many := func() string {
		var b strings.Builder
		for i := range maxShards + 1 {
			fmt.Fprintf(&b, `,"t%d":"s%d.safetensors"`, i, i)
		}
		return `{"weight_map":{` + b.String()[1:] + `}}`
	}
	for _, tc := range []struct {
		name, index string
		code        diag.Code
		want        string
	}{
		{"not JSON", "weights", CodeIndex, "JSON"},
		{"empty", "", CodeIndex, "JSON"},
		{"no map", `{"metadata":{}}`, CodeIndex, "no weight_map"},
		{"map twice", edit(`"metadata":{"total_size":1}`, `"weight_map":{"a":"m-1.safetensors"}`), CodeIndex, "twice"},
		{"tensor twice", edit(`"b":"m-1.safetensors"`, `"a":"m-1.safetensors"`), CodeIndex, `key "a" twice`},
		{"number", edit(`"m-2.safetensors"`, "2"), CodeIndex, "number"},
		{"more after it", goodIndex + "{}", CodeIndex, "after"},
		{"parent directory", edit("m-2.s", "../m-2.s"), CodeIndex, "not allowed"},
		{"absolute", edit("m-2.s", "/etc/m-2.s"), CodeIndex, "not allowed"},
		{"backslash", edit("m-2.s", `x\\m-2.s`), CodeIndex, "not allowed"},
		{"newline", edit("m-2.safetensors", `m-2.safetensors\n`), CodeIndex, "not allowed"},
		{"other suffix", edit("m-2.safetensors", "m-2.bin"), CodeIndex, "not allowed"},
		{"missing shard", edit("m-2", "m-3"), CodeRead, "m-3.safetensors"},
		{"tensor in another shard", edit(`"c":"m-2`, `"c":"m-1`), CodeIndex,
			`tensor "c": mapped to m-1.safetensors, which does not hold it`},
		{"tensor maps to the wrong one of two", edit(`"b":"m-1`, `"b":"m-2`), CodeIndex,
			`tensor "b": in m-1.safetensors, but weight_map names m-2`},
		{"tensor outside the map", edit(`"b":"m-1.safetensors",`, ""), CodeIndex,
			`tensor "b": in m-1.safetensors, but not in weight_map`},
		{"tensor that is nowhere", edit(`"a"`, `"d":"m-1.safetensors","a"`), CodeIndex, `tensor "d"`},
		{"too many shards", many(), CodeIndex, "4097 shards; the limit is 4096"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Open(shards(t, t.TempDir(), tc.index))
			if !errors.Is(err, tc.code) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %s saying %q", err, tc.code, tc.want)
			}
		})
	}
}

// TestIndexTensorTwice checks that a tensor in two shards is refused, whichever of them the index names.
func TestIndexTensorTwice(t *testing.T) {
	for _, s := range []string{"m-1", "m-2"} {
		dir := t.TempDir()
		one := file(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4)
		both := file(
			`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[],"data_offsets":[4,8]}}`,
			8)
		if s == "m-2" {
			one, both = both, one
		}
		write(t, dir, "m-1.safetensors", one)
		write(t, dir, "m-2.safetensors", both)
		other := map[string]string{"m-1": "m-2", "m-2": "m-1"}[s]
		idx := fmt.Sprintf(`{"weight_map":{"a":"%s.safetensors","b":"%s.safetensors"}}`, s, other)
		if _, err := Open(write(t, dir, indexName, []byte(idx))); !errors.Is(err, CodeIndex) {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// TestIndexLinks checks that a link may not lead out of the directory, except into the blobs of a hub cache.
func TestIndexLinks(t *testing.T) {
	dir := t.TempDir()
	blob := write(t, dir, "repo/blobs/0123", file(two, 12))
	index := `{"weight_map":{"a":"m-1.safetensors","b":"m-1.safetensors"}}`
	for snap, ok := range map[string]bool{"repo/snapshots/abc": true, "plain": false} {
		path := write(t, dir, snap+"/"+indexName, []byte(index))
		rel, _ := filepath.Rel(filepath.Dir(path), blob)
		if err := os.Symlink(rel, filepath.Join(filepath.Dir(path), "m-1.safetensors")); err != nil {
			t.Skip(err)
		}
		c, err := Open(path)
		if (err == nil) != ok {
			t.Errorf("%s: %v", snap, err)
		}
		if err == nil {
			c.Close()
		} else if !errors.Is(err, CodeRead) {
			t.Errorf("%s: %v", snap, err)
		}
	}
}
