// Command figures measures the figures in docs/measurements.md: accuracy compared with the goldens, memory, and times
// that have a bound. It runs the built commands like a user, and prints one row per figure.
//
//	make build && go run ./bench/figures [-only accuracy,demo,compile,run] [-backend wgpu] [-precision bf16]
//
// The exit status is 1 if a figure misses its bound. The bounds of wgpu's times and memory are for one large GPU.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/npy"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
)

func main() {
	only := flag.String("only", "demo,accuracy,compile,run", "groups to measure")
	flag.StringVar(&bin, "bin", "bin", "folder of the built commands")
	dir := flag.String("dir", "", "folder for checkpoints and artifacts (about 1.5 GB); empty for a temporary one")
	flag.StringVar(&backend, "backend", "cpu",
		"backend to run on; results of other backends than cpu are also compared with those of cpu")
	flag.StringVar(&precision, "precision", "f32", "precision to run in: f32 or bf16")
	flag.Parse()
	b := &bench{dir: *dir}
	if b.dir != "" {
		check(os.MkdirAll(b.dir, 0o755))
	}
	if b.dir == "" {
		var err error
		scratch, err = os.MkdirTemp("", "rlx-figures")
		check(err)
		b.dir = scratch
	}
	for _, g := range []struct {
		name string
		run  func(*bench)
	}{{"demo", demo}, {"accuracy", accuracy}, {"compile", compile}, {"run", run}} {
		if slices.Contains(strings.Split(*only, ","), g.name) {
			g.run(b)
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tmeasured\tbound\t")
	for _, r := range b.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.name, r.measured, r.bound,
			map[bool]string{true: "ok", false: "MISSED"}[r.ok])
	}
	w.Flush()
	if slices.ContainsFunc(b.rows, func(r row) bool { return !r.ok }) {
		leave(1)
	}
	leave(0)
}

// scratch is the temporary folder, or empty.
var scratch string

// leave removes the temporary folder, which may hold more than a gigabyte, and exits.
func leave(status int) {
	if scratch != "" {
		os.RemoveAll(scratch)
	}
	os.Exit(status)
}

// bin is the folder of rlxc, rlxrun and the backends.
var bin string

// The backend and the precision to measure.
var backend, precision string

// reference is the backend with which other backends are compared.
const reference = "cpu"

type row struct {
	name, measured, bound string
	ok                    bool
}

type bench struct {
	dir  string
	rows []row
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// atMost adds a row for a figure that must not exceed its bound.
func (b *bench) atMost(name string, value, bound float64, unit string) {
	b.rows = append(
		b.rows, row{name, fmt.Sprintf("%.3g%s", value, unit), fmt.Sprintf("<= %.3g%s", bound, unit), value <= bound})
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		leave(70)
	}
}

// usage is the time and memory that a command took.
type usage struct {
	wall time.Duration
	rss  int64 // peak in bytes; at least that of this program, because the child starts as a copy of it
	out  string
}

// command runs one of our commands and exits if it fails.
func command(name string, args ...string) usage {
	cmd := exec.Command(filepath.Join(bin, name), args...)
	var out bytes.Buffer
	cmd.Stdout = &out
	var log bytes.Buffer
	cmd.Stderr = &log
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil {
		check(fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, log.String()))
	}
	return usage{wall, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10, out.String()}
}

// checkpoint returns the path of the checkpoint of a golden case. It synthesises the checkpoint if the file does not
// exist.
func (b *bench) checkpoint(name string) string {
	path := b.path(name + ".safetensors")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	es, err := synth.ReadManifest(filepath.Join("testdata/goldens", name, "manifest.json"))
	check(err)
	check(synth.Write(path, es, dtype.F32))
	return path
}

func demo(b *bench) {
	art := b.path("demo.rlx")
	command("rlxc", "demo/sam-nano.safetensors", "-o", art)
	for name, point := range map[string]string{"scene1": "128,128", "coins": "203,203"} {
		mask := b.path(name + ".png")
		command("rlxrun", art, "--backend", backend, "--precision", precision, "--image", "demo/"+name+".png",
			"--point", point, "-o", mask)
		iou, err := maskIoU(mask, "demo/"+name+".mask.png")
		check(err)
		b.rows = append(
			b.rows, row{"demo " + name + ", IoU with the reference mask", fmt.Sprintf("%.5f", iou), ">= 0.99",
				iou >= 0.99})
	}
	slices.SortFunc(b.rows, func(x, y row) int { return strings.Compare(x.name, y.name) })
}

