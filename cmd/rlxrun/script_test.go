package main

import (
	"cmp"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/testbin"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/rpc/serve"
	"github.com/rlx-go/rlx/task"
)

// hangGuard ends a test that would otherwise never end. No time is measured with it.
const hangGuard = 5 * time.Minute

// built returns a folder with rlxrun and the cpu backend as `make build` makes them. Its subfolder "spare" has a
// backend that rlxrun does not find.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rlxrun")
	builtIn = dir
	for out, pkg := range map[string]string{"rlxrun": "cmd/rlxrun", "rlx-backend-cpu": "plugins/cpu",
		"spare/rlx-backend-null": "plugins/null"} {
		if err == nil {
			err = testbin.Build(filepath.Join(dir, out), pkg)
		}
	}
	return dir, err
})

var builtIn string // empty before the first use

// artifact returns the demo model, compiled once.
var artifact = sync.OnceValues(func() (string, error) {
	bin, err := built()
	if err != nil {
		return "", err
	}
	rlxc, file := filepath.Join(bin, "rlxc"), filepath.Join(bin, "sam.rlx")
	if err := testbin.Build(rlxc, "cmd/rlxc"); err != nil {
		return "", err
	}
	if msg, err := exec.Command(rlxc, "../../demo/sam-nano.safetensors", "-o", file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the demo model: %w\n%s", err, msg)
	}
	return file, nil
})

// llama returns the demo language model, compiled once.
var llama = sync.OnceValues(func() (string, error) {
	sam, err := artifact()
	if err != nil {
		return "", err
	}
	file := filepath.Join(filepath.Dir(sam), "llama.rlx")
	if msg, err := exec.Command(filepath.Join(filepath.Dir(sam), "rlxc"), "../../demo/llama", "-o",
		file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the demo language model: %w\n%s", err, msg)
	}
	return file, nil
})

// goldenVL has a tiny Qwen3-VL, but for its weights.
const goldenVL = "../../testdata/goldens/qwen3vl_tiny"

// vl returns that model, compiled once.
var vl = sync.OnceValues(func() (string, error) {
	sam, err := artifact()
	if err != nil {
		return "", err
	}
	bin := filepath.Dir(sam)
	folder, file := filepath.Join(bin, "vl"), filepath.Join(bin, "vl.rlx")
	es, err := synth.ReadManifest(filepath.Join(goldenVL, "manifest.json"))
	if err == nil {
		err = os.CopyFS(folder, os.DirFS(goldenVL))
	}
	if err == nil {
		err = os.Remove(filepath.Join(folder, "golden.safetensors")) // or it would be part of the checkpoint
	}
	if err == nil {
		err = synth.Write(filepath.Join(folder, "model.safetensors"), es, dtype.F32)
	}
	if err != nil {
		return "", err
	}
	if msg, err := exec.Command(filepath.Join(bin, "rlxc"), folder, "-o", file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the model for images: %w\n%s", err, msg)
	}
	return file, nil
})

// plainBackend is the cpu backend without precisions, as older versions were.
type plainBackend struct{ backend.Backend }

func (b plainBackend) Info(ctx context.Context) (device.Info, error) {
	info, err := b.Backend.Info(ctx)
	info.Precisions = nil
	if os.Getenv("RLX_FEW_NAME") != "" { // the host passes this variable to a backend called few
		d := *info.Target
		d.Name, d.Levels = "few", nil
		info.Name, info.Target, info.Levels = "few", &d, nil
	}
	// of the device of a backend called soft, or wgpu
	if t := cmp.Or(os.Getenv("RLX_SOFT_TYPE"), os.Getenv("RLX_WGPU_TYPE")); t != "" {
		info.Devices[0].Type = t
	}
	if rules, ok := fewRules[os.Getenv("RLX_WRONG_FAULT")]; ok {
		d := *info.Target
		d.Rules = rules
		info.Target = &d
	}
	return info, err
}

// fewRules has the rules of backends that claim one op or no op, by the fault in RLX_WRONG_FAULT.
var fewRules = map[string][]target.Rule{"only": {target.MustRule("run matmul(f32 rank 2, f32 rank 2)")}, "nothing": nil}

