package main

import (
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/task"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/npy"
)

// twoColours is an image whose left half is bright red and whose right half is black.
func twoColours(t *testing.T, w, h int) string {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.NRGBA{0, 0, 0, 255}
			if x < w/2 {
				c.R = 255
			}
			img.Set(x, y, c)
		}
	}
	path := filepath.Join(t.TempDir(), "in.png")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, img); err != nil {
		t.Fatal(err)
	}
	return path
}

// The task end to end on the model whose masks are known: mask 0 is the bright half, 1 the dark one, 2 everything, 3 nothing;
// best is 2, whose quality is highest among 1 to 3.
func TestSegmentJob(t *testing.T) {
	path := twoColours(t, 32, 16)
	for which, want := range map[string][]int{"best": {512}, "0": {256}, "1": {256}, "3": {0}, "all": {256, 256, 512, 0}} {
		m := tinyModel(t)
		f := &segmentFlags{image: path, mask: which}
		f.points.Set("3,3")
		f.points.Set("20,3,0")
		j, err := newSegmentJob(t.Context(), m, f, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := hostOf(t, m, debugFlags{})
		ready, err := h.loadAll(t.Context(), j.methods()...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := j.run(t.Context(), h, ready)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, s := range j.summary() {
			got = append(got, s.Pixels)
		}
		if !slices.Equal(got, want) || len(j.masks) != len(want) || out["overlay"].image(len(want)-1) == nil {
			t.Errorf("--mask %s: masks of %d pixels, want %d", which, got, want)
		}
		if which == "best" {
			if q := tensor.View[float32](out["iou"].tensor.Data); !slices.Equal(q, []float32{0.9}) || j.summary()[0].Mask != 2 {
				t.Errorf("best is %v with quality %v; want mask 2 with 0.9", j.summary(), q)
			}
			if h.runs[1].syms["N"] != 3 {
				t.Errorf("sizes %v; want N = 3: two points and the padding", h.runs[1].syms)
			}
		}
		if which == "0" {
			mask := out["mask"].image(0).(*image.Gray)
			if mask.GrayAt(2, 8).Y != 255 || mask.GrayAt(29, 8).Y != 0 {
				t.Error("mask 0 is not the bright half")
			}
		}
	}
}

func TestSegmentJobRefuses(t *testing.T) {
	path := twoColours(t, 32, 16)
	notImage := filepath.Join(t.TempDir(), "x.png")
	if err := os.WriteFile(notImage, []byte("plain text"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		image, point, box, mask string
		code                    error
		text                    string
	}{
		{"", "1,1", "", "best", diag.Usage, "--image photo.jpg"},
		{path, "", "", "best", diag.Usage, "neither a point nor a box"},
		{path, "33,1", "", "best", task.CodePrompt, "outside the image, which has 32 x 16 pixels"},
		{path, "a,1", "", "best", task.CodePrompt, "X,Y"},
		{path, "", "5,5,5,9", "best", task.CodePrompt, "is empty"},
		{path, "1,1", "", "4", task.CodeMask, "0 to 3"},
		{notImage, "1,1", "", "best", task.CodeImage, "allowed are PNG and JPEG"},
		{path + "x", "1,1", "", "best", task.CodeImage, "no such file"},
	} {
		f := &segmentFlags{image: c.image, mask: c.mask}
		for _, v := range []struct {
			list  *cli.List
			value string
		}{{&f.points, c.point}, {&f.box, c.box}} {
			if v.value != "" {
				v.list.Set(v.value)
			}
		}
		_, err := newSegmentJob(t.Context(), tinyModel(t), f, nil, nil)
		wantError(t, c.text, err, c.code, c.text)
	}
}

// What flags mean depends on the artifact.
func TestNewJob(t *testing.T) {
	env := &cli.Env{}
	plain := tinyModel(t)
	plain.segment = nil
	for _, c := range []struct {
		m     *model
		flags runFlags
		text  string
	}{
		{tinyModel(t), runFlags{segment: segmentFlags{mask: "best"}}, "give --image with --point or --box, or --method"},
		{plain, runFlags{segment: segmentFlags{mask: "best", image: "x.png"}}, "declares no task that takes images; it offers the methods encode, decode"},
		{plain, runFlags{segment: segmentFlags{mask: "best"}}, "--method: is missing; methods are encode, decode"},
		{plain, runFlags{segment: segmentFlags{mask: "best"}, method: "run"}, "no such method; methods are encode, decode"},
		{tinyModel(t), runFlags{segment: segmentFlags{mask: "best", image: "x"}, method: "encode"}, "does not go together with --method"},
	} {
		_, err := newJob(t.Context(), c.m, &c.flags, env, nil)
		wantError(t, c.text, err, diag.Usage, c.text)
	}
}

// The default is the artifact's first; what it does not list is not allowed.
func TestChoosePrecision(t *testing.T) {
	for _, c := range []struct {
		artifact    []string
		asked, want string
	}{
		{nil, "", "f32"}, {[]string{"f32", "bf16"}, "", "f32"}, {[]string{"f32", "bf16"}, "bf16", "bf16"}, {[]string{"bf16"}, "", "bf16"},
		{nil, "bf16", ""}, {[]string{"bf16"}, "f32", ""}, {[]string{"f32", "bf16"}, "BF16", ""},
	} {
		f := hostFlags{precision: c.asked}
		err := f.choosePrecision(&model{path: "m.rlx", precisions: c.artifact}, debugFlags{})
		if c.want == "" {
			wantError(t, c.asked, err, diag.Usage, "--precision "+c.asked+": m.rlx does not allow it; allowed are ")
		} else if err != nil || f.precision != c.want {
			t.Errorf("%q of %q is %q (%v); want %q", c.asked, c.artifact, f.precision, err, c.want)
		}
	}
}

const nanGraph = `graph f
x = input : f32[2,3]
a = neg x : f32[2,3]
b = log a : f32[2,3]
c = exp b : f32[2,3]
return y=c
`

func oneRun(t *testing.T, text string, debug debugFlags) (*host, map[string]tensor.Tensor, error) {
	t.Helper()
	return runOnce(t, &model{path: "m.rlx", programs: []*program.Program{programOf(t, text, "cpu")}}, debug)
}

func someInputs(t *testing.T, g *ir.Graph) map[string]tensor.Tensor {
	t.Helper()
	syms, err := benchSizes(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	return madeUpInputs(g, syms)
}

func runOnce(t *testing.T, m *model, debug debugFlags) (*host, map[string]tensor.Tensor, error) {
	t.Helper()
	h := hostOf(t, m, debug)
	h.trace = &trace{origin: time.Now()}
	in := someInputs(t, m.programs[0].Graph)
	name := m.methods()[0]
	ready, err := h.loadAll(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	out, err := ready[name].run(t.Context(), in)
	return h, out, err
}

func TestCheckNaN(t *testing.T) {
	if _, _, err := oneRun(t, nanGraph, debugFlags{}); err != nil {
		t.Errorf("without --check-nan: %v", err)
	}
	_, _, err := oneRun(t, nanGraph, debugFlags{checkNaN: true})
	wantError(t, "log of a negative number", err, device.ErrNaN, "b")
}

const mlpGraph = `graph f
sym N = 1..9
x = input : f32[N,8]
w = const {value=0.25} : f32[8,8]
h = matmul x, w : f32[N,8]
g = gelu h : f32[N,8]
v = reshape g : f32[N,2,4]
s = softmax v {axis=2} : f32[N,2,4]
n = narrow s {axis=1, len=1} : f32[N,1,4]
return y=s, z=n
`

// --check agrees with a backend that is right, and names the step of one that is not.
func TestCheck(t *testing.T) {
	h, _, err := oneRun(t, mlpGraph, debugFlags{check: true})
	if err != nil {
		t.Fatalf("a right backend: %v", err)
	}
	l := &loaded{h: h, prog: h.runs[0].prog}
	bound, err := l.prog.Bind(h.runs[0].syms)
	if err != nil {
		t.Fatal(err)
	}
	in := someInputs(t, l.prog.Graph)
	w, err := (&debugFlags{check: true}).watch(t.Context(), l, bound, in)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range bound.Steps {
		wrong := tensor.New(s.Outs[0].DType, s.Outs[0].Shape...) // zeros
		if s.Node.Op.Name == "const" {
			wrong = constant(s, 0.25)
		}
		if err = w.observe(s.Node.ID, s.Outs[0].Shape, wrong.Data); err != nil {
			break
		}
	}
	wantError(t, "a matmul of zeros", err, CodeCheck, "step 2 of", "matmul h")
}

func constant(s program.BoundStep, v float32) tensor.Tensor {
	t := tensor.New(dtype.F32, s.Outs[0].Shape...)
	for i := range tensor.View[float32](t.Data) {
		tensor.View[float32](t.Data)[i] = v
	}
	return t
}

func TestDumpTensors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	var d debugFlags
	d.dumps.Set("[hs]=" + dir)
	if err := d.prepare(); err != nil {
		t.Fatal(err)
	}
	_, out, err := oneRun(t, mlpGraph, d)
	if err != nil {
		t.Fatal(err)
	}
	onlyFiles(t, dir, "f.00001.h.npy", "f.00003.s.npy")
	s, err := npy.ReadFile(t.Context(), filepath.Join(dir, "f.00003.s.npy"), nil)
	if err != nil || !slices.Equal(s.Data, out["y"].Data) || !slices.Equal(s.Shape, []int{2, 2, 4}) {
		t.Errorf("the dumped softmax is not the output: %v %v", s.Shape, err)
	}
	bad := debugFlags{}
	bad.dumps.Set("[=x")
	wantError(t, "bad pattern", bad.prepare(), diag.Usage, "GLOB=DIR")
}

// TestTraversal is case "traversal" of the adversary: names in an artifact do not lead out of the folder of --dump-tensors.
func TestTraversal(t *testing.T) {
	dir := t.TempDir()
	dumps, victim := filepath.Join(dir, "dumps"), filepath.Join(dir, "victim")
	if err := os.Mkdir(victim, 0o777); err != nil {
		t.Fatal(err)
	}
	var d debugFlags
	d.dumps.Set("*=" + dumps)
	if err := d.prepare(); err != nil {
		t.Fatal(err)
	}
	p := programOf(t, "graph f\nx = input : f32[2]\ny = neg x : f32[2]\nreturn y=y\n", "cpu")
	p.Method = "../victim/m"
	p.Graph.Nodes[1].Name = "../../victim/n"
	if _, _, err := runOnce(t, &model{path: "m.rlx", programs: []*program.Program{p}}, d); err != nil {
		t.Fatal(err)
	}
	onlyFiles(t, victim)
	onlyFiles(t, dir, "dumps", "victim")
	onlyFiles(t, dumps, "_._victim_m.00000._._.._victim_n.npy")
}

func TestProfileAndTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.json")
	h, _, err := oneRun(t, mlpGraph, debugFlags{profile: true, trace: file})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := profileOf(h.runs[0])
	if err != nil {
		t.Fatal(err)
	}
	share, ops := 0.0, map[string]profileRow{}
	for _, r := range rows {
		share, ops[r.Op] = share+r.Share, r
	}
	// x[2,8] times w[8,8]: a multiply-add for each of 2*8*8; reads 16 + 64 and writes 16 floats.
	if m := ops["matmul"]; m.FLOPs != 2*2*8*8 || m.Bytes != 4*(16+64+16) || m.Count != 1 {
		t.Errorf("matmul: %+v", m)
	}
	if len(rows) == 0 || share < 0.999 || share > 1.001 {
		t.Errorf("shares add up to %g in %v", share, rows)
	}
	var w files
	if err := h.addTrace(t.Context(), &w); err != nil {
		t.Fatal(err)
	}
	if err := w.commit(); err != nil {
		t.Fatal(err)
	}
	var got struct{ TraceEvents []traceEvent }
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]traceEvent{}
	for _, e := range got.TraceEvents {
		names[e.Name] = e
	}
	run, mm := names["run f"], names["matmul"]
	if run.PID != traceHost || mm.PID != traceBackend || mm.TS < run.TS || mm.TS+mm.Dur > run.TS+run.Dur+1 {
		t.Errorf("matmul %+v is not inside run %+v", mm, run)
	}
	if mm.Args["node"] != "h" || mm.Args["clock"] != device.HostClock || names["load f"].Ph != "X" {
		t.Errorf("events %+v", names)
	}
}

// The program is the backend's own, or else one of which it takes every node.
func TestPick(t *testing.T) {
	m := &model{path: "m.rlx", programs: []*program.Program{programOf(t, mlpGraph, "portable"), programOf(t, mlpGraph, "cpu"), programOf(t, mlpGraph, "gpu")}}
	h := hostOf(t, m, debugFlags{})
	if p, err := h.pick("f"); err != nil || p.Target != "cpu" {
		t.Errorf("%v, %v; want the target cpu", p, err)
	}
	h.info.Name = "metal"
	if p, err := h.pick("f"); err != nil || p.Target != "portable" {
		t.Errorf("%v, %v; want the first target", p, err)
	}
	few, err := target.Parse("target metal 1\ntypes f32\nrun const()\nrun matmul(f32...)\nrun add(f32...)")
	if err != nil {
		t.Fatal(err)
	}
	h.info.Target = few
	_, err = h.pick("f")
	wantError(t, "no gelu", err, device.ErrUnsupported, "metal has no rule for gelu", "rlxrun plugins describe metal")
	wantError(t, "no device", h.chooseDevice("7"), device.ErrUnavailable, "device cpu:7", "allowed are cpu:0")
}

func TestBench(t *testing.T) {
	h, _, err := oneRun(t, mlpGraph, debugFlags{})
	if err != nil {
		t.Fatal(err)
	}
	l := &loaded{h: h, prog: h.runs[0].prog}
	for i := range 4 { // 5 in all
		r := h.runs[0]
		r.wall = time.Duration(i+1) * time.Millisecond
		h.runs = append(h.runs, r)
	}
	m, err := h.measured(l, &benchFlags{warmup: 2})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"device", "load_ms", "first_ms", "runs_ms", "flops", "arena_bytes", "weights_bytes", "backend_peak_rss_bytes", "host_peak_rss_bytes"} {
		if !strings.Contains(string(b), `"`+key+`":`) {
			t.Errorf("no %s in %s", key, b)
		}
	}
	if !slices.Equal(m.RunsMS, []float64{2, 3, 4}) || m.MedianMS != 3 || m.MinMS != 2 || m.MaxMS != 4 || m.Sizes["N"] != 2 {
		t.Errorf("%+v; want the 3 runs after 2, with N = 2", m)
	}
	syms, err := benchSizes(l.prog.Graph, []string{"N=9"})
	if err != nil || madeUpInputs(l.prog.Graph, syms)["x"].Shape[0] != 9 {
		t.Errorf("--size N=9: %v, %v", syms, err)
	}
	for _, v := range []string{"N=10", "M=1", "N", "N=x"} {
		_, err := benchSizes(l.prog.Graph, []string{v})
		wantError(t, v, err, diag.Usage, "--size "+v)
	}
	if median([]float64{5, 1, 3}) != 3 || median([]float64{4, 1, 3, 2}) != 2.5 {
		t.Error("median")
	}
}

// The closing line tells a software adapter from a GPU.
func TestDeviceName(t *testing.T) {
	for _, c := range []struct {
		backend string
		device  device.Device
		want    string
	}{
		{"wgpu", device.Device{ID: "0", Name: "llvmpipe", Type: "software", Features: []string{"vulkan"}}, "wgpu:0 llvmpipe (software, vulkan)"},
		{"wgpu", device.Device{ID: "1", Name: "H200", Type: "gpu"}, "wgpu:1 H200 (gpu)"},
		{"cpu", device.Device{ID: "0", Name: "EPYC", Type: "cpu", Features: []string{"avx2"}}, "cpu:0 EPYC (avx2)"},
		{"mine", device.Device{ID: "0"}, "mine:0"},
	} {
		h := &host{backend: c.backend, device: c.device}
		if got := h.deviceName(); got != c.want {
			t.Errorf("%q; want %q", got, c.want)
		}
	}
}

// A mask of no predicted quality has a summary too: JSON has no NaN.
func TestSummaryOfNaN(t *testing.T) {
	j := &segmentJob{masks: []task.Mask{{Token: 1, IoU: float32(math.NaN()), Image: image.NewGray(image.Rect(0, 0, 1, 1))}}}
	b, err := json.Marshal(j.summary())
	if err != nil || string(b) != `[{"mask":1,"iou":"NaN","pixels":0}]` {
		t.Errorf("%s, %v", b, err)
	}
}
