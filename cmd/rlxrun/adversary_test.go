package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/npy"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/task"
)

// writeArtifact writes an artifact of these programs. about is its task, or nil.
func writeArtifact(t testing.TB, path string, about task.Task, programs ...*program.Program) {
	t.Helper()
	a := format.Artifact{Programs: programs,
		Meta: format.Meta{Model: "test", Producer: format.Producer{Name: "test", Version: "0"}, Task: about}}
	if _, err := format.Write(t.Context(), path, a, nil); err != nil {
		t.Fatal(err)
	}
}

const copyGraph = `graph f
sym N = 1..100000
x = input : f32[N]
y = neg x : f32[N]
return y=y
`

// TestBlocked is case "blocked" of the adversary: --timeout and the first signal end a run that waits for the other end
// of a named pipe, or for standard input or output.
func TestBlocked(t *testing.T) {
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	writeArtifact(t, filepath.Join(files, "sam.rlx"), tinymodel.Task(), tinyPrograms(t)...)
	writeArtifact(t, filepath.Join(files, "f.rlx"), nil, tinymodel.Program(t, copyGraph, "cpu"))
	if err := os.Rename(twoColours(t, 32, 16), filepath.Join(files, "in.png")); err != nil {
		t.Fatal(err)
	}
	// Printed as text, this tensor does not fit into a pipe's buffer.
	if err := npy.WriteFile(t.Context(), filepath.Join(files, "in.npy"), tensor.New(dtype.F32, 100000)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, args string
		status     int // 0: it waits; otherwise it exits at once with this status
	}{
		{"image", "sam.rlx --image pipe --point 1,1 -o m.png", 0},
		{"stdin", "sam.rlx --image - --point 1,1 -o m.png", 0},
		{"input", "f.rlx -i x=@pipe.npy -o y.npy", 0},
		{"output", "f.rlx -i x=1 -o pipe.npy", 0},
		{"picture", "sam.rlx --image in.png --point 1,1 -o pipe.png", 0},
		{"trace", "f.rlx -i x=1 -o y.npy --trace pipe", 0},
		{"dump", "f.rlx -i x=1 -o y.npy --dump-tensors *=dumps", 0},
		{"stdout", "f.rlx -i x=@in.npy -o y=-", 0},
		{"json", "f.rlx -i x=@in.npy -o y=- --json", 0},
		{"safetensors", "f.rlx -i x=@pipe.safetensors:x -o y.npy", 3}, // safetensors is not read sequentially
		{"artifact", "pipe -i x=1 -o y.npy", 4},
		{"plugin", "f.rlx -i x=1 -o y.npy --plugin x=pipe -b x", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			type end struct {
				timeout string
				signal  syscall.Signal
				status  int
				code    string
			}
			ends := []end{{"700ms", 0, 124, "RLX5202"}, {"1h", syscall.SIGTERM, 143, "RLX1002"},
				{"1h", syscall.SIGINT, 130, "RLX1002"}}
			if c.status != 0 {
				ends = []end{{"1h", 0, c.status, "RLX"}}
			}
			for _, end := range devicetest.SomeOf(t, 1, ends) {
				dir := t.TempDir()
				if err := errors.Join(os.CopyFS(dir, os.DirFS(files)),
					os.Mkdir(filepath.Join(dir, "dumps"), 0o700)); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"pipe", "pipe.npy", "pipe.png", "pipe.safetensors",
					"dumps/f.00000.y.npy"} {
					if err := syscall.Mkfifo(filepath.Join(dir, name), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				got, stderr := runUntil(t, dir, filepath.Join(bin, "rlxrun"), end.signal,
					append(strings.Fields(c.args), "--timeout", end.timeout)...)
				if got != end.status || !strings.Contains(stderr, end.code) {
					t.Errorf("--timeout %s, signal %v: status %d, want %d\n%s", end.timeout, end.signal, got,
						end.status, stderr)
				}
				for _, name := range []string{"m.png", "y.npy"} {
					if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
						t.Errorf("%s was written", name)
					}
				}
			}
		})
	}
}

// TestLyingCheck is case "lying_check" of the adversary: if a backend omits values, --check fails, and if it sends them
// in another order, --check does not panic.
func TestLyingCheck(t *testing.T) {
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	two := "graph f\nx = input : f32[2]\na = neg x : f32[2]\ny = abs a : f32[2]\nreturn y=y\n"
	writeArtifact(t, filepath.Join(dir, "two.rlx"), nil, tinymodel.Program(t, two, "cpu"))
	for how, want := range map[string]string{"honest": "", "none": "RLX5108", "first": "RLX5108", "last": "RLX5108",
		"reversed": "RLX5108", "twice": "RLX5108"} {
		for _, flag := range []string{"--check", "--dump-tensors=*=dumps"} {
			out := how + ".npy"
			cmd := exec.Command(filepath.Join(bin, "rlxrun"), "two.rlx", "-i", "x=1,2", "-o", out, flag, "--plugin",
				"liar="+self, "-b", "liar")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "RLX_LIAR_DUMPS="+how)
			msg, err := cmd.CombinedOutput()
			if status := statusOf(err); (status == 0) != (want == "") || want != "" &&
				(status != 5 || !strings.Contains(string(msg), want)) {
				t.Errorf("%s with %s: status %d, want %s\n%s", flag, how, status, want, msg)
			}
			if _, err := os.Stat(filepath.Join(dir, out)); (err == nil) != (want == "") {
				t.Errorf("%s with %s: output: %v", flag, how, err)
			}
		}
	}
}

