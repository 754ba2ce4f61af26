// Package python_test runs the tests of the Python package and the conformance suite on its example. They need a
// python3 with grpcio, protobuf, numpy, cryptography and pytest. RLX_PYTHON names another interpreter. With
// RLX_REQUIRE_PYTHON a missing interpreter fails the tests.
package python_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/internal/testbin"
)

// python returns the interpreter, or skips the test if it or a package is missing.
func python(t *testing.T) string {
	t.Helper()
	// open the files, so that a change invalidates cached test results
	for _, pattern := range []string{"*/*.py", "rlx_backend/*", "examples/*", "../../spec/testdata/session.txt",
		"../../docs/*.md"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			os.ReadFile(f)
		}
	}
	name := cmp.Or(os.Getenv("RLX_PYTHON"), "python3")
	path, err := exec.LookPath(name)
	if err == nil {
		var out []byte
		if out, err = exec.Command(
			path, "-c", "import grpc, google.protobuf, numpy, cryptography, pytest").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil && os.Getenv("RLX_REQUIRE_PYTHON") == "" {
		t.Skipf("%s: %v", name, err)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return path
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=.", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestUnits(t *testing.T) {
	t.Parallel()
	run(t, python(t), "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
}

// tools returns a folder with rlxrun and rlxc, built once. TestMain removes it.
var tools = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "rlx-python")
	if err != nil {
		panic(err)
	}
	built = dir
	for _, name := range []string{"rlxrun", "rlxc"} {
		if err := testbin.Build(filepath.Join(dir, name), "cmd/"+name); err != nil {
			panic(err)
		}
	}
	return dir
})

var built string // empty if no test needed it

func TestMain(m *testing.M) {
	status := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(status)
}

func rlxrun() string { return filepath.Join(tools(), "rlxrun") }
func rlxc() string   { return filepath.Join(tools(), "rlxc") }

// numpy makes a folder with the example as an executable that finds the package.
func numpy(t *testing.T) (dir, backend string) {
	t.Helper()
	py, dir := python(t), t.TempDir()
	sdk, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	backend = filepath.Join(dir, "rlx-backend-numpy")
	script := fmt.Sprintf("#!%s\nimport runpy, sys\nsys.path.insert(0, %q)\nrunpy.run_path(%q, run_name='__main__')\n",
		py, sdk, filepath.Join(sdk, "examples", "rlx-backend-numpy"))
	if err := os.WriteFile(backend, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, backend
}

// sample returns the flags of plugins test that choose among the checks of ops: all of them, or a sample with the seed
// in RLX_CONFORMANCE, of the smaller cases: those of the interpreter take long.
func sample() []string {
	if seed := cmp.Or(os.Getenv("RLX_CONFORMANCE"), "1"); seed != "all" {
		return []string{"--seed", seed, "--quick"}
	}
	return []string{"--full"}
}

// fewOps are the flags of plugins test for what does not depend on the kernels: the checks of the protocol and of three
// ops.
var fewOps = []string{"-o", "add", "-o", "matmul", "-o", "softmax"}

// someOps returns the flags of plugins test for a sixth of the ops, chosen by RLX_CONFORMANCE, or none for all.
func someOps(t *testing.T) (flags []string) {
	defs := ir.Defs()
	most := uint64(len(defs))
	chosen := devicetest.Some(t, most/6, most)
	if uint64(len(chosen)) == most {
		return nil
	}
	for _, i := range chosen {
		if name := defs[i].Name; devicetest.CheckOps([]string{name}) == nil {
			flags = append(flags, "-o", name)
		}
	}
	return flags
}

// TestConformance checks that the example passes the checks of the suite: in shared memory those of a sample of the
// ops, or in chunks those of a few ops. Each commit draws one of the two.
func TestConformance(t *testing.T) {
	_, backend := numpy(t)
	for _, transport := range devicetest.SomeOf(t, 1, []string{"shm", "chunks"}) {
		ops := map[string][]string{"shm": someOps(t), "chunks": fewOps}[transport]
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			// without the sandbox, because the interpreter's packages may be anywhere
			out := run(
				t, rlxrun(),
				append([]string{"plugins", "test", backend, "--sandbox=off", "--quiet", "--transport", transport},
					slices.Concat(sample(), ops)...)...)
			if !regexp.MustCompile(`(?m)^numpy 1\.0: [0-9]{2,} passed, 0 failed, `).MatchString(out) {
				t.Errorf("plugins test: %s", out)
			}
		})
	}
}

