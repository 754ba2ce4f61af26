package main

import (
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/npy"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/segment"
	"github.com/rlx-go/rlx/task"
)

// twoColours writes an image whose left half is bright red and whose right half is black.
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

// withDefaults sets the defaults that declare would set.
func withDefaults(f segmentFlags) *segmentFlags {
	f.grid, f.minIoU, f.minStability = segment.DefaultSide, segment.DefaultMinIoU, segment.DefaultMinStability
	return &f
}

// segmentRun returns flags of a run that include those of the task.
func segmentRun(f segmentFlags) *runFlags {
	return &runFlags{image: new(imageFlag),
		tasks: []taskUse{
			{taskKind: taskKinds[slices.IndexFunc(
				taskKinds, func(k taskKind) bool { return k.name == task.KindSegment })], flags: withDefaults(f)}}}
}

// TestSegmentJob runs the task end to end on a model with known masks: mask 0 is the bright half, 1 the dark half, 2
// everything, 3 nothing. The best mask is 2, which has the highest quality among 1 to 3.
func TestSegmentJob(t *testing.T) {
	path := twoColours(t, 32, 16)
	for which, want := range map[string][]int{"best": {512}, "0": {256}, "1": {256}, "3": {0},
		"all": {256, 256, 512, 0}} {
		s := tinySession(t, debugFlags{})
		f := withDefaults(segmentFlags{maskFlags: maskFlags{image: path}, mask: which})
		f.points.Set("3,3")
		f.points.Set("20,3,0")
		j, err := newJob(t.Context(), s, segmentRun(*f))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ready(t.Context(), nil, nil, j.methods()...); err != nil {
			t.Fatal(err)
		}
		out, err := j.run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		sum := j.(*segmentJob).summary()
		for _, s := range sum {
			got = append(got, s.Pixels)
		}
		if !slices.Equal(got, want) || out["overlay"].image(len(want)-1) == nil {
			t.Errorf("--mask %s: masks of %d pixels, want %d", which, got, want)
		}
		if which == "best" {
			if q := tensor.View[float32](out["iou"].tensor.Data); !slices.Equal(q, []float32{0.9}) || sum[0].Mask != 2 {
				t.Errorf("best is %v with quality %v; want mask 2 with 0.9", sum, q)
			}
			if s.runs[1].Sizes["N"] != 3 {
				t.Errorf("sizes %v; want N = 3: two points and the padding", s.runs[1].Sizes)
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
	session := tinySession(t, debugFlags{})
	for _, c := range []struct {
		image, point, box, mask string
		code                    error
		text                    string
	}{
		{"", "1,1", "", "best", diag.Usage, "--image photo.jpg"},
		{path, "", "", "best", diag.Usage, "no point or box is given"},
		{path, "33,1", "", "best", code.MaskPrompt, "outside the image, which has 32 x 16 pixels"},
		{path, "a,1", "", "best", code.MaskPrompt, "X,Y"},
		{path, "", "5,5,5,9", "best", code.MaskPrompt, "is empty"},
		{path, "1,1", "", "4", code.MaskChoice, "0 to 3"},
		{notImage, "1,1", "", "best", code.Image, "allowed are PNG, JPEG, WebP, TIFF and BMP"},
		{path + "x", "1,1", "", "best", code.Image, "no such file"},
	} {
		f := withDefaults(segmentFlags{maskFlags: maskFlags{image: c.image}, mask: c.mask})
		for _, v := range []struct {
			list  *cli.List
			value string
		}{{&f.points, c.point}, {&f.box, c.box}} {
			if v.value != "" {
				v.list.Set(v.value)
			}
		}
		_, err := newJob(t.Context(), session, segmentRun(*f))
		wantError(t, c.text, err, c.code, c.text)
	}
}

// TestNewJob checks that the meaning of flags depends on the artifact.
func TestNewJob(t *testing.T) {
	method := func(name string, f segmentFlags) *runFlags {
		r := segmentRun(f)
		r.method = name
		return r
	}
	segment := tinySession(t, debugFlags{})
	path := filepath.Join(t.TempDir(), "plain.rlx")
	writeArtifact(t, path, nil, tinyPrograms(t)...)
	plain := sessionOf(t, path, debugFlags{})
	for _, c := range []struct {
		s     *session
		flags *runFlags
		text  string
	}{
		{segment, segmentRun(segmentFlags{mask: "best"}), "give --image with --point or --box, or --method"},
		{plain, segmentRun(segmentFlags{maskFlags: maskFlags{image: "x.png"}, mask: "best"}),
			"declares no task that takes images and prompts; it offers the methods encode, decode"},
		{plain, segmentRun(segmentFlags{mask: "best"}), "--method: is missing; methods are encode, decode"},
		{plain, method("run", segmentFlags{mask: "best"}), "no such method; methods are encode, decode"},
		{segment, method("encode", segmentFlags{maskFlags: maskFlags{image: "x"}, mask: "best"}),
			"cannot be combined with --method"},
	} {
		_, err := newJob(t.Context(), c.s, c.flags)
		wantError(t, c.text, err, diag.Usage, c.text)
	}
}

func TestDumpTensors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	var d debugFlags
	d.dumps.Set("[hs]=" + dir)
	if err := d.prepare(); err != nil {
		t.Fatal(err)
	}
	out, err := someRun(t, graphSession(t, tinymodel.MLP, d))
	if err != nil {
		t.Fatal(err)
	}
	onlyFiles(t, dir, "f.00001.h.npy", "f.00003.s.npy")
	s, err := npy.ReadFile(t.Context(), filepath.Join(dir, "f.00003.s.npy"), nil)
	if err != nil || !slices.Equal(s.Data, out.Outputs["y"].Data) || !slices.Equal(s.Shape, []int{2, 2, 4}) {
		t.Errorf("the dumped softmax is not the output: %v %v", s.Shape, err)
	}
	bad := debugFlags{}
	bad.dumps.Set("[=x")
	wantError(t, "bad pattern", bad.prepare(), diag.Usage, "GLOB=DIR")
}

// TestInFlags checks that errors of package rlx name flags.
func TestInFlags(t *testing.T) {
	s := tinySession(t, debugFlags{})
	_, err := s.model.Precision("fp8")
	wantError(t, "a precision", inFlags(err), diag.Usage, "--precision fp8: ")
	_, err = s.model.Method("f")
	wantError(t, "a method", inFlags(err), diag.Usage, "--method f: ")
	wantError(t, "a limit", inFlags(rlx.NewBudget(1).Reserve("image", 2)), device.ErrMemory,
		"needs 2 B (image 2 B); --memory allows 1 B")
	if err := inFlags(io.EOF); err != io.EOF {
		t.Errorf("%v", err)
	}
}

// TestTraversal is case "traversal" of the adversary: names in an artifact cannot lead out of the folder
// of --dump-tensors.
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
	r := rlx.Request{Method: "../victim/m"}
	d.watch(t.Context(), &r)
	if err := r.Observe(rlx.StepValue{Op: "neg", Name: "../../victim/n"},
		rlx.Tensor{DType: rlx.F32, Shape: []int{1}, Data: make([]byte, 4)}); err != nil {
		t.Fatal(err)
	}
	onlyFiles(t, victim)
	onlyFiles(t, dir, "dumps", "victim")
	onlyFiles(t, dumps, "_._victim_m.00000._._.._victim_n.npy")
}

func TestProfileAndTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.json")
	s := graphSession(t, tinymodel.MLP, debugFlags{profile: true, trace: file})
	if _, err := someRun(t, s); err != nil {
		t.Fatal(err)
	}
	rows := profileOf(s.runs[0])
	share, ops := 0.0, map[string]profileRow{}
	for _, r := range rows {
		share, ops[r.Op] = share+r.Share, r
	}
	// x[2,8] times w[8,8]: 2*8*8 multiply-adds, 16 + 64 floats read and 16 written.
	if m := ops["matmul"]; m.FLOPs != 2*2*8*8 || m.Bytes != 4*(16+64+16) || m.Count != 1 {
		t.Errorf("matmul: %+v", m)
	}
	if len(rows) == 0 || share < 0.999 || share > 1.001 {
		t.Errorf("shares add up to %g in %v", share, rows)
	}
	var w files
	if err := s.addTrace(t.Context(), &w); err != nil {
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
	if mm.Args["node"] != "h" || mm.Args["clock"] != "host" || names["load f"].Ph != "X" {
		t.Errorf("events %+v", names)
	}
}

func TestBench(t *testing.T) {
	s := graphSession(t, tinymodel.MLP, debugFlags{})
	if _, err := someRun(t, s); err != nil {
		t.Fatal(err)
	}
	for i := range 4 { // 5 runs in all
		r := *s.runs[0].Result
		r.Duration = time.Duration(i+1) * time.Millisecond
		s.runs = append(s.runs, runRecord{&r, "f"})
	}
	method := s.model.Methods()[0]
	m, err := s.measured("f", &benchFlags{}, &pace{warm: 2})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"device", "load_ms", "first_ms", "runs_ms", "flops", "arena_bytes", "weights_bytes",
		"backend_peak_rss_bytes", "host_peak_rss_bytes"} {
		if !strings.Contains(string(b), `"`+key+`":`) {
			t.Errorf("no %s in %s", key, b)
		}
	}
	if !slices.Equal(m.RunsMS, []float64{2, 3, 4}) || m.MedianMS != 3 || m.MinMS != 2 || m.MaxMS != 4 ||
		m.Sizes["N"] != 2 {
		t.Errorf("%+v; want the 3 runs after 2, with N = 2", m)
	}
	syms, err := benchSizes(method, []string{"N=9"})
	if err != nil || madeUp(method.Inputs, syms, 1)["x"].Shape[0] != 9 {
		t.Errorf("--size N=9: %v, %v", syms, err)
	}
	for _, v := range []string{"N=10", "M=1", "N", "N=x"} {
		_, err := benchSizes(method, []string{v})
		wantError(t, v, err, diag.Usage, "--size "+v)
	}
	if median([]float64{5, 1, 3}) != 3 || median([]float64{4, 1, 3, 2}) != 2.5 {
		t.Error("median")
	}
}

