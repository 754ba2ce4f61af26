package format

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// TestSources checks that digests that arrive late give the same bytes as digests known from the start, and that no
// file is left if they fail.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	v, err := Open("../spec/testdata/"+goldenWithSources(t), Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	base, _ := v.WeightsSection()
	var ws []Weight
	for _, e := range v.Weights().Tensors() {
		data := make([]byte, e.Size)
		if _, err := v.File().ReadAt(data, base+e.Offset); err != nil {
			t.Fatal(err)
		}
		ws = append(
			ws, Weight{Name: e.Name, Type: e.Type, Write: func(w io.Writer) error {
				_, err := w.Write(data)
				return err
			}})
	}
	full := v.Meta().Sources
	bare := make([]Source, len(full))
	for i, s := range full {
		bare[i] = Source{Name: s.Name, Size: s.Size}
	}
	meta := *v.Meta()
	meta.Sources = bare
	write := func(name string, sources func() ([]Source, error)) (string, error) {
		path := filepath.Join(dir, name)
		_, err := Write(context.Background(), path, Artifact{Meta: meta, Programs: v.Programs(), Sources: sources}, ws)
		return path, err
	}

	path, err := write("late", func() ([]Source, error) { return full, nil })
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, v.Size())
	if _, err := v.File().ReadAt(want, 0); err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("late digests give other bytes")
	}
	if _, err := write(
		"failed", func() ([]Source, error) { return nil, diag.New(code.ArtifactMissing, "x", "gone") }); !errors.Is(err,
		code.ArtifactMissing) {
		t.Errorf("a failed digest: %v", err)
	}
	if _, err := write("changed", func() ([]Source, error) { return append(full, full...), nil }); err == nil ||
		!strings.Contains(err.Error(), "changed") {
		t.Errorf("more sources than before: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// goldenWithSources returns a golden artifact that has a source.
func goldenWithSources(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../spec/testdata/*.rlx")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		v, err := Open(f, Policy{})
		if err != nil {
			continue
		}
		n := len(v.Meta().Sources)
		v.Close()
		if n > 0 {
			return filepath.Base(f)
		}
	}
	t.Fatal("no golden artifact names a source")
	return ""
}