// TestWithoutMapping checks that a backend that reads and writes the shared region and the artifact only by pread and
// pwrite passes the suite.
func TestWithoutMapping(t *testing.T) {
	t.Parallel()
	dir, backend := numpy(t)
	script, err := os.ReadFile(backend)
	if err != nil {
		t.Fatal(err)
	}
	head, tail, _ := strings.Cut(string(script), "runpy.run_path(")
	if err := os.WriteFile(backend, []byte(head+withoutMapping+"runpy.run_path("+tail), 0o755); err != nil {
		t.Fatal(err)
	}
	out := run(t, rlxrun(), slices.Concat(
		[]string{"plugins", "test", backend, "--sandbox=off", "--quiet", "--transport", "shm"}, sample(), fewOps)...)
	if !regexp.MustCompile(`(?m)^numpy 1\.0: [0-9]{2,} passed, 0 failed, `).MatchString(out) {
		t.Errorf("plugins test: %s", out)
	}
	graph := "graph f\nx = input : f32[2,3]\nw = param : f32[3]\ny = add x, w : f32[2,3]\nreturn y=y\n"
	source, target, artifact := filepath.Join(dir, "f.txt"), filepath.Join(dir, "numpy.target"),
		filepath.Join(dir, "f.rlx")
	if err := os.WriteFile(source, []byte(graph), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, rlxrun(), "plugins", "describe", "numpy", "--plugin=numpy="+backend, "--sandbox=off", "-o", target)
	run(t, rlxc(), source, "--target", target, "-o", artifact)
	run(t, rlxrun(), artifact, "-b", "numpy", "--plugin=numpy="+backend, "--sandbox=off", "--random", "1", "--check",
		"-o", "-")
}

// withoutMapping replaces what the package maps.
const withoutMapping = `
import mmap, os, struct, threading, time
import numpy as np
import rlx_backend
from rlx_backend import region, run
from rlx_backend import service
del mmap.mmap

def read(fd, offset, size):
    data = bytearray()
    while len(data) < size:
        data += os.pread(fd, size - len(data), offset + len(data))
    return np.frombuffer(data, np.uint8)

class Region:
    def __init__(self, fd):
        self.fd, self.data = fd, None
        assert os.pread(fd, 8, 0) == b"RLXIOREG"
        threading.Thread(target=self.live, daemon=True).start()
        Region.only = self

    def word(self, offset, value):
        assert os.pwrite(self.fd, struct.pack("<q", value), offset) == 8

    def live(self):
        for n in range(1, 1 << 62):
            self.word(64, n)
            time.sleep(0.1)

    def begin(self, generation):
        self.word(136, 0)
        self.word(128, generation)

    def step(self, started):
        self.word(136, started)

    def map(self, size):
        if os.fstat(self.fd).st_size != 65536 + size:
            raise region.Refused("load: io_size")
        if self.data is None:
            self.data = region.aligned(size)
        return self.data

execute = run.Execution.execute
def read_execute_write(self, on_step, on_dump):
    r = getattr(Region, "only", None)
    for i, node in enumerate(self.e.program.inputs):
        v = self.values[node]
        if r and i not in self.fed:
            self.e.io[v.offset : v.offset + v.bytes] = read(r.fd, 65536 + v.offset, v.bytes)
    total = execute(self, on_step, on_dump)
    for i, (_, node) in enumerate(self.e.program.outputs):
        v = self.values[node]
        if r and self.wanted[i] and v.bytes:
            assert os.pwrite(r.fd, self.e.io[v.offset : v.offset + v.bytes].tobytes(), 65536 + v.offset) == v.bytes
    return total
run.Execution.execute = read_execute_write

def weights(fd, offset, size):
    if offset < 0 or offset + size > os.fstat(fd).st_size:
        raise region.Refused("load: weights")
    out = region.aligned(size)
    out[:] = read(fd, offset, size)
    return out
service.Region, service.map_weights = Region, weights
`

