package rlxbeam

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/atomicfile"
)

// WriteFolders writes PCollection<Folder> below a folder that all workers share. A file appears when it is complete,
// and the files of a folder appear in their order, so a folder that has the last file is complete. It returns the names
// of the folders, PCollection<string>.
func WriteFolders(s beam.Scope, dir string, folders beam.PCollection) beam.PCollection {
	return beam.ParDo(s.Scope("rlxbeam.WriteFolders"), &foldersFn{Dir: dir}, folders)
}

type foldersFn struct{ Dir string }

// ProcessElement writes a folder.
func (f *foldersFn) ProcessElement(ctx context.Context, in Folder, emit func(string)) error {
	for _, file := range in.Files {
		name := filepath.Join(filepath.FromSlash(in.Name), file.Name)
		if !filepath.IsLocal(name) {
			return diag.New(code.Output, name, "is not below the folder of results")
		}
		if err := writeFile(ctx, filepath.Join(f.Dir, name), file.Data); err != nil {
			return err
		}
	}
	emit(in.Name)
	return nil
}

func writeFile(ctx context.Context, path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return diag.New(code.Output, path, "%w", err)
	}
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Line is a line of text with a key.
type Line struct {
	Key  string // decides the file and the place in it
	Text string
}

// FailureLines turns PCollection<Failure> into PCollection<Line> with a JSON object for each.
func FailureLines(s beam.Scope, failed beam.PCollection) beam.PCollection {
	return beam.ParDo(s.Scope("rlxbeam.FailureLines"), failureLine, failed)
}

func failureLine(f Failure) (Line, error) {
	b, err := json.Marshal(struct {
		Name  string `json:"name"`
		Code  string `json:"code,omitempty"`
		Kind  string `json:"kind"`
		Error string `json:"error"`
	}{f.Name, f.Code, f.Kind, f.Error})
	return Line{Key: f.Name, Text: string(b)}, err
}

// WriteLines writes PCollection<Line> to files. With one shard, the file is called prefix and suffix; with more, files
// are called prefix-00000-of-00008 and suffix. The key of a line decides its file, and the lines of a file are in the
// order of their keys, so the files depend only on the lines. A file without lines is not written.
func WriteLines(s beam.Scope, prefix, suffix string, shards int, lines beam.PCollection) {
	s = s.Scope("rlxbeam.WriteLines")
	shards = max(shards, 1)
	keyed := beam.ParDo(s, &shardFn{Shards: shards}, lines)
	beam.ParDo0(s, &linesFn{Prefix: prefix, Suffix: suffix, Shards: shards}, beam.GroupByKey(s, keyed))
}

type shardFn struct{ Shards int }

// ProcessElement returns the shard of a line.
func (f *shardFn) ProcessElement(l Line) (int, Line) {
	h := fnv.New64a()
	io.WriteString(h, l.Key)
	return int(h.Sum64() % uint64(f.Shards)), l
}

type linesFn struct {
	Prefix, Suffix string
	Shards         int
}

// ProcessElement writes a file.
func (f *linesFn) ProcessElement(ctx context.Context, shard int, next func(*Line) bool) error {
	var all []Line
	for l := (Line{}); next(&l); {
		all = append(all, l)
	}
	slices.SortFunc(all, compareLines)
	var b bytes.Buffer
	for _, l := range all {
		b.WriteString(l.Text + "\n")
	}
	name := f.Prefix
	if f.Shards > 1 {
		name += fmt.Sprintf("-%05d-of-%05d", shard, f.Shards)
	}
	return writeFile(ctx, name+f.Suffix, b.Bytes())
}

// compareLines orders lines by key, and equal keys by text.
func compareLines(a, b Line) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Text, b.Text))
}

func init() {
	register.DoFn3x1[context.Context, Folder, func(string), error](&foldersFn{})
	register.DoFn1x2[Line, int, Line](&shardFn{})
	register.DoFn3x1[context.Context, int, func(*Line) bool, error](&linesFn{})
	register.Function1x2(failureLine)
	register.Iter1[Line]()
}