// TestDeviceName checks that the closing line distinguishes a software adapter from a GPU.
func TestDeviceName(t *testing.T) {
	for _, c := range []struct {
		backend string
		device  rlx.Device
		want    string
	}{
		{"wgpu", rlx.Device{ID: "0", Name: "llvmpipe", Type: "software", Features: []string{"vulkan"}},
			"wgpu:0 llvmpipe (software, vulkan)"},
		{"wgpu", rlx.Device{ID: "1", Name: "H200", Type: "gpu"}, "wgpu:1 H200 (gpu)"},
		{"cpu", rlx.Device{ID: "0", Name: "EPYC", Type: "cpu", Features: []string{"avx2"}}, "cpu:0 EPYC (avx2)"},
		{"mine", rlx.Device{ID: "0"}, "mine:0"},
	} {
		if got := deviceName(c.backend, c.device); got != c.want {
			t.Errorf("%q; want %q", got, c.want)
		}
	}
}

// TestSummaryOfNaN checks that a mask whose predicted quality is NaN has a summary too, although JSON has no NaN.
func TestSummaryOfNaN(t *testing.T) {
	j := &segmentJob{
		masks: []segment.Mask{{Token: 1, IoU: float32(math.NaN()), Image: image.NewGray(image.Rect(0, 0, 1, 1))}}}
	b, err := json.Marshal(j.summary())
	if err != nil || string(b) != `[{"mask":1,"iou":"NaN","pixels":0}]` {
		t.Errorf("%s, %v", b, err)
	}
}