// refused runs rlxrun in a folder and checks its status, the texts on stderr, and that it writes no output.
func refused(t *testing.T, dir string, stdin *os.File, status int, args, want string) {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "rlxrun"), strings.Fields(args)...)
	cmd.Dir, cmd.Stdin = dir, stdin
	cmd.Env = append(os.Environ(), "GOGC=100") // memory is measured
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	guard := time.AfterFunc(hangGuard, func() { cmd.Process.Kill() })
	defer guard.Stop()
	got := statusOf(cmd.Run())
	if got != status || out.Len() > 0 || !strings.Contains(errs.String(), want) {
		t.Errorf("rlxrun %s: status %d, want %d and %q\n%s%s", args, got, status, want, out.String(), errs.String())
	}
	// Even a process that does nothing takes tens of megabytes, including its executable.
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && runtime.GOOS == "linux" &&
		used.Maxrss > 200<<10 {
		t.Errorf("rlxrun %s: %d MiB were used", args, used.Maxrss>>10)
	}
}

// TestBenchInput is case "bench_input" of the adversary: rlxrun checks memory before it allocates anything whose size
// the artifact determines: inputs that bench generates, values that --check keeps, and outputs as JSON.
func TestBenchInput(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"big.rlx": "graph f\nx = input : f32[68719476736]\ny = reduce_sum x {axes=[0]} : f32[]\nreturn y=y\n",
		"out.rlx": "graph f\na = iota {axis=0} : f32[5000000]\ny = neg a : f32[5000000]\nreturn y=y\n",
	} {
		writeArtifact(t, filepath.Join(dir, name), nil, tinymodel.Program(t, text, "cpu"))
	}
	refused(t, dir, nil, 8, "bench big.rlx -n 1", "RLX8001")
	refused(t, dir, nil, 8, "bench big.rlx -n 1 --memory 1G", "(inputs and outputs 550 GB, structure ")
	refused(t, dir, nil, 8, "bench out.rlx -n 1 --memory 150M --check", "values of steps")
	refused(t, dir, nil, 8, "out.rlx -o y=- --json --memory 150M", "outputs as JSON 640 MB")
	// A sparse file that is as large as its header claims. It is refused before it is read.
	header := "{'descr': '<f4', 'fortran_order': False, 'shape': (68719476736,), }"
	npyFile := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), 0)
	file := filepath.Join(dir, "x.npy")
	if err := errors.Join(os.WriteFile(file, append(npyFile, header...), 0o600),
		os.Truncate(file, int64(len(npyFile)+len(header))+4<<36)); err != nil {
		t.Skip(err) // the file system does not support sparse files
	}
	refused(t, dir, nil, 8, "big.rlx -i x=@x.npy -o y=y.npy --memory 1G",
		"inputs 275 GB); --memory allows 1.0 GB (RLX8001")
}

