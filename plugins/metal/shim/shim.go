//go:build linux

package shim

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/rlx-go/rlx/plugins/metal/msl"
)

//go:embed cxx/metal_stdlib
var stdlib []byte

//go:embed cxx/host.h
var header []byte

//go:embed cxx/host.cc
var host []byte

// ErrNoCompiler is returned by Compile where there is no C++ compiler.
var ErrNoCompiler = errors.New("no C++ compiler: none of c++, g++ and clang++ is in the path")

// flags: kernels are many and run once, so that it does not pay to optimise them. A product and a sum are not fused, and memory may be seen as
// words: both as in Metal. An index beyond an array of fixed size ends the program.
var flags = []string{"-std=c++17", "-O0", "-w", "-ffp-contract=off", "-fno-strict-aliasing", "-fsanitize=bounds", "-fsanitize-undefined-trap-on-error"}

// perUnit is how many kernels are compiled together. Units are compiled two at a time.
const perUnit = 24

// Compile makes a program of kernels in a folder, and returns its path.
func Compile(ctx context.Context, dir string, kernels []*msl.Kernel) (program string, err error) {
	compiler := ""
	for _, name := range []string{"c++", "g++", "clang++"} {
		if compiler == "" {
			compiler, _ = exec.LookPath(name)
		}
	}
	if compiler == "" {
		return "", ErrNoCompiler
	}
	files := map[string][]byte{"metal_stdlib": stdlib, "host.h": header, "host.cc": host, "table.cc": []byte(table(kernels))}
	for first := 0; first < len(kernels); first += perUnit {
		files[fmt.Sprintf("kernels%d.cc", first)] = []byte(unit(kernels, first))
	}
	program = filepath.Join(dir, "kernels")
	link := []string{"-o", program}
	var e errgroup.Group
	e.SetLimit(2)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return "", err
		}
	}
	for name := range files {
		if filepath.Ext(name) != ".cc" {
			continue
		}
		object := filepath.Join(dir, name+".o")
		link = append(link, object)
		e.Go(func() error {
			return command(ctx, compiler, append([]string{"-I", dir, "-c", filepath.Join(dir, name), "-o", object}, flags...)...)
		})
	}
	if err := e.Wait(); err != nil {
		return "", err
	}
	return program, command(ctx, compiler, append(link, "-lm")...)
}

func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// unit is the C++ of the kernels from first on, each in a namespace of its own.
func unit(kernels []*msl.Kernel, first int) string {
	var b strings.Builder
	b.WriteString("#include \"host.h\"\n")
	for i := first; i < min(first+perUnit, len(kernels)); i++ {
		k := kernels[i]
		// The preprocessor, which removes the address space, would take it from the attribute, too.
		text := strings.Replace(k.Text, " [[threadgroup(0)]]", "", 1)
		var args []string
		for n := range k.Buffers + 1 { // the last has the sizes
			args = append(args, fmt.Sprintf("b[%d]", n))
		}
		if k.Shared > 0 {
			fmt.Fprintf(&b, "namespace k%d { struct rlx_shared; }\n", i)
			text += fmt.Sprintf("static_assert(sizeof(rlx_shared) == %d, \"the size of threadgroup memory\");\n", k.Shared)
			args = append(args, fmt.Sprintf("(k%d::rlx_shared*)shared", i))
		}
		args = append(args, "group", "groups", "local")
		fmt.Fprintf(&b, "namespace k%d {\n%s}\nvoid run%d(rlx_any* b, void* shared, uint3 group, uint3 groups, uint local) {\n  k%d::%s(%s);\n}\n",
			i, text, i, i, k.Entry, strings.Join(args, ", "))
	}
	return b.String()
}

// table is the C++ of the list of kernels.
func table(kernels []*msl.Kernel) string {
	var declared, entries strings.Builder
	for i, k := range kernels {
		fmt.Fprintf(&declared, "void run%d(rlx_any*, void*, uint3, uint3, uint);\n", i)
		fmt.Fprintf(&entries, "  {run%d, %d, %d, %d, %t},\n", i, k.Threads, k.Buffers, k.Shared, k.Barrier)
	}
	return fmt.Sprintf("#include \"host.h\"\n%sconst rlx_kernel_entry rlx_kernels[] = {\n%s};\nconst uint rlx_kernel_count = %d;\n", &declared, &entries, len(kernels))
}

// Device runs the kernels of a program, one after the other.
type Device struct {
	// Memory is where all buffers are.
	Memory []byte

	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// Start starts a program with so many bytes of memory, which is zeroed. The folder of the program is written to.
func Start(program string, memory int64) (d *Device, err error) {
	file, err := os.CreateTemp(filepath.Dir(program), "memory")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := file.Truncate(memory); err != nil {
		return nil, err
	}
	d = &Device{process: exec.Command(program, file.Name(), strconv.FormatInt(memory, 10))}
	d.process.Stderr = os.Stderr
	if d.in, err = d.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.out = bufio.NewReader(out)
	if d.Memory, err = syscall.Mmap(int(file.Fd()), 0, int(memory), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED); err != nil {
		return nil, err
	}
	if err := d.process.Start(); err != nil {
		return nil, errors.Join(err, syscall.Munmap(d.Memory))
	}
	if line, err := d.out.ReadString('\n'); err != nil || line != "ready\n" { // the file's name is free from here on
		return nil, fmt.Errorf("%s does not start: %w", program, errors.Join(err, d.Close()))
	}
	return d, nil
}

// Buffer is a part of a device's memory.
type Buffer struct {
	Offset int64
	Bytes  uint32
}

// Run runs a kernel on a grid of x by y threadgroups, with its buffers.
func (d *Device) Run(kernel int, x, y uint32, buffers ...Buffer) error {
	var line strings.Builder
	fmt.Fprintf(&line, "%d %d %d", kernel, x, y)
	for _, b := range buffers {
		fmt.Fprintf(&line, " %d %d", b.Offset, b.Bytes)
	}
	if _, err := io.WriteString(d.in, line.String()+"\n"); err != nil {
		return fmt.Errorf("kernel %d: %w", kernel, err)
	}
	answer, err := d.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("kernel %d ended the program: %w", kernel, err)
	}
	if answer = strings.TrimSpace(answer); answer != "ok" {
		return fmt.Errorf("kernel %d: %s", kernel, answer)
	}
	return nil
}

// Close ends the program and frees the memory.
func (d *Device) Close() error {
	err := errors.Join(d.in.Close(), d.process.Wait(), syscall.Munmap(d.Memory))
	d.Memory = nil
	return err
}
