package style

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the list of generated files in .gitattributes")

const root = "../.."

// eachFile calls f with every file of the repository. The test is skipped where there is no repository, as in a
// module's zip.
func eachFile(t *testing.T, f func(name string, text []byte)) {
	t.Helper()
	names, err := tracked(root)
	if err != nil {
		t.Skipf("git ls-files: %v", err)
	}
	for _, name := range names {
		at := filepath.Join(root, name)
		if s, err := os.Lstat(at); err != nil || !s.Mode().IsRegular() {
			continue // deleted, but not yet for git; or a link
		}
		text, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		f(name, text)
	}
}

// TestGenerated checks that .gitattributes marks the generated files, and no others, so that reviews hide their
// differences.
func TestGenerated(t *testing.T) {
	const mark = " linguist-generated\n"
	var want strings.Builder
	eachFile(t, func(name string, text []byte) {
		if generated(name, text) {
			want.WriteString(name + mark)
		}
	})
	file := filepath.Join(root, ".gitattributes")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var others, got strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, mark) {
			got.WriteString(line)
		} else {
			others.WriteString(line)
		}
	}
	if got.String() == want.String() {
		return
	}
	if !*update {
		diff := cmp.Diff(strings.Split(want.String(), "\n"), strings.Split(got.String(), "\n"))
		t.Fatalf(".gitattributes is stale (-want +got); run go test ./internal/style -run Generated -update\n%s", diff)
	}
	if err := os.WriteFile(file, []byte(others.String()+want.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// subjectsSince is the commit after which subjects are checked. Earlier ones are as they are.
const subjectsSince = "b350686993ed65ef7eb403f5d8ac201d5c0baca0"

// TestSubjects checks that the subjects of commits fit 72 columns, because git log and mail programs show no more.
func TestSubjects(t *testing.T) {
	cmd := exec.Command("git", "log", "--format=%h %s", subjectsSince+"..HEAD")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("git log %s..HEAD: %v; the history may be cut off (git fetch --unshallow)", subjectsSince, err)
	}
	for line := range strings.Lines(string(out)) {
		hash, subject, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if n := utf8.RuneCountInString(subject); n > 72 {
			t.Errorf("commit %s: the subject has %d characters; at most 72: %s", hash, n, subject)
		}
	}
}