// Load returns an executable that lies about step values as RLX_LIAR_DUMPS says. The host passes this variable to a
// backend called liar.
func (b plainBackend) Load(ctx context.Context, l device.Load) (device.Executable, error) {
	if i := slices.IndexFunc(l.Program.Graph.Nodes, func(n *ir.Node) bool { return n.Op.Name == "atan" }); i >= 0 &&
		os.Getenv("RLX_WRONG_FAULT") == "claims" {
		return nil,
			diag.New(device.ErrUnsupported, "wrong", "%s: there is no kernel for atan",
				l.Program.Graph.Nodes[i].Label())
	}
	if info, err := b.Info(ctx); err == nil && len(info.Target.Rules) < 2 {
		if why := info.Lacks(l.Program); why != "" {
			return nil, diag.New(device.ErrUnsupported, "wrong", "%s", why)
		}
		return b.Backend.Load(ctx, l)
	}
	e, err := b.Backend.Load(ctx, l)
	if how := os.Getenv("RLX_LIAR_DUMPS"); err == nil && how != "" {
		return liar{e, how}, nil
	}
	if fault := os.Getenv("RLX_WRONG_FAULT"); err == nil && fault != "" {
		return wrong{e, l.Program, fault}, nil
	}
	return e, err
}

// wrong is an executable with the fault in RLX_WRONG_FAULT: it adds 1 to the last element of an output, crashes, or
// hangs. (The faults "claims" and those of fewRules are of plainBackend instead: it claims to run atan and has no
// kernel for it, or claims too little.)
type wrong struct {
	device.Executable
	p     *program.Program
	fault string
}

func (w wrong) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	if w.fault == "dies" {
		os.Exit(3)
	}
	if w.fault == "hangs" {
		r.Progress(0)
		time.Sleep(time.Hour)
	}
	st, err := w.Executable.Run(ctx, r)
	if b, e := w.p.Bind(r.Syms); err == nil && e == nil {
		for _, o := range b.Outputs {
			if o.DType == dtype.F32 && o.Bytes > 0 {
				tensor.View[float32](r.IO[o.Offset:][:o.Bytes])[o.Bytes/4-1]++
			}
		}
	}
	return st, err
}

type liar struct {
	device.Executable
	how string
}

func (l liar) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	type dump struct {
		node  int
		shape []int
		data  []byte
	}
	var kept []dump
	tell := r.Opts.Observe
	r.Opts.Observe = func(node int, shape []int, data []byte) error {
		kept = append(kept, dump{node, slices.Clone(shape), slices.Clone(data)})
		return nil
	}
	st, err := l.Executable.Run(ctx, r)
	switch l.how {
	case "none":
		kept = nil
	case "first":
		kept = kept[:1]
	case "last":
		kept = kept[1:]
	case "reversed":
		slices.Reverse(kept)
	case "twice":
		kept = append(kept, kept...)
	}
	for _, d := range kept {
		if err == nil {
			err = tell(d.node, d.shape, d.data)
		}
	}
	return st, err
}

// TestMain also acts as the backend that scripts call $PLAIN.
func TestMain(m *testing.M) {
	if os.Getenv("RLX_FDS") != "" {
		if wrongKernel() {
			return
		}
		serve.Backend(serve.Config{Name: "plain", Backend: plainBackend{}, Decode: format.DecodeProgram})
		return
	}
	status := m.Run()
	if builtIn != "" {
		os.RemoveAll(builtIn)
	}
	os.Exit(status)
}

// TestCommand runs scripts that need no artifact.
func TestCommand(t *testing.T) { scripts(t, "testdata/command", false) }

// TestRun runs scripts on the demo model, sam.rlx, and its images scene1.png and coins.png.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs the demo model")
	}
	scripts(t, "testdata/run", true)
}

