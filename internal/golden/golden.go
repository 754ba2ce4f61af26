// Package golden runs tests written as txtar files: an input, and the output that a person has reviewed. `go test ./...
// -update` rewrites the outputs; the diff of the commit then shows the changes.
//
// Only tests import it. Files knows nothing about the project; Pass checks rewrites of graphs.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the outputs in golden files")

// Text compares a generated file of the tree with its expected contents, or with -update writes it.
func Text(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is stale; run this test with -update (-file +generated):\n%s", path, cmp.Diff(string(have), want))
	}
}

// File is one txtar file: comment lines of the form "key: value" and named sections.
type File struct {
	Path string
	ar   *txtar.Archive
}

// Section returns the text of a section. ok is false if the file has no such section.
func (f *File) Section(name string) (text string, ok bool) {
	for _, s := range f.ar.Files {
		if s.Name == name {
			return string(s.Data), true
		}
	}
	return "", false
}

// Values returns the values of comment lines "key: value value ...".
func (f *File) Values(key string) []string {
	var out []string
	for line := range strings.Lines(string(f.ar.Comment)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), key+":"); ok {
			out = append(out, strings.Fields(rest)...)
		}
	}
	return out
}

// Files runs f as a subtest on each *.txtar file in dir. f returns the expected section "out".
func Files(t *testing.T, dir string, f func(t *testing.T, f *File) string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no *.txtar files in %s (%v)", dir, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file := &File{path, ar}
			file.compare(t, f(t, file))
		})
	}
}

// compare compares the section "out" with got, or with -update rewrites it.
func (f *File) compare(t *testing.T, got string) {
	t.Helper()
	if got != "" && !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	want, ok := f.Section("out")
	if want == got && ok {
		return
	}
	if !*update {
		t.Errorf("%s: out differs (-want +got):\n%s", f.Path, cmp.Diff(want, got))
		return
	}
	if !ok {
		f.ar.Files = append(f.ar.Files, txtar.File{Name: "out"})
	}
	for i := range f.ar.Files {
		if f.ar.Files[i].Name == "out" {
			f.ar.Files[i].Data = []byte(got)
		}
	}
	if err := os.WriteFile(f.Path, txtar.Format(f.ar), 0o644); err != nil {
		t.Fatal(err)
	}
}
