// Package rust_test runs the tests of the Rust crate, the conformance suite on its example, and the Rust part of the
// tutorial. Compiling the crate and its dependencies takes minutes, so the tests run only if RLX_REQUIRE_RUST is set,
// as make test-rust does. They need cargo and a C compiler.
package rust_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rlx-go/rlx/internal/testbin"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// cargo skips the test unless RLX_REQUIRE_RUST is set, and returns the folder for compiled crates.
func cargo(t *testing.T) (target string) {
	t.Helper()
	if os.Getenv("RLX_REQUIRE_RUST") == "" {
		t.Skip("make test-rust runs it")
	}
	target, err := filepath.Abs(cmp.Or(os.Getenv("CARGO_TARGET_DIR"), "target"))
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// run runs a command in a folder, with the folder bin first in PATH, and logs how long it took.
func run(t *testing.T, dir, bin, target, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "CARGO_TARGET_DIR="+target, "PATH="+bin+":"+os.Getenv("PATH"))
	began := time.Now()
	out, err := cmd.CombinedOutput()
	t.Logf("%.1f s: %s %.60s", time.Since(began).Seconds(), filepath.Base(name), strings.Join(args, " "))
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// build builds rlxrun and rlxc and returns their folder.
func build(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	for _, name := range []string{"rlxrun", "rlxc"} {
		if err := testbin.Build(filepath.Join(bin, name), "cmd/"+name); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// TestMessages checks that src/proto has every field of the protocol. The test needs no Rust, so it fails for everybody
// who changes the protocol but not the crate.
func TestMessages(t *testing.T) {
	source, err := os.ReadFile("src/proto/rlx.v1.rs")
	if err != nil {
		t.Fatal(err)
	}
	types := regexp.MustCompile(`(?s)pub struct (\w+) \{\n(.*?)\n\}`).FindAllSubmatch(source, -1)
	bodies := map[string]string{}
	for _, m := range types {
		bodies[string(m[1])] = string(m[2])
	}
	messages := rlxv1.File_rlx_v1_backend_proto.Messages()
	for i := range messages.Len() {
		m := messages.Get(i)
		if m.IsMapEntry() {
			continue
		}
		body, ok := bodies[string(m.Name())]
		if m.Fields().Len() > 0 && !ok {
			t.Errorf("no struct %s", m.Name())
		}
		for j := range m.Fields().Len() {
			if f := m.Fields().Get(j); !has(body, f) {
				t.Errorf("%s has no %s = %d: RLX_UPDATE=1 cargo test --test generated", m.Name(), f.Name(), f.Number())
			}
		}
	}
}

// has reports whether the fields of a struct include one with this number and name. A oneof's fields are in an enum,
// and the struct has only their numbers.
func has(body string, f protoreflect.FieldDescriptor) bool {
	if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
		return regexp.MustCompile(
			fmt.Sprintf(`tags = "[^"]*\b%d\b[^"]*"\)\]\s*pub %s:`, f.Number(), o.Name())).MatchString(body)
	}
	return regexp.MustCompile(fmt.Sprintf(`tag = "%d"\)\]\s*pub (r#)?%s:`, f.Number(), f.Name())).MatchString(body)
}

// TestCrate checks format, lints, documentation, unit tests and the examples in the documentation.
func TestCrate(t *testing.T) {
	target := cargo(t)
	for _, args := range []string{"fmt --check", "clippy --all-targets --locked -- -D warnings", "test --locked"} {
		run(t, ".", "", target, "cargo", strings.Fields(args)...)
	}
}

// TestExample checks that the example passes the whole conformance suite over both transports, in the sandbox.
func TestExample(t *testing.T) {
	target, bin := cargo(t), build(t)
	run(t, ".", bin, target, "cargo", "build", "--locked", "--example", "rlx-backend-loops")
	out := run(t, ".", bin, target, filepath.Join(bin, "rlxrun"), "plugins", "test",
		filepath.Join(target, "debug/examples/rlx-backend-loops"), "--full", "--quiet", "--transport=both")
	t.Log(out)
	if !regexp.MustCompile(`(?m)^loops 1\.0: [0-9]{4,} passed, 0 failed, `).MatchString(out) {
		t.Errorf("plugins test: %s", out)
	}
}

// TestLoop checks that a loop is one step of the example, whose body reads a weight; an error names the iteration.
func TestLoop(t *testing.T) {
	target, bin, dir := cargo(t), build(t), t.TempDir()
	run(t, ".", bin, target, "cargo", "build", "--locked", "--example", "rlx-backend-loops")
	plugin := "--plugin=loops=" + filepath.Join(target, "debug/examples/rlx-backend-loops")
	run(t, dir, bin, target, filepath.Join(bin, "rlxrun"), "plugins", "describe", "loops", plugin, "-o", "loops.target")
	fails := "iteration 2: gather v: gather: index -1 is outside 0 to 3 (RLX3001"
	for least, want := range map[int]string{0: "", -1: fails} {
		graph := fmt.Sprintf(`graph body
h = input : f32[3]
i = input : i32[]
w = param : f32[4,3]
one = const {value=1} : i32[]
least = const {value=%d} : i32[]
k = sub i, one : i32[]
j = max k, least : i32[]
v = gather w, j {axis=0} : f32[3]
z = sub v, h : f32[3]
return z=z, j=j

graph main
h = input : f32[3]
i = const {value=2} : i32[]
y = scan h, i {body=@body, carried=2, length=3000, result=0} : f32[3]
return y=y
`, least)
		if err := os.WriteFile(filepath.Join(dir, "loop.txt"), []byte(graph), 0o644); err != nil {
			t.Fatal(err)
		}
		run(t, dir, bin, target, filepath.Join(bin, "rlxc"), "loop.txt", "--target", "./loops.target", "-o", "loop.rlx")
		if info, err := os.Stat(filepath.Join(dir, "loop.rlx")); err != nil || info.Size() > 100_000 {
			t.Errorf("%v: the artifact has %d bytes", err, info.Size())
		}
		cmd := exec.Command(filepath.Join(bin, "rlxrun"), "loop.rlx", "-b", "loops", plugin, "--random", "1", "--check",
			"-o", "-")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if (err == nil) != (want == "") || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s; want %q", err, out, want)
		}
	}
}

// TestTutorial checks that the files and commands of the Rust part of docs/backend-tutorial.md work in their order.
func TestTutorial(t *testing.T) {
	target, bin, dir := cargo(t), build(t), t.TempDir()
	sdk, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/backend-tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	layer := regexp.MustCompile(`(?s)\n(cat > layer\.txt .*?\nEOF\n)`).FindSubmatch(page)
	_, part, ok := strings.Cut(string(page), "## In Rust\n")
	part, _, end := strings.Cut(part, "\n## ")
	blocks := regexp.MustCompile("(?s)```(toml|rust|shell)\n(.*?)```").FindAllStringSubmatch(part, -1)
	if layer == nil || !ok || !end || len(blocks) < 4 {
		t.Fatalf("the tutorial has %d blocks", len(blocks))
	}
	run(t, dir, bin, target, "sh", "-ec", string(layer[1]))
	if err := os.Symlink(target, filepath.Join(dir, "target")); err != nil { // reuse the compiled dependencies
		t.Fatal(err)
	}
	lock, err := os.ReadFile("Cargo.lock")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "Cargo.lock"), lock, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		text := strings.ReplaceAll(b[2], "$SDK", sdk)
		switch b[1] {
		case "shell":
			out := run(t, dir, bin, target, "sh", "-ec", text)
			t.Logf("%s%s", text, out)
			if strings.Contains(out, "RLX5") {
				t.Fatal("plugins list has an error")
			}
		case "toml":
			err = os.WriteFile(filepath.Join(dir, "Cargo.toml"), []byte(text), 0o644)
		case "rust":
			err = os.MkdirAll(filepath.Join(dir, "src"), 0o755)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "src/main.rs"), []byte(text), 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