func scripts(t *testing.T, dir string, demo bool) {
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
			e.Setenv("BIN", bin)
			targets, err := filepath.Abs("../../core/target")
			if err != nil {
				return err
			}
			e.Setenv("TARGETS", targets)
			tokenizer, err := filepath.Abs("../../internal/tokenizer/testdata/llama3/tokenizer.json")
			if err != nil {
				return err
			}
			e.Setenv("TOKENIZER", tokenizer)
			vectors, err := filepath.Abs("../../spec/testdata")
			if err != nil {
				return err
			}
			e.Setenv("SPEC", vectors)
			plain, err := os.Executable()
			if err != nil {
				return err
			}
			e.Setenv("PLAIN", plain)
			e.Setenv("GPU", filepath.Join(bin, "gpu", "rlx-backend-wgpu"))
			e.Setenv("TMPDIR", bin) // the script's own is too long for a socket path
			if !demo {
				return nil
			}
			file, err := artifact()
			if err != nil {
				return err
			}
			programs, err := tinymodel.Compile("cpu", tinymodel.Cache, tinymodel.Peek)
			if err == nil {
				_, err = format.Write(context.Background(), filepath.Join(e.WorkDir, "cache.rlx"),
					format.Artifact{Programs: programs, Meta: format.Meta{Model: "cache"}}, nil)
			}
			if err != nil {
				return err
			}
			for name, change := range map[string]func(*task.Text, *string, *string){
				"text.rlx": func(*task.Text, *string, *string) {}, "ids.rlx": func(about *task.Text, _, _ *string) {
					about.Tokenizer, about.ChatTemplate = "", ""
				},
				"draft.rlx": func(about *task.Text, graph, _ *string) { *graph = tinymodel.WithDraft(about, *graph) },
				"odd.rlx":   func(_ *task.Text, _, template *string) { *template = "{% include 'x' %}" },
				"nan.rlx": func(_ *task.Text, graph, _ *string) { // d is 0 for the most probable id
					*graph = strings.Replace(*graph, "l = add l0, three : f32[17]",
						"odd = div d, d : f32[17]\nl = add l0, odd : f32[17]", 1)
				},
			} {
				if err := writeTextModel(filepath.Join(e.WorkDir, name), change); err != nil {
					return err
				}
			}
			for name, change := range map[string]func(*task.Concepts){
				"concepts.rlx": func(*task.Concepts) {},
				"wordless.rlx": func(about *task.Concepts) { about.Tokenizer = "" },
				"clicks.rlx":   func(about *task.Concepts) { about.Clicks = tinymodel.ConceptsClicks(about) },
			} {
				if err := writeConceptsModel(filepath.Join(e.WorkDir, name), change); err != nil {
					return err
				}
			}
			if err := os.WriteFile(filepath.Join(e.WorkDir, "latin1.txt"), []byte("f\xe9"), 0o666); err != nil {
				return err
			}
			for name, shape := range map[string]string{"w.safetensors": "4", "wide.safetensors": "2,2"} {
				if err := writeW(filepath.Join(e.WorkDir, name), shape); err != nil {
					return err
				}
			}
			demo, err := filepath.Abs("../../demo/llama")
			if err != nil {
				return err
			}
			e.Setenv("LLAMA", demo)
			words, err := llama()
			if err != nil {
				return err
			}
			images, err := vl()
			if err != nil {
				return err
			}
			for _, f := range []string{file, words, images, goldenVL + "/wide.png", goldenVL + "/tall.png",
				"../../demo/scene1.png", "../../demo/scene1.mask.png", "../../demo/coins.png", "../../demo/coins.mask.png", "../../demo/golden.safetensors",
				"../../demo/sam-nano.safetensors"} {
				abs, err := filepath.Abs(f)
				if err != nil {
					return err
				}
				if err := os.Symlink(abs, filepath.Join(e.WorkDir, filepath.Base(f))); err != nil {
					return err
				}
			}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "avx2" {
				return slices.Contains(isa.Features(), "avx2"), nil
			}
			if cond == "wgpu" {
				if !wgpu() && os.Getenv("RLX_REQUIRE_GPU") != "" {
					return false, errors.New("RLX_REQUIRE_GPU is set, and backend wgpu has no device")
				}
				return wgpu(), nil
			}
			return false, fmt.Errorf("no condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"tensors": tensorsFile, "exit": exitStatus,
			"halt": halt, "iou": maskIoU, "flip": flip, "nobackend": noBackend,
		},
	})
}

