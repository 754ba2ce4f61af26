package rlxbeam_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	beamlog "github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/rlx-go/rlx"
	rlxbeam "github.com/rlx-go/rlx/beam"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/testbin"
)

var kills = flag.Int("kills", 20, "how many times TestKilled kills the pipeline")

// TestMain also acts as a program with a pipeline, which TestKilled kills.
func TestMain(m *testing.M) {
	flag.Parse()
	beamlog.SetLogger(quiet{})
	beam.Init()
	if job := os.Getenv("RLX_TEST_JOB"); job != "" {
		killable(filepath.SplitList(job))
		return
	}
	if err := os.Chdir(".."); err != nil { // rlxtest and testbin work in the module of the compiler
		panic(err)
	}
	rlxtest.Main(m, nil)
}

// cpu puts the cpu backend where FindBackend finds it. The test program itself cannot be the backend, as it is in the
// tests of other packages: package expansionx of Beam panics in a sandbox, where it cannot look up the user.
var cpu = sync.OnceValue(func() rlx.Backend {
	path := rlxtest.Scratch("rlx-backend-cpu")
	err := os.Remove(path)
	if err == nil {
		err = testbin.Build(path, "plugins/cpu")
	}
	if err != nil {
		panic(err)
	}
	return rlx.Backend{Name: "cpu", Path: path}
})

type quiet struct{}

func (quiet) Log(context.Context, beamlog.Severity, int, string) {}

// run runs a pipeline with Prism and returns the counters and the sums of the distributions of the transforms.
func run(t *testing.T, build func(beam.Scope)) map[string]int64 {
	t.Helper()
	cpu()
	p := beam.NewPipeline()
	build(p.Root())
	r, err := beam.Run(t.Context(), "prism", p)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	all := r.Metrics().Query(func(m metrics.SingleResult) bool { return m.Namespace() == "rlx" })
	for _, c := range all.Counters() {
		out[c.Name()] += c.Result()
	}
	for _, d := range all.Distributions() {
		out[d.Name()] += d.Result().Sum
	}
	return out
}

// kept has the elements of PCollections that keep was given, by name. Prism's workers run in this process.
var (
	keptMu sync.Mutex
	kept   = map[string][]any{}
)

type keepFn struct{ Name string }

func (f *keepFn) ProcessElement(x beam.X) {
	keptMu.Lock()
	defer keptMu.Unlock()
	kept[f.Name] = append(kept[f.Name], x)
}

func init() { register.DoFn1x0[beam.X](&keepFn{}) }

// keep remembers the elements of a PCollection for elementsOf.
func keep(t *testing.T, s beam.Scope, what string, c beam.PCollection) {
	name := t.Name() + "/" + what
	delete(kept, name)
	beam.ParDo0(s, &keepFn{name}, c)
}

func elementsOf[T any](t *testing.T, what string, key func(T) string) (out []T) {
	for _, x := range kept[t.Name()+"/"+what] {
		out = append(out, x.(T))
	}
	slices.SortFunc(out, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	return out
}

func failureName(f rlxbeam.Failure) string { return f.Name }

// program returns the path of a program of the module, built once.
func program(t *testing.T, name string) string {
	t.Helper()
	cpu()
	path := rlxtest.Scratch("bin/" + name)
	if err := testbin.Build(path, "cmd/"+name); err != nil {
		t.Fatal(err)
	}
	return path
}

// batchProgram builds rlxbatch once. It finds the cpu backend beside itself.
func batchProgram(t *testing.T) string {
	t.Helper()
	path, err := buildBatch()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildBatch = sync.OnceValues(func() (string, error) {
	path := rlxtest.Scratch("rlxbatch")
	cmd := exec.Command("go", "run", "-exec", "cp", "./cmd/rlxbatch", path) // links once, as testbin does
	cmd.Dir, cmd.Env = "beam", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	cpu()
	return path, nil
})

// tree returns the files below a folder by relative path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		name, _ := filepath.Rel(dir, p)
		out[filepath.ToSlash(name)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// same fails the test unless two folders have the same files with the same bytes.
func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for name, b := range want {
		if other, ok := got[name]; !ok {
			t.Errorf("%s: %s is missing", what, name)
		} else if !bytes.Equal([]byte(b), []byte(other)) {
			t.Errorf("%s: %s differs", what, name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s is one file too many", what, name)
		}
	}
}