// TestReferenceMemory is case "reference_memory" of the adversary: the memory of kernels and of the reference counts as
// memory that a program needs. The program must be refused if it exceeds the limit, and must not use more than the
// backend says.
func TestReferenceMemory(t *testing.T) {
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	half := "graph f\na = const {value=1} : f16[%[1]d]\nb = exp a : f16[%[1]d]\ny = reduce_max b {axes=[0], keep_dims=false} : f16[]\nreturn y=y\n"
	residual := "graph f\nx = input : f64[%[1]d,8]\nw = input : f64[8,8]\ny = fused_matmul x, w, residual=x : f64[%[1]d,8]\n" +
		"z = fused_matmul y, w, residual=y : f64[%[1]d,8]\nreturn z=z\n"
	depthwise := "graph f\nx = input : f32[1,%[1]d,3,3]\nw = input : f32[%[1]d,1,3,3]\ny = conv2d x, w {groups=%[1]d, layout=\"nchw\", padding=[1,1]} : f32[1,%[1]d,3,3]\nreturn y=y\n"
	skinny := "graph f\nx = input : f32[3,%[1]d]\nw = input : f32[%[1]d,1]\ny = matmul x, w : f32[3,1]\nreturn y=y\n"
	window := "graph f\nx = input : f64[1,2,2,3]\np = input : f64[3]\ny = grid_attention x, p {heads=1, window=%[1]d} : f64[1,2,2,1]\nreturn y=y\n"
	for _, c := range []struct {
		name, text string
		n          int
		rows       int64 // bytes of inputs and outputs per unit of n
		limit      string
	}{
		{"half", half, 1 << 23, 0, "140M"}, // the arena has 17 MB, two operands as float64 134 MB
		{"residual", residual, 1 << 18, 128, "90M"},
		{"depthwise", depthwise, 100_000, 108, "80M"},
		{"skinny", skinny, 1 << 20, 16, "160M"},
		{"window", window, 1200, 0, "10M"}, // the scores of a window that is mostly padding
	} {
		t.Run(c.name, func(t *testing.T) {
			name := c.name + ".rlx"
			writeArtifact(t, filepath.Join(dir, name), nil, tinymodel.Program(t, fmt.Sprintf(c.text, c.n), "cpu"))
			const args = " -n 1 --warmup 1 --threads 1 --memory "
			refused(t, dir, nil, 8, "bench "+name+args+c.limit, ", kernels ")
			cmd := exec.Command(filepath.Join(bin, "rlxrun"), strings.Fields("bench "+name+args+"2G --json")...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOGC=100") // memory is measured
			out, err := cmd.Output()
			var m measured
			if err == nil {
				err = json.Unmarshal(out, &m)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			const process = 64 << 20 // used by the backend itself
			if most := m.ArenaBytes + m.KernelBytes + c.rows*int64(c.n) + process; m.BackendPeakRSS > most &&
				runtime.GOOS == "linux" {
				t.Errorf("the backend took %d bytes; its kernels %d and arena %d make %d at most", m.BackendPeakRSS,
					m.KernelBytes, m.ArenaBytes, most)
			}
		})
	}
}

// TestPngBomb is case "png_bomb" of the adversary: the size that an image claims is checked against the limits and the
// available memory before its pixels are allocated.
func TestPngBomb(t *testing.T) {
	dir := t.TempDir()
	writeArtifact(t, filepath.Join(dir, "sam.rlx"), tinymodel.Task(), tinyPrograms(t)...)
	claim := func(name string, side uint32) {
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewNRGBA64(image.Rect(0, 0, 1, 1))); err != nil {
			t.Fatal(err)
		}
		out := append(b.Bytes(), make([]byte, 1<<20)...) // as large as the file of an all-zero image would be
		binary.BigEndian.PutUint32(out[16:], side)
		binary.BigEndian.PutUint32(out[20:], side)
		binary.BigEndian.PutUint32(out[29:], crc32.ChecksumIEEE(out[12:29]))
		if err := os.WriteFile(filepath.Join(dir, name), out, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	claim("2g.png", 16384)
	claim("512m.png", 8192)
	const rest = " --point 0,0 -o m.png"
	refused(t, dir, nil, 3, "sam.rlx --image 2g.png"+rest,
		"which take 2147483648 bytes in memory; the limit is 1073741824 (RLX3030")
	refused(t, dir, nil, 8, "sam.rlx --image 512m.png --memory 300M"+rest,
		"needs 537 MB (image 537 MB); --memory allows 300 MB (RLX8001")
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Skip(err)
	}
	defer zero.Close()
	refused(t, dir, nil, 3, "sam.rlx --image /dev/zero"+rest,
		"/dev/zero: is not an image that can be read; allowed are PNG, JPEG, WebP, TIFF and BMP (RLX3030")
	refused(t, dir, zero, 3, "sam.rlx --image -"+rest, "stdin: is not an image that can be read")
	// Masks and overlay count as well: they are as large as the image.
	if err := os.Rename(twoColours(t, 4000, 3000), filepath.Join(dir, "photo.png")); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, nil, 8, "sam.rlx --image photo.png --mask all --memory 120M"+rest,
		"(image 48.0 MB, masks 48.1 MB, overlay 48.0 MB); --memory allows 120 MB")
}

// runUntil runs a command whose stdin and stdout are silent pipes. Once the command has had time to block, it sends the
// signal, unless sig is 0. It returns the status and stderr.
func runUntil(t *testing.T, dir, path string, sig syscall.Signal, args ...string) (status int, stderr string) {
	t.Helper()
	stdin, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	drain, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, f := range []*os.File{stdin, feed, drain, stdout} {
			f.Close()
		}
	}()
	var errs bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, stdin, stdout, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	guard := time.AfterFunc(hangGuard, func() { cmd.Process.Kill() })
	defer guard.Stop()
	if sig != 0 {
		for !catches(cmd.Process.Pid, sig) {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond) // a signal before that would also work, but test less
		cmd.Process.Signal(sig)            // an error means that the process has ended
	}
	return statusOf(<-ended), errs.String()
}

// catches reports whether a process handles the signal or has ended.
func catches(pid int, sig syscall.Signal) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(b)) {
		var mask uint64
		if n, _ := fmt.Sscanf(line, "SigCgt: %x", &mask); n == 1 {
			return mask>>(sig-1)&1 == 1
		}
	}
	return true // a zombie has no such line
}
