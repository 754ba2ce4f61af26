package weights

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
)

// file returns a safetensors file made of a header and data bytes 0, 1, 2, ...
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range data {
		b = append(b, byte(i))
	}
	return b
}

func write(t *testing.T, dir, name string, b []byte) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

const two = `{"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]}}`

func TestAccepted(t *testing.T) {
	for name, f := range map[string][]byte{
		"plain":          file(two, 12),
		"leading space":  file(" \n\t"+two, 12),
		"trailing space": file(two+"   ", 12),
		"metadata":       file(`{"__metadata__":{"format":"pt"},`+two[1:], 12),
		"unknown field": file(
			strings.Replace(two, `"shape":[2],`, `"shape":[2],"note":{"deep":[1,{"x":null}]},`, 1), 12),
		"empty tensor first": file(`{"z":{"dtype":"F32","shape":[4,0],"data_offsets":[0,0]},`+two[1:], 12),
		"empty tensor last":  file(`{"z":{"dtype":"F32","shape":[0],"data_offsets":[12,12]},`+two[1:], 12),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Open(write(t, t.TempDir(), "m.safetensors", f))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if got := slices.DeleteFunc(
				slices.Clone(c.Names()), func(s string) bool { return s == "z" }); !slices.Equal(got,
				[]string{"a", "b"}) {
				t.Fatalf("names %v", got)
			}
			info, ok := c.Info("a")
			if !ok || info.DType != dtype.BF16 || !slices.Equal(info.Shape, []int64{2, 1}) || info.Size != 4 ||
				info.File != "m.safetensors" {
				t.Errorf("info %+v %v", info, ok)
			}
			r, err := c.Open("a")
			if err != nil {
				t.Fatal(err)
			}
			if raw, err := io.ReadAll(r); err != nil || string(raw) != "\x08\x09\x0a\x0b" {
				t.Errorf("bytes %v, %v", raw, err)
			}
			if name == "metadata" && c.Metadata()["format"] != "pt" {
				t.Errorf("metadata %v", c.Metadata())
			}
		})
	}
	empty, err := Open(write(t, t.TempDir(), "m.safetensors", file("{}", 0)))
	if err != nil || len(empty.Names()) != 0 {
		t.Errorf("a file without tensors: %v", err)
	}
}

// TestRefused checks the codes of errors. The cases are in internal/safetensors.
func TestRefused(t *testing.T) {
	for want, f := range map[diag.Code][]byte{CodeHeader: file(two+"{}", 12), CodeTensor: file(two, 13)} {
		path := write(t, t.TempDir(), "m.safetensors", f)
		if _, err := Open(path); !errors.Is(err, want) || !strings.HasPrefix(err.Error(), path) ||
			diag.ExitCode(err) != 3 {
			t.Errorf("%v; want code %s", err, want)
		}
	}
}

// TestTruncated checks that every truncation of a valid file is refused, and every file with one additional byte.
func TestTruncated(t *testing.T) {
	dir, good := t.TempDir(), file(two, 12)
	for n := range good {
		if c, err := Open(write(t, dir, "m.safetensors", good[:n])); err == nil {
			c.Close()
			t.Errorf("%d of %d bytes accepted", n, len(good))
		}
	}
}

func TestOpenPaths(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, CodeRead) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Open(dir); !errors.Is(err, CodeRead) ||
		!strings.Contains(err.Error(), "name a .safetensors or .gguf file") {
		t.Errorf("empty directory: %v", err)
	}
	write(t, dir, "b.gguf", nil)
	if _, err := Open(dir); !errors.Is(err, CodeRead) ||
		!strings.HasSuffix(err.Error(), "name the file: "+filepath.Join(dir, "b.gguf")) {
		t.Errorf("directory with a GGUF file: %v", err)
	}
	write(t, dir, "a.gguf", nil)
	if _, err := Open(dir); !errors.Is(err, CodeRead) ||
		!strings.HasSuffix(err.Error(), "name a file, such as "+filepath.Join(dir, "a.gguf")) {
		t.Errorf("directory with GGUF files: %v", err)
	}
	write(t, dir, singleName, file(two, 12))
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.Files(); len(got) != 1 || got[0] != (SourceFile{singleName, int64(8 + len(two) + 12)}) {
		t.Errorf("files %v", got)
	}
	write(t, dir, indexName, []byte(`{"weight_map":{"a":"model.safetensors","b":"model.safetensors"}}`))
	if _, err := Open(dir); !errors.Is(err, CodeRead) || !strings.Contains(err.Error(), "both") {
		t.Errorf("two candidates: %v", err)
	}
}

// TestConcurrentReaders checks that concurrent readers see the same bytes. Run it with -race, too.
func TestConcurrentReaders(t *testing.T) {
	c, err := Open("../../demo/sam-nano.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n := len(c.Names()); n < 100 {
		t.Fatalf("%d tensors", n)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, name := range c.Names()[:40] {
				r, err := c.Open(name)
				if err != nil {
					t.Error(err)
					return
				}
				whole, err := io.ReadAll(r)
				if err != nil {
					t.Error(err)
				}
				same, err := c.Bytes(name, dtype.F16)
				if err != nil || string(whole) != string(same) {
					t.Errorf("%s: read twice, not the same (%v)", name, err)
				}
			}
		})
	}
	wg.Wait()
}