// prompt is a prompt of a golden: points, labels, and the range of mask tokens in the golden.
type prompt struct {
	name   string
	points []float32
	labels []int32
	first  int
	count  int
}

const (
	halfBound = 2e-2 // error of embeddings if the operands of products are rounded to bf16
	agreement = 2e-4 // difference of two backends
)

func accuracy(b *bench) {
	for _, c := range []struct {
		name          string
		size          float32
		set           []string
		encode, masks float64 // bounds of the error in f32
	}{
		{"sam_tiny", 128, []string{"--set", "mask_decoder_config.num_attention_heads=2"}, 1e-4, 1e-4},
		{"sam_vit_b", 1024, nil, 3e-4, 1e-3},
	} {
		if precision != "f32" {
			c.encode = halfBound
		}
		art := b.path(c.name + ".rlx")
		// The checkpoints have the original release's names, but the goldens come from Transformers, which uses this
		// epsilon.
		command(
			"rlxc", append(
				[]string{b.checkpoint(c.name), "-o", art, "--set", "mask_decoder_config.layer_norm_eps=1e-6"},
				c.set...)...)
		n := int(c.size)
		image := b.path(c.name + ".image.npy")
		check(synth.WriteNpy(image, synth.Entry{Name: c.name + ".image", Shape: []int{1, 3, n, n}, Scale: 2}))
		emb := b.path(c.name + ".emb.npy")
		encode := func(backend, to string) {
			command("rlxrun", art, "-b", backend, "--precision", precision, "--method", "encode", "-i", "image=@"+image,
				"-o", "embeddings="+to)
		}
		encode(backend, emb)
		golden := "testdata/goldens/" + c.name + "/golden.safetensors:"
		b.compare(c.name+" encode", emb, golden+"image_embeddings", c.encode, 0, 0)
		if precision != "f32" {
			continue // the bounds of masks hold for f32 only
		}
		if backend != reference {
			other := b.path(c.name + ".reference.npy")
			encode(reference, other)
			b.compare(c.name+" encode, against "+reference, emb, other, agreement, 0, 0)
		}
		s := c.size
		for _, p := range []prompt{
			{"point", []float32{.3 * s, .6 * s, 0, 0}, []int32{1, -1}, 1, 3},
			{"two_points", []float32{.3 * s, .6 * s, .7 * s, .2 * s, 0, 0}, []int32{1, 0, -1}, 0, 1},
			{"box", []float32{.2 * s, .25 * s, .8 * s, .75 * s}, []int32{2, 3}, 1, 3},
		} {
			k := len(p.labels)
			pts, lbl, masks, iou := b.path("p.npy"), b.path("l.npy"), b.path("m.npy"), b.path("i.npy")
			check(
				npy.WriteFile(context.Background(), pts,
					tensor.Tensor{DType: dtype.F32, Shape: []int{1, k, 2}, Data: tensor.Bytes(p.points)}))
			check(
				npy.WriteFile(context.Background(), lbl,
					tensor.Tensor{DType: dtype.I32, Shape: []int{1, k}, Data: tensor.Bytes(p.labels)}))
			command("rlxrun", art, "-b", backend, "--method", "decode", "-i", "embeddings=@"+emb, "-i", "points=@"+pts,
				"-i", "labels=@"+lbl,
				"-o", "low_res_masks="+masks, "-o", "iou="+iou)
			b.compare(c.name+" decode "+p.name+", masks", masks, golden+p.name+".low_res_masks", c.masks, p.first,
				p.count)
			b.compare(c.name+" decode "+p.name+", iou", iou, golden+p.name+".iou", c.masks, p.first, p.count)
		}
	}
}