// TestExample checks that the numpy backend draws the demo's mask and generates the same text as Transformers.
func TestExample(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs the demo models")
	}
	t.Parallel()
	dir, backend := numpy(t)
	plugin := "--plugin=numpy=" + backend
	target, artifact := filepath.Join(dir, "numpy.target"), filepath.Join(dir, "sam.rlx")
	run(t, rlxrun(), "plugins", "describe", "numpy", plugin, "--sandbox=off", "-o", target)
	run(t, rlxc(), "../../demo/sam-nano.safetensors", "--target", target, "-o", artifact)
	mask := filepath.Join(dir, "mask.png")
	run(t, rlxrun(), artifact, "-b", "numpy", plugin, "--sandbox=off", "--image", "../../demo/scene1.png", "--point",
		"128,128", "-o", mask)
	if iou := overlap(t, mask, "../../demo/scene1.mask.png"); iou < 0.98 {
		t.Errorf("the mask has an IoU of %g with the demo's", iou)
	}

	text := filepath.Join(dir, "llama.rlx")
	run(t, rlxc(), "../../demo/llama", "--dtype", "f32", "--target", target, "-o", text)
	var want, got struct{ IDs []int }
	golden, err := os.ReadFile("../../demo/llama/golden.json")
	if err == nil {
		err = json.Unmarshal(golden, &want)
	}
	if err == nil {
		err = json.Unmarshal(
			[]byte(
				run(t, rlxrun(), text, "-b", "numpy", plugin, "--sandbox=off", "--prompt", "ROMEO:", "-n", "12",
					"--temperature", "0", "--format", "json")), &got)
	}
	if err != nil || len(got.IDs) != 12 || !slices.Equal(got.IDs, want.IDs[:12]) {
		t.Errorf("tokens %v, %v; want %v", got.IDs, err, want.IDs)
	}
}

// overlap returns the IoU of two masks.
func overlap(t *testing.T, paths ...string) float64 {
	t.Helper()
	var masks []image.Image
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := png.Decode(f)
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		masks = append(masks, m)
	}
	if masks[0].Bounds() != masks[1].Bounds() {
		t.Fatalf("sizes %v and %v", masks[0].Bounds(), masks[1].Bounds())
	}
	both, either := 0, 0
	for y := range masks[0].Bounds().Dy() {
		for x := range masks[0].Bounds().Dx() {
			a, _, _, _ := masks[0].At(x, y).RGBA()
			b, _, _, _ := masks[1].At(x, y).RGBA()
			if a != 0 && b != 0 {
				both++
			}
			if a != 0 || b != 0 {
				either++
			}
		}
	}
	return float64(both) / float64(max(either, 1))
}

// TestLoop checks that a loop of 100,000 iterations is one step with a short file, reads a weight, and ends with the
// error of an iteration.
func TestLoop(t *testing.T) {
	t.Parallel()
	dir, backend := numpy(t)
	plugin := []string{"-b", "numpy", "--plugin=numpy=" + backend, "--sandbox=off"}
	graph := `graph body
h = input : f32[3]
i = input : i32[]
x = input : f32[3,5]
w = param : f32[3]
one = const {value=1} : i32[]
j = sub i, one : i32[]
v = gather x, i {axis=1} : f32[3]
m = mul h, w : f32[3]
z = sub v, m : f32[3]
return z=z, j=j, x=x

graph more
h = input : f32[3]
i = input : i32[]
x = input : f32[3,5]
n = const {value=%d} : i32[]
c = gt i, n : bool[]
return c=c

graph main
h = input : f32[3]
x = input : f32[3,5]
i = const {value=4} : i32[]
y = while h, i, x {body=@body, cond=@more, max_iterations=100000, result=0} : f32[3]
return y=y
`
	target := filepath.Join(dir, "numpy.target")
	run(t, rlxrun(), "plugins", "describe", "numpy", plugin[2], plugin[3], "-o", target)
	artifact := func(last int) string {
		source := filepath.Join(dir, fmt.Sprint("loop", last, ".txt"))
		if err := os.WriteFile(source, fmt.Appendf(nil, graph, last), 0o644); err != nil {
			t.Fatal(err)
		}
		run(t, rlxc(), source, "--target", target, "-o", source+".rlx")
		if info, err := os.Stat(source + ".rlx"); err != nil || info.Size() > 100_000 {
			t.Errorf("%v: the artifact has %d bytes", err, info.Size())
		}
		return source + ".rlx"
	}
	args := func(last int) []string {
		return append([]string{artifact(last), "--random", "1", "-o", "-", "--check"}, plugin...)
	}
	run(t, rlxrun(), args(-1)...)
	out, err := exec.Command(rlxrun(), args(-2)...).CombinedOutput()
	want := "iteration 5: gather v: gather: an index is -1; the axis has 5 (RLX3001"
	if err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s; want %q", err, out, want)
	}
}