// writeTextModel writes the tiny text model with its tokenizer.
func writeTextModel(path string, change func(about *task.Text, graph, template *string)) error {
	about, graph := tinymodel.TextTask(), tinymodel.Extend
	about.Tokenizer, about.ChatTemplate, about.BOS = "tokenizer.json", "chat_template.jinja", "<end>"
	template := "{{ bos_token }}{% for m in messages %}{{ m.role[:1] }} {{ m.content }}{% endfor %}"
	change(about, &graph, &template)
	graphs := []string{graph}
	if about.Draft.Method != "" {
		graphs = append(graphs, tinymodel.Draft, tinymodel.Rewind)
	}
	programs, err := tinymodel.Compile("cpu", graphs...)
	if err != nil {
		return err
	}
	_, err = format.Write(context.Background(), path,
		format.Artifact{Programs: programs, Meta: format.Meta{Model: "tiny", Task: about}},
		[]format.Weight{attached("chat_template.jinja", template), attached("tokenizer.json", tinymodel.Tokenizer)})
	return err
}

// writeConceptsModel writes the model of package tinymodel that finds concepts.
func writeConceptsModel(path string, change func(*task.Concepts)) error {
	about := tinymodel.ConceptsTask()
	change(about)
	methods := []string{tinymodel.See, tinymodel.Words, tinymodel.Find, tinymodel.FindLike}
	if about.Clicks.ImageMethod != "" {
		methods = append(methods, tinymodel.Decode)
	}
	programs, err := tinymodel.Compile("cpu", methods...)
	if err != nil {
		return err
	}
	var files []format.Weight
	if about.Tokenizer != "" {
		files = append(files, attached(about.Tokenizer, tinymodel.Tokenizer))
	}
	_, err = format.Write(context.Background(), path,
		format.Artifact{Programs: programs, Meta: format.Meta{Model: "tiny", Task: about}}, files)
	return err
}

func attached(name, file string) format.Weight {
	return format.Weight{Name: name, Type: ir.TypeOf(dtype.U8, int64(len(file))), Write: func(w io.Writer) error {
		_, err := io.WriteString(w, file)
		return err
	}}
}

// writeW writes a safetensors file with the numbers 1, 2, 3 and 4 as w.
func writeW(path, shape string) error {
	header := `{"w":{"dtype":"F32","shape":[` + shape + `],"data_offsets":[0,16]}}`
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	return os.WriteFile(path, append(file, tensor.Bytes([]float32{1, 2, 3, 4})...), 0o666)
}

// exitStatus is `exit STATUS COMMAND...`: the command must exit with that status. stdout and stderr then check its
// output.
func exitStatus(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := statusOf(ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("exit status %d; want %d", got, want)
	}
}

func statusOf(err error) int {
	var e *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.ExitCode()
	}
	return -1
}

// halt is `halt SIGNAL WHOM STATUS DIR COMMAND...`: it starts the command, waits until --dump-tensors has written a
// file to DIR, so that the run is in progress, and sends the signal to the command (host) or to its backend. The
// command must exit with the status. Its stderr is written to the file stderr.
func halt(ts *testscript.TestScript, _ bool, args []string) {
	sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}[args[0]]
	want, err := strconv.Atoi(args[2])
	ts.Check(err)
	stderr, err := os.Create(ts.MkAbs("stderr"))
	ts.Check(err)
	defer stderr.Close()
	cmd := exec.Command(filepath.Join(ts.Getenv("BIN"), args[4]), args[5:]...)
	cmd.Dir, cmd.Stderr = ts.MkAbs("."), stderr
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	guard := time.After(hangGuard)
	for dumped := false; !dumped; {
		entries, _ := os.ReadDir(ts.MkAbs(args[3]))
		dumped = len(entries) > 0
		select {
		case err := <-ended:
			ts.Fatalf("ended before it was stopped: %v\n%s", err, ts.ReadFile("stderr"))
		case <-guard:
			cmd.Process.Kill()
			ts.Fatalf("nothing was dumped")
		case <-time.After(time.Millisecond):
		}
	}
	pid := cmd.Process.Pid
	if args[1] == "backend" {
		pid = backendOf(ts, pid)
	}
	ts.Check(syscall.Kill(pid, sig))
	select {
	case err := <-ended:
		if got := statusOf(err); got != want {
			ts.Fatalf("exit status %d; want %d\n%s", got, want, ts.ReadFile("stderr"))
		}
	case <-guard:
		cmd.Process.Kill()
		ts.Fatalf("did not end after signal %s", args[0])
	}
}

