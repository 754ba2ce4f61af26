package style

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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

// TestModules checks that modules which replace this one require what it requires. go mod tidy would raise their
// versions to those of the root, and CI ends with that check.
func TestModules(t *testing.T) {
	versions := func(text string) map[string]string {
		v := map[string]string{}
		for line := range strings.Lines(text) {
			f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
			if len(f) >= 2 && strings.HasPrefix(f[1], "v") {
				v[f[0]] = f[1]
			}
		}
		return v
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	own := versions(string(text))
	eachFile(t, func(name string, text []byte) {
		if filepath.Base(name) != "go.mod" || !strings.Contains(string(text), "replace github.com/rlx-go/rlx =>") {
			return
		}
		for module, v := range versions(string(text)) {
			if want, ok := own[module]; ok && older(v, want) {
				t.Errorf("%s: %s %s, and the root has %s; run go mod tidy there", name, module, v, want)
			}
		}
	})
}

// older compares versions by their numbers, which is enough for releases and for commits by date.
func older(v, than string) bool {
	numbers := func(s string) (n []int) {
		for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
			i, _ := strconv.Atoi(f)
			n = append(n, i)
		}
		return n
	}
	return slices.Compare(numbers(v), numbers(than)) < 0
}

// TestNoPrograms checks that no built program is in the repository, where it would stay in every clone.
func TestNoPrograms(t *testing.T) {
	magics := []string{"\x7fELF", "\xcf\xfa\xed\xfe", "MZ", "!<arch>\n"}
	eachFile(t, func(name string, text []byte) {
		for _, m := range magics {
			if strings.HasPrefix(string(text[:min(len(text), 8)]), m) {
				t.Errorf("%s: is a program or a library; git rm --cached %[1]s", name)
			}
		}
	})
}
