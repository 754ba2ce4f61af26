package rlx_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport lists, for each folder, the folders of this module that it may import directly. Every folder must be
// listed. "x/..." stands for x and everything below it.
var mayImport = map[string][]string{
	"core/diag":   {},
	"core/code":   {"core/diag"},
	"core/dtype":  {},
	"core/random": {},
	"core/quant":  {"core/dtype"},
	"core/tensor": {"core/dtype"},
	"core/ir":     {"core/dtype", "core/tensor"},
	"core/splat":  {},
	"core/op":     {"core/ir", "core/dtype", "core/quant", "core/splat", "core/tensor", "core/random"},
	"core/custom": {"core/code", "core/diag", "core/dtype", "core/interp", "core/ir", "core/op",
		"core/tensor"},
	"core/grad":            {"core/code", "core/diag", "core/dtype", "core/ir", "core/op"},
	"core/hir":             {"core/op", "core/ir", "core/dtype", "core/tensor"},
	"core/program":         {"core/ir", "core/dtype", "core/tensor"},
	"task":                 {"core/code", "core/diag", "core/dtype", "core/ir", "core/tensor"},
	"core/target":          {"core/ir", "core/dtype"},
	"core/runner":          {"core/device", "core/program", "core/op", "core/diag", "core/ir", "core/tensor"},
	"core/hir/controltest": {"core/hir", "core/op", "core/ir", "core/dtype"},
	"core/device": {"core/code", "core/target", "core/program", "core/diag", "core/ir", "core/dtype",
		"core/tensor"},
	"core/devicetest": {"core/code", "core/custom", "core/device", "core/target", "core/diag", "core/dtype",
		"core/interp", "core/ir",
		"core/op", "core/plan", "core/program", "core/sched", "core/tensor"},
	"core/interp":  {"core/ir", "core/op", "core/program", "core/quant", "core/tensor", "core/dtype"},
	"core/plan":    {"core/program", "core/ir"},
	"core/sched":   {"core/plan", "core/program", "core/ir", "core/op"},
	"core/split":   {"core/program", "core/op", "core/ir", "core/dtype"},
	"core/rewrite": {"core/ir"},
	"core/pass": {"core/grad", "core/target", "core/code", "core/custom", "core/rewrite", "core/op", "core/ir",
		"core/dtype", "core/tensor",
		"core/diag"},
	"core/compile": {"core/code", "core/custom", "core/interp", "core/pass", "core/target", "core/plan", "core/sched",
		"core/split",
		"core/program", "core/op", "core/ir", "core/dtype", "core/tensor", "core/diag"},

	"task/tasktest":  {"task"},
	"task/text/chat": {"internal/jinja", "core/code", "core/diag"},

	".": {"core/code", "core/device", "core/diag", "core/dtype", "core/interp", "core/ir",
		"core/program", "core/tensor", "format", "internal/backends", "internal/budget", "internal/ctxio",
		"internal/owned", "internal/regular", "internal/safetensors", "internal/units", "plugins/rpc/host", "task"},
	"format": {"core/code", "core/program", "core/op", "core/ir", "core/dtype", "core/tensor", "core/diag",
		"task", "internal/atomicfile", "internal/ctxio", "internal/owned", "internal/regular"},
	"segment": {".", "core/code", "core/diag", "core/tensor", "internal/imaging", "internal/tokenizer", "task"},
	"patches": {".", "core/code", "core/diag", "core/tensor", "internal/imaging", "internal/patching", "task"},
	"text": {".", "core/code", "core/device", "core/diag", "core/dtype", "core/op", "core/tensor", "internal/grammar", "internal/regular",
		"internal/imaging", "internal/patching",
		"internal/peft", "internal/safetensors", "internal/tokenizer", "task", "task/text/chat"},
	"train": {".", "core/code", "core/device", "core/diag", "core/dtype", "core/tensor", "internal/atomicfile",
		"internal/imaging", "internal/peft", "internal/ply", "internal/regular", "internal/safetensors",
		"internal/views", "task"},
	"internal/peft":       {"core/code", "core/diag", "internal/regular"},
	"task/imaging":        {"core/code", "core/diag"},
	"task/text/tokenizer": {"core/code", "core/diag", "internal/strictjson"},
	// the kinds
	"task/...": {"core/code", "task", "task/imaging", "core/diag", "core/dtype", "core/ir", "core/tensor"},

	"plugins/rpc/rlxv1":            {},
	"plugins/rpc/internal/sandbox": {},
	"plugins/rpc/internal/wire": {"plugins/rpc/rlxv1", "core/code", "core/device", "core/target", "core/program",
		"core/diag", "core/tensor"},
	"plugins/rpc/internal/server": {"plugins/rpc/rlxv1", "plugins/rpc/internal/wire", "core/code", "core/device",
		"core/program", "core/diag", "core/tensor", "internal/peakrss"},
	"plugins/rpc/serve": {"plugins/rpc/internal/server", "plugins/rpc/internal/wire", "core/device",
		"core/program", "internal/release"}, // for --version
	"plugins/rpc/host": {"plugins/rpc/rlxv1", "plugins/rpc/internal/sandbox", "plugins/rpc/internal/wire",
		"core/code", "core/device", "core/program", "core/diag", "core/tensor", "core/ir", "internal/filelock",
		"internal/owned", "internal/peakrss"},
	"plugins/rpc/protocoltest": {"plugins/rpc/rlxv1", "plugins/rpc/host", "plugins/rpc/internal/wire", "core/code",
		"core/device", "core/program", "core/diag", "core/ir"},
	// for tests only
	"plugins/rpc/internal/rpctest": {"plugins/rpc/rlxv1", "plugins/rpc/internal/server", "plugins/rpc/internal/wire",
		"plugins/rpc/serve", "core/...", "format"},

	"plugins/null": {"sdk/backend"},
	"sdk/backend": {"core/device", "core/diag", "core/dtype", "core/ir", "core/op", "core/program", "core/runner",
		"core/target", "core/tensor", "format", "plugins/rpc/serve"},
	"sdk/backend/example": {"sdk/backend"},
	// a module of its own, so that only its users have what Beam needs
	"beam": {".", "core/code", "core/device", "core/diag", "internal/atomicfile", "internal/imaging",
		"internal/maskfiles", "internal/regular", "patches", "segment", "task", "text"},
	"beam/cmd/rlxbatch": {"beam", "core/diag", "internal/maskfiles", "segment"},
	"plugins/cpu": {"plugins/cpu/backend", "plugins/rpc/serve", "core/device",
		"core/op", "core/program", "core/ir", "core/dtype", "core/tensor", "core/diag", "format"},
	"plugins/cpu/backend": {"core/code", "core/runner", "plugins/cpu/kernels/...", "core/device", "core/target", "core/op",
		"core/program", "core/ir", "core/dtype", "core/tensor", "core/diag", "internal/sysmem"},
	// the kernels, in layers: see plugins/cpu/kernels/doc.go
	"plugins/cpu/kernels":      {},
	"plugins/cpu/kernels/isa":  {"core/code", "core/diag"},
	"plugins/cpu/kernels/pool": {"plugins/cpu/kernels/isa"},
	"plugins/cpu/kernels/vec":  {"plugins/cpu/kernels/isa", "core/dtype"},
	"plugins/cpu/kernels/stored": {"plugins/cpu/kernels/isa", "plugins/cpu/kernels/pool", "plugins/cpu/kernels/vec",
		"core/dtype", "core/quant"},
	"plugins/cpu/kernels/elementwise": {"plugins/cpu/kernels/isa", "plugins/cpu/kernels/pool",
		"plugins/cpu/kernels/vec", "core/code", "core/diag", "core/dtype", "core/op"},
	"plugins/cpu/kernels/layout": {"plugins/cpu/kernels/isa", "plugins/cpu/kernels/pool", "plugins/cpu/kernels/vec",
		"plugins/cpu/kernels/elementwise", "core/code", "core/diag", "core/dtype"},
	"plugins/cpu/kernels/reduce": {"plugins/cpu/kernels/isa", "plugins/cpu/kernels/pool", "plugins/cpu/kernels/vec",
		"plugins/cpu/kernels/stored", "plugins/cpu/kernels/elementwise", "plugins/cpu/kernels/layout", "core/dtype"},
	"plugins/cpu/kernels/product": {"plugins/cpu/kernels/isa", "plugins/cpu/kernels/pool", "plugins/cpu/kernels/vec",
		"plugins/cpu/kernels/stored", "plugins/cpu/kernels/elementwise", "plugins/cpu/kernels/layout",
		"plugins/cpu/kernels/reduce", "core/code", "core/diag", "core/dtype", "core/quant"},
	"plugins/cpu/kernels/norm": {"plugins/cpu/kernels/isa", "plugins/cpu/kernels/pool", "plugins/cpu/kernels/vec",
		"plugins/cpu/kernels/stored", "plugins/cpu/kernels/elementwise", "plugins/cpu/kernels/reduce",
		"plugins/cpu/kernels/product", "core/dtype"},
	"plugins/cpu/kernels/quad": {"plugins/cpu/kernels/isa", "plugins/cpu/kernels/pool", "plugins/cpu/kernels/stored",
		"plugins/cpu/kernels/elementwise", "plugins/cpu/kernels/product", "core/dtype"},
	"plugins/cpu/kernels/attention": {"plugins/cpu/kernels/isa", "plugins/cpu/kernels/pool",
		"plugins/cpu/kernels/vec", "plugins/cpu/kernels/stored", "plugins/cpu/kernels/elementwise",
		"plugins/cpu/kernels/reduce", "plugins/cpu/kernels/product", "plugins/cpu/kernels/norm", "core/dtype"},
	"plugins/cpu/kernels/conv": {"plugins/cpu/kernels/isa", "plugins/cpu/kernels/pool", "plugins/cpu/kernels/vec",
		"plugins/cpu/kernels/stored", "plugins/cpu/kernels/elementwise", "plugins/cpu/kernels/reduce",
		"plugins/cpu/kernels/product", "plugins/cpu/kernels/quad"},
	"plugins/cpu/kernels/solve": {"plugins/cpu/kernels/pool"},
	"plugins/cpu/kernels/fft":   {"plugins/cpu/kernels/isa", "plugins/cpu/kernels/pool", "plugins/cpu/kernels/vec"},
	"plugins/cpu/kernels/scan": {"plugins/cpu/kernels/isa", "plugins/cpu/kernels/pool", "plugins/cpu/kernels/vec",
		"plugins/cpu/kernels/elementwise", "plugins/cpu/kernels/product",
		"plugins/cpu/kernels/stored"},
	"plugins/cpu/kernels/ranking": {"plugins/cpu/kernels/pool", "plugins/cpu/kernels/layout",
		"plugins/cpu/kernels/reduce", "core/dtype"},
	"plugins/cpu/kernels/raster": {"plugins/cpu/kernels/pool", "core/splat"},
	"plugins/cpu/kernels/sample": {"plugins/cpu/kernels/isa", "plugins/cpu/kernels/pool",
		"plugins/cpu/kernels/stored", "plugins/cpu/kernels/elementwise", "plugins/cpu/kernels/reduce", "core/random"},
	"plugins/cpu/kernels/internal/kerneltest": {"plugins/cpu/kernels/isa", "plugins/cpu/kernels/pool",
		"plugins/cpu/kernels/stored", "core/dtype", "core/tensor"},
	"plugins/cuda": {"plugins/internal/gpu", "plugins/cuda/driver", "plugins/rpc/serve", "format"},
	"plugins/cuda/driver": {"plugins/cuda/matrix", "plugins/cuda/ptx", "plugins/internal/gpu",
		"plugins/internal/gpu/kernels", "core/device", "core/diag", "internal/owned"},
	"plugins/cuda/matrix": {"plugins/cuda/ptx", "plugins/internal/gpu/kernels", "core/dtype", "core/ir", "core/op"},
	"plugins/cuda/ptx":    {"plugins/internal/wgsl"},
	"plugins/cuda/shim": {"plugins/cuda/ptx", "plugins/internal/gpu", "plugins/internal/gpu/kernels",
		"core/device", "core/diag"},
	"plugins/metal": {"plugins/metal/driver", "plugins/metal/shim", "plugins/rpc/serve", "format"},
	"plugins/metal/driver": {"plugins/metal/msl", "plugins/internal/gpu", "plugins/internal/gpu/kernels",
		"core/device", "core/diag", "core/tensor", "internal/owned"},
	"plugins/metal/msl": {"plugins/internal/wgsl"},
	"plugins/metal/shim": {"plugins/metal/msl", "plugins/internal/gpu", "plugins/internal/gpu/kernels",
		"core/device", "core/diag"},
	"plugins/wgpu":                   {"plugins/wgpu/backend", "plugins/internal/gpu", "plugins/rpc/serve", "format"},
	"plugins/internal/wgsl":          {},
	"plugins/internal/wgsl/wgsltest": {"plugins/internal/wgsl"},
	"plugins/internal/gpu": {"plugins/internal/gpu/kernels", "core/device", "core/target", "core/op",
		"core/program", "core/ir", "core/dtype", "core/tensor", "core/diag"},
	"plugins/wgpu/backend": {"core/code", "plugins/internal/gpu", "plugins/internal/gpu/kernels", "core/device",
		"core/target", "core/op", "core/program", "core/ir", "core/dtype", "core/tensor", "core/diag"},
	"plugins/internal/gpu/kernels": {"core/target", "core/op", "core/program", "core/ir", "core/dtype", "core/splat",
		"core/tensor", "core/diag"},

	"models/gguf": {"models/weights", "core/code", "core/diag", "core/dtype", "internal/gguf", "internal/lazyregexp",
		"internal/regular"},
	"models/llm": {"models/nn", "models/arch", "models/qwen3vl", "core/hir", "core/op", "core/ir", "core/diag", "core/dtype",
		"task"},
	"models/ply":   {"models/weights", "core/code", "core/diag", "core/dtype", "internal/ply", "internal/regular"},
	"internal/ply": {},
	"models/views": {"models/ply", "models/weights", "core/code", "core/diag", "core/dtype", "internal/regular",
		"internal/views"},
	"models/weights": {"models/arch", "core/code", "core/diag", "core/dtype", "core/ir", "core/quant",
		"internal/lazyregexp", "internal/regular", "internal/safetensors", "internal/strictjson"},
	"models/arch":  {"core/code", "core/diag", "core/ir", "task", "internal/regular", "internal/tokenizer"},
	"models/train": {"core/grad", "core/op", "core/ir", "core/dtype", "task"},
	"models/nn":    {"models/arch", "core/hir", "core/op", "core/ir", "core/diag", "core/dtype"},
	"models/onnx": {"models/onnx/onnxpb", "core/code", "core/custom", "core/diag", "core/dtype", "core/hir",
		"core/interp", "core/ir", "core/op", "core/tensor", "internal/regular"},
	"models/onnx/onnxpb": {},
	"models/promptable": {"models/nn", "models/arch", "task", "core/diag", "core/hir", "core/op", "core/ir", "core/dtype",
		"internal/lazyregexp"},
	// the families
	"models/...": {"models/nn", "models/arch", "models/promptable", "core/hir", "core/op", "core/ir", "core/diag", "core/dtype",
		"internal/lazyregexp", "internal/tokenizer", "task"},

	"spec":     {},
	"cmd/rlxc": {"compile", "core/...", "task", "format", "models/weights", "internal/...", "spec"},
	"cmd/rlxrun": {".", "internal/api", "internal/bridge", "internal/inference", "segment", "patches", "text", "train",
		"core/code", "core/custom", "core/device",
		"core/devicetest", "core/diag",
		"core/dtype", "core/interp", "core/ir", "core/program", "task", "core/tensor", "format", "plugins/rpc/host",
		"plugins/rpc/protocoltest", "internal/..."},
	"compile": {"core/...", "task", "format", "models/...", "internal/budget", "internal/ctxio", "internal/regular",
		"internal/release"},

	"internal/...":                   {"core/...", "task", "internal/..."},
	"internal/peakrss":               {},
	"internal/filelock":              {},
	"internal/lazyregexp":            {},
	"internal/sysmem":                {},
	"internal/values":                {"core/...", "format", "internal/..."},
	"internal/capsule":               {"core/...", "format", "internal/..."},
	"internal/installed":             {"core/code", "core/diag", "internal/...", "plugins/rpc/host"},
	"internal/jinja":                 {},
	"internal/tensortest":            {"core/...", "internal/...", "models/weights"},
	"internal/modeltest":             {"core/...", "internal/...", "models/weights", "models/arch"},
	"bench/ops":                      {"core/...", "bench/measure", "plugins/cpu/backend", "plugins/wgpu/backend"},
	"bench/onnx":                     {".", "compile", "core/...", "models/onnx", "models/onnx/onnxpb"},
	"bench/...":                      {"core/...", "bench/measure", "internal/...", "format", "plugins/cpu/kernels/..."},
	"internal/backends":              {"core/code", "core/diag", "internal/...", "plugins/rpc/host"},
	"internal/imaging":               {"core/code", "core/diag"},
	"internal/patching":              {"core/code", "core/diag", "internal/imaging"},
	"internal/views":                 {"core/code", "core/diag", "internal/imaging", "internal/regular"},
	"internal/tokenizer":             {"core/code", "core/diag", "internal/strictjson"},
	"internal/localpage":             {"core/diag"},
	"internal/localpage/pagetest":    {},
	"internal/bridge":                {".", "core/code", "core/diag", "core/dtype", "internal/atomicfile", "internal/ctxio", "segment", "text"},
	"internal/grammar":               {"core/code", "core/diag"},
	"internal/api":                   {".", "core/diag", "internal/localpage"},
	"internal/otlp":                  {"core/diag"},
	"internal/otlp/otlptest":         {},
	"internal/openai":                {".", "core/diag", "internal/api", "internal/imaging", "text"},
	"internal/inference":             {".", "core/diag", "core/dtype", "internal/api", "internal/inference/inferencepb", "task"},
	"internal/inference/inferencepb": {},
	"internal/coco":                  {"segment"},
	"internal/registry":              {"core/code", "core/diag", "internal/atomicfile", "internal/ctxio", "internal/filelock"},
	"internal/maskfiles": {"segment", "core/code", "core/diag", "internal/coco", "internal/ctxio", "internal/imaging",
		"internal/regular"},
	"internal/segmentpage": {"segment", "internal/coco", "core/code", "core/diag", "internal/localpage"},
	"internal/scenepage":   {"internal/localpage"},
	"internal/rlxtest": {".", "internal/testbin", "internal/synth", "core/device", "core/dtype", "core/program",
		"format", "plugins/cpu/backend", "plugins/rpc/serve", "task"},
	".ci/vet":    {},
	".ci/openai": {},
	".ci/sbom":   {},
}