// compare adds a row for the largest difference, relative to the golden's largest value. If count > 0, it compares only
// the indices [first, first+count) of axis 1.
func (b *bench) compare(name, got, golden string, bound float64, first, count int) {
	g, err := tensortest.Load(got)
	check(err)
	w, err := tensortest.Load(golden)
	check(err)
	if count > 0 {
		per := g.Len() / g.Shape[1]
		g.Shape = append([]int{1, count}, g.Shape[2:]...)
		g.Floats = g.Floats[first*per : (first+count)*per]
	}
	d, err := tensortest.Compare(g, w)
	check(err)
	b.rows = append(b.rows, row{name, d.String(), fmt.Sprintf("max <= %.0e", bound), d.Within(bound)})
}

func compile(b *bench) {
	src := b.checkpoint("sam_vit_b")
	art := b.path("sam_vit_b.rlx")
	var copies, compiles []float64
	var rss int64
	for range 5 {
		copies = append(copies, copyFile(src, b.path("copy")).Seconds())
		u := command("rlxc", src, "-o", art)
		compiles = append(compiles, u.wall.Seconds())
		rss = max(rss, u.rss)
	}
	b.atMost("rlxc on ViT-B (375 MB), time over copying the file", median(compiles)/median(copies), 4, "x")
	b.atMost("rlxc on ViT-B, peak memory", float64(rss)/1e6, 300, " MB")
	first := digest(art)
	command("rlxc", src, "-o", b.path("again.rlx"))
	b.rows = append(
		b.rows, row{"two compiles of the same input", "identical bytes", "identical bytes",
			first == digest(b.path("again.rlx"))})
	if first != digest(b.path("again.rlx")) {
		b.rows[len(b.rows)-1].measured = "different bytes"
	}
	os.Remove(b.path("copy"))
	os.Remove(b.path("again.rlx"))
}

func run(b *bench) {
	art := b.path("sam_vit_b.rlx")
	if _, err := os.Stat(art); err != nil {
		command("rlxc", b.checkpoint("sam_vit_b"), "-o", art)
	}
	warmup, n := "1", "2"
	if backend != reference {
		warmup, n = "10", "20" // a run takes milliseconds
	}
	var loads, steady []float64
	var last map[string]any
	for range 3 {
		u := command("rlxrun", "bench", art, "-b", backend, "--precision", precision, "--method", "encode", "--warmup",
			warmup, "-n", n, "--format", "json")
		check(json.Unmarshal([]byte(u.out), &last))
		loads = append(loads, last["load_ms"].(float64))
		for _, ms := range last["runs_ms"].([]any) {
			steady = append(steady, ms.(float64))
		}
	}
	num := func(key string) float64 { return last[key].(float64) }
	b.rows = append(b.rows, row{"device of what follows", fmt.Sprint(last["device"]), "", true})
	b.atMost("arena of ViT-B encode", num("arena_bytes")/1e6, 130, " MB")
	if backend != reference {
		b.atMost("device memory of ViT-B encode over weights and arena",
			(num("device_memory_bytes")-num("weights_bytes")-num("arena_bytes"))/1e6, 64, " MB")
		b.atMost("rlxrun up to the first dispatch, ViT-B", median(loads), 2000, " ms")
		b.atMost("ViT-B encode, steady", median(steady), 40, " ms")
		return
	}
	b.atMost("peak memory of the cpu plugin on ViT-B over the weights",
		(num("backend_peak_rss_bytes")-num("weights_bytes"))/1e6, 350, " MB")
	b.atMost("rlxrun up to the first dispatch, ViT-B", median(loads), 300, " ms")
	b.atMost("ViT-B encode, steady", median(steady)/1e3, 40, " s")
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// copyFile copies a file without waiting for the disk, as cp does, and returns the time.
func copyFile(from, to string) time.Duration {
	start := time.Now()
	src, err := os.Open(from)
	check(err)
	defer src.Close()
	dst, err := os.Create(to)
	check(err)
	// Hide ReadFrom: it could share blocks between the files instead of copying them.
	_, err = io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, 1<<20))
	check(err)
	check(dst.Close())
	return time.Since(start)
}

func digest(path string) [32]byte {
	f, err := os.Open(path)
	check(err)
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	check(err)
	return [32]byte(h.Sum(nil))
}
