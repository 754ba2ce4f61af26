//go:build linux

package shim

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rlx-go/rlx/plugins/metal/msl"
)

//go:embed cxx/metal_stdlib
var stdlib []byte

//go:embed cxx/host.h
var header []byte

//go:embed cxx/host.cc
var host []byte

// ErrNoCompiler means that no C++ compiler was found.
var ErrNoCompiler = errors.New("no C++ compiler: none of c++, g++ and clang++ is in the path")

// flags make C++ behave like Metal: products and sums are not fused, and pointers of different types may alias. An
// index outside of an array of fixed size ends the program.
var flags = []string{"-std=c++17", "-w", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-fsanitize=bounds",
	"-fsanitize-undefined-trap-on-error"}

// perUnit is the maximum number of kernels in a translation unit. Units are large, because the header takes most of the
// compile time of a small one.
const perUnit = 24

// cache is a folder of compiled kernels. The name of a file contains a hash of everything that the file depends on.
// Several processes may use the folder at a time, because a file is renamed into it when it is complete.
type cache struct {
	dir   string
	level string // the optimisation flag, such as -O0
}

// compiler returns the path of a C++ compiler.
func compiler() (string, error) {
	for _, name := range []string{"c++", "g++", "clang++"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoCompiler
}

// name returns the name of a kernel's file without .so, which is also the symbol that the library exports.
func (c cache) name(k *msl.Kernel) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %q %+v", stdlib, header, append(flags, c.level), *k)
	return fmt.Sprintf("rlx_%x", h.Sum(nil)[:12])
}

func (c cache) path(k *msl.Kernel) string { return filepath.Join(c.dir, c.name(k)+".so") }

func (c cache) has(k *msl.Kernel) bool {
	_, err := os.Stat(c.path(k))
	return err == nil
}

// add compiles kernels and adds them to the cache. It compiles two units at a time.
func (c cache) add(ctx context.Context, kernels []*msl.Kernel) error {
	var e errgroup.Group
	e.SetLimit(2)
	for len(kernels) > 0 {
		unit := kernels[:min(perUnit, len(kernels))]
		kernels = kernels[len(unit):]
		e.Go(func() error { return c.compile(ctx, unit) })
	}
	return e.Wait()
}

// compile compiles kernels to one library. The file has the name of the first kernel; the other kernels get symbolic
// links to it.
func (c cache) compile(ctx context.Context, kernels []*msl.Kernel) error {
	var b strings.Builder
	b.WriteString("#include \"host.h\"\n")
	for _, k := range kernels {
		c.write(&b, k)
	}
	first := c.path(kernels[0])
	err := c.make(ctx, first, []byte(b.String()), "-shared", c.level)
	for _, k := range kernels[1:] {
		if err == nil && !c.has(k) {
			if err = os.Symlink(filepath.Base(first), c.path(k)); errors.Is(err, os.ErrExist) {
				err = nil
			}
		}
	}
	return err
}

// program returns the path of the compiled program of host.cc. It compiles it if it is not in the cache.
func (c cache) program(ctx context.Context) (string, error) {
	path := filepath.Join(
		c.dir, fmt.Sprintf("host_%x", sha256.Sum256(bytes.Join([][]byte{stdlib, header, host}, nil)))[:32])
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, c.make(ctx, path, host, "-O2", "-rdynamic")
}

// make compiles a C++ text with the given compiler arguments, and moves the result to path.
func (c cache) make(ctx context.Context, path string, text []byte, args ...string) error {
	cxx, err := compiler()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(c.dir, "compile")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for name, data := range map[string][]byte{"metal_stdlib": stdlib, "host.h": header, "text.cc": text} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	args = append(append(args, flags...), "-I", dir, filepath.Join(dir, "text.cc"), "-o", filepath.Join(dir, "made"),
		"-lm", "-ldl")
	if out, err := exec.CommandContext(ctx, cxx, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", cxx, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return os.Rename(filepath.Join(dir, "made"), path)
}

// swizzle matches several components of a vector. All names of the kernel's own end in _.
var swizzle = regexp.MustCompile(`\.[xyzw]{2,4}\b`)

// components returns the call for a swizzle, which C++ lacks: .at<1, 0>() for .yx.
func components(swizzle string) string {
	var at []string
	for _, c := range swizzle[1:] {
		at = append(at, fmt.Sprint(strings.IndexRune("xyzw", c)))
	}
	return ".at<" + strings.Join(at, ", ") + ">()"
}

// write appends a kernel as C++ in a namespace of its own, and its rlx_kernel_entry.
func (c cache) write(b *strings.Builder, k *msl.Kernel) {
	name := c.name(k)
	// A macro removes the address space "threadgroup". It would also remove the word in this attribute.
	text := strings.Replace(k.Text, " [[threadgroup(0)]]", "", 1)
	text = swizzle.ReplaceAllStringFunc(text, components)
	var args []string
	for n := range k.Buffers + 1 { // the last one holds the sizes
		args = append(args, fmt.Sprintf("b[%d]", n))
	}
	if k.Shared > 0 {
		fmt.Fprintf(b, "namespace n%s { struct rlx_shared; }\n", name)
		text += fmt.Sprintf("static_assert(sizeof(rlx_shared) == %d, \"the size of threadgroup memory\");\n", k.Shared)
		args = append(args, fmt.Sprintf("(n%s::rlx_shared*)shared", name))
	}
	args = append(args, "group", "groups", "local")
	fmt.Fprintf(
		b, "namespace n%[1]s {\n%[2]s}\nstatic void run%[1]s(rlx_any* b, void* shared, uint3 group, uint3 groups, uint local) {\n  n%[1]s::%[3]s(%[4]s);\n}\n"+
			"extern \"C\" const rlx_kernel_entry %[1]s = {run%[1]s, %[5]d, %[6]d, %[7]d, %[8]t};\n", name, text,
		k.Entry,
		strings.Join(args, ", "), k.Threads, k.Buffers, k.Shared, k.Barrier)
}