// running lists the processes that run the script's own copy of the backend, as children of parent or, if parent is 0,
// of any process.
func running(ts *testscript.TestScript, parent int) []int {
	var out []int
	procs, err := filepath.Glob("/proc/[0-9]*")
	ts.Check(err)
	for _, p := range procs {
		exe, err := os.Readlink(p + "/exe")
		stat, err2 := os.ReadFile(p + "/stat")
		if err != nil || err2 != nil || strings.TrimSuffix(exe, " (deleted)") != ts.MkAbs("backend") {
			continue
		}
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(p))
		if f[0] != "Z" && (parent == 0 || f[1] == strconv.Itoa(parent)) {
			out = append(out, pid)
		}
	}
	return out
}

func backendOf(ts *testscript.TestScript, parent int) int {
	pids := running(ts, parent)
	if len(pids) != 1 {
		ts.Fatalf("%d backends; want 1", len(pids))
	}
	return pids[0]
}

// noBackend is `nobackend`: no backend process may be left.
func noBackend(ts *testscript.TestScript, _ bool, _ []string) {
	guard := time.Now().Add(hangGuard)
	for len(running(ts, 0)) > 0 {
		if time.Now().After(guard) {
			ts.Fatalf("backends %v are left", running(ts, 0))
		}
		time.Sleep(time.Millisecond)
	}
}

// maskIoU is `iou FILE FILE MIN`: the IoU of two masks must be at least MIN.
func maskIoU(ts *testscript.TestScript, _ bool, args []string) {
	least, err := strconv.ParseFloat(args[2], 64)
	ts.Check(err)
	a, err := readImage(context.Background(), ts.MkAbs(args[0]), nil, imaging.Limits{})
	ts.Check(err)
	b, err := readImage(context.Background(), ts.MkAbs(args[1]), nil, imaging.Limits{})
	ts.Check(err)
	if a.Bounds() != b.Bounds() {
		ts.Fatalf("sizes %v and %v", a.Bounds(), b.Bounds())
	}
	both, either := 0, 0
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			ra, _, _, _ := a.At(x, y).RGBA()
			rb, _, _, _ := b.At(x, y).RGBA()
			if ra != 0 && rb != 0 {
				both++
			}
			if ra != 0 || rb != 0 {
				either++
			}
		}
	}
	if either == 0 || float64(both)/float64(either) < least {
		ts.Fatalf("IoU of %d / %d is below %g", both, either, least)
	}
}

// flip is `flip FROM TO OFFSET`: it copies a file with one bit changed. A negative offset counts from the end.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	at, err := strconv.Atoi(args[2])
	ts.Check(err)
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o666))
}

// TestStatic checks that rlxrun is static: it needs no dynamic linker and hence no C library.
func TestStatic(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads ELF")
	}
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(filepath.Join(bin, "rlxrun"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("rlxrun has a program header %v", p.Type)
		}
	}
}

// TestNoCompiler checks that rlxrun does not import the compiler, not even indirectly.
func TestNoCompiler(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		dep, own := strings.CutPrefix(strings.TrimSpace(line), "github.com/rlx-go/rlx/")
		for _, no := range []string{"core/compile", "core/pass", "core/hir", "models/", "plugins/cpu"} {
			if own && strings.HasPrefix(dep, no) {
				t.Errorf("rlxrun depends on %s", dep)
			}
		}
	}
}