// TestImports checks the direction of imports: core imports no file format, plugin, model or command, and the runtime
// does not import the compiler. Test files are exempt.
func TestImports(t *testing.T) {
	const module = "github.com/rlx-go/rlx"
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), "_") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		folder := path.Dir(filepath.ToSlash(p))
		if strings.Contains(folder, "testdata") {
			return nil
		}
		allowed, ok := lookup(folder)
		if !ok {
			t.Errorf("%s: folder %s has no import rule; add one to mayImport", p, folder)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			name, _ := strconv.Unquote(imp.Path.Value)
			to, own := strings.CutPrefix(name, module+"/")
			if name == module {
				to, own = ".", true
			}
			if own && !matches(allowed, to) {
				t.Errorf("%s imports %s; %s may import %v", p, to, folder, allowed)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPlugins checks that a backend imports no other backend: code that several need is in plugins/rpc or
// plugins/internal.
func TestPlugins(t *testing.T) {
	shared := []string{"rpc", "internal"}
	for folder, allowed := range mayImport {
		parts := strings.Split(folder, "/")
		if parts[0] != "plugins" {
			continue
		}
		for _, to := range allowed {
			if p := strings.Split(to, "/"); p[0] == "plugins" && p[1] != parts[1] && !slices.Contains(shared, p[1]) {
				t.Errorf("%s may import %s, a part of another backend; move what both need to plugins/internal", folder,
					to)
			}
		}
	}
}

func lookup(folder string) ([]string, bool) {
	if a, ok := mayImport[folder]; ok {
		return a, true
	}
	for dir := folder; dir != "."; dir = path.Dir(dir) {
		if a, ok := mayImport[dir+"/..."]; ok {
			return a, true
		}
	}
	return nil, false
}

func matches(allowed []string, to string) bool {
	for _, a := range allowed {
		if prefix, tree := strings.CutSuffix(a, "/..."); a == to ||
			tree && (to == prefix || strings.HasPrefix(to, prefix+"/")) {
			return true
		}
	}
	return false
}

// forPrograms lists the packages that programs import to run models.
var forPrograms = []string{".", "./patches", "./segment", "./text", "./train"}

// neverLinks lists, for a program or package, the packages on which it must not depend, even through others. A backend
// must not depend on the host's side, the host's side not on a backend, and the compiler on neither.
var neverLinks = map[string][]string{
	"plugins/cpu": {"plugins/rpc/host", "plugins/rpc/internal/sandbox", "plugins/rpc/protocoltest", "compile",
		"core/compile"},
	"plugins/null": {"plugins/rpc/host", "plugins/rpc/internal/sandbox", "plugins/rpc/protocoltest", "compile",
		"core/compile"},
	"cmd/rlxrun": {"plugins/rpc/serve", "plugins/rpc/internal/server", "plugins/cpu", "plugins/null", "compile",
		"core/compile", "models"},
	"cmd/rlxc": {"plugins"},
	".": {"plugins/rpc/serve", "plugins/rpc/internal/server", "plugins/rpc/protocoltest", "plugins/cpu", "plugins/wgpu",
		"plugins/null", "compile", "core/compile",
		"core/pass", "core/rewrite", "core/hir", "core/plan", "core/sched", "models", "cmd", "internal/cli"},
}

// TestLinks checks neverLinks.
func TestLinks(t *testing.T) {
	links := maps.Clone(neverLinks)
	for _, p := range forPrograms {
		links[p] = neverLinks["."]
	}
	for from, never := range links {
		out, err := exec.Command("go", "list", "-deps", "./"+from).Output()
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for name := range strings.Lines(string(out)) {
			folder, own := strings.CutPrefix(strings.TrimSpace(name), "github.com/rlx-go/rlx/")
			if !own {
				continue
			}
			seen++
			for _, no := range never {
				if folder == no || strings.HasPrefix(folder, no+"/") {
					t.Errorf("%s depends on %s", from, folder)
				}
			}
		}
		if seen < 5 {
			t.Errorf("go list names %d packages of this module for %s", seen, from)
		}
	}
}

// TestEmbeddable checks that the package that programs import, with all its imports, is free of cgo.
func TestEmbeddable(t *testing.T) {
	cmd := exec.Command(
		"go", append([]string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{len .CgoFiles}}{{end}}"},
			forPrograms...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		name, cgo, _ := strings.Cut(strings.TrimSpace(line), " ")
		seen++
		if own := strings.HasPrefix(name, "github.com/rlx-go/rlx/"); own && cgo != "0" {
			t.Errorf("%s has %s files that need cgo", name, cgo)
		}
	}
	if seen < 10 {
		t.Errorf("go list names %d packages: %s", seen, out)
	}
	cmd = exec.Command("go", append([]string{"build"}, forPrograms...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // some imports use cgo if there is a C compiler
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("they do not build without cgo: %v\n%s", err, out)
	}
}