// If a kernel raises an exception, the user sees the step, its op and the exception.
func TestKernelRaises(t *testing.T) {
	t.Parallel()
	py, dir := python(t), t.TempDir()
	sdk, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`#!%s
import sys
sys.path.insert(0, %q)
from rlx_backend import Backend, Device, serve
b = Backend("raises", "1", [Device("0", "x")])
@b.kernel("neg")
def neg(attrs, x, out):
    raise KeyError("no such table")
serve(b)
`, py, sdk)
	graph := "graph f\nx = input : f32[4]\ny = neg x : f32[4]\nreturn y=y\n"
	for name, text := range map[string]string{"rlx-backend-raises": script, "f.txt": graph,
		"raises.target": "target raises 1\ntypes f32 i32 i64 bool\n\nrun neg(f32...)\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run(t, rlxc(), filepath.Join(dir, "f.txt"), "--target", filepath.Join(dir, "raises.target"), "-o",
		filepath.Join(dir, "f.rlx"))
	out, err := exec.Command(rlxrun(), filepath.Join(dir, "f.rlx"), "-b", "raises", "--plugin",
		"raises="+filepath.Join(dir, "rlx-backend-raises"), "--sandbox=off", "--random", "1", "-o",
		"-").CombinedOutput()
	if want := "backend raises: step 1 of 1 (neg y): KeyError: 'no such table' (RLX5111"; err == nil ||
		!strings.Contains(string(out), want) {
		t.Errorf("%v: %s; want %q", err, out, want)
	}
}

// TestTutorial checks that the programs and the commands of two pages work in their order.
func TestTutorial(t *testing.T) {
	for _, page := range []string{"backend-tutorial.md", "custom-ops.md"} {
		t.Run(page, func(t *testing.T) { tutorial(t, page) })
	}
}

func tutorial(t *testing.T, name string) {
	t.Parallel()
	py, dir := python(t), t.TempDir()
	sdk, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```(python|sh)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 5 {
		t.Fatalf("the tutorial has %d blocks", len(blocks))
	}
	for _, b := range blocks {
		if b[1] == "python" {
			text := strings.Replace(b[2], "#!/usr/bin/env python3", "#!"+py, 1)
			if err := os.WriteFile(filepath.Join(dir, "rlx-backend-mine"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if strings.Contains(b[2], "plugins install") && !regexp.MustCompile("^/(usr|opt|s?bin)/").MatchString(py) {
			t.Logf("%s is where no sandbox lets a script read: nothing is installed", py)
			continue
		}
		cmd := exec.Command("sh", "-ec", b[2])
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+tools()+":"+os.Getenv("PATH"), "SDK="+sdk, "RLX_MINE_SDK="+sdk,
			"XDG_DATA_HOME="+dir+"/data")
		out, err := cmd.CombinedOutput()
		t.Logf("%s%s", b[2], out)
		if err != nil || strings.Contains(string(out), "RLX5") {
			t.Fatalf("%s%v", b[2], err)
		}
	}
}
