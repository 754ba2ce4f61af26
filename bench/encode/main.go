// Command encode measures the image encoder of SAM ViT-B on the cpu backend, in each precision. It prints the time of
// each kind of op and the least time that the machine's peaks allow, the share of the peak from end to end, and the
// peak memory.
//
//	make build && go run ./bench/encode [-precision f32,bf16] [-peak out/peak.json]
//
// The peaks are measured before and after each precision. Shares refer to the best measurement; -peak adds one by
// bench/peak. Without -artifact, the checkpoint of the ViT-B golden is synthesised and compiled.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rlx-go/rlx/bench/measure"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/synth"
)

// encoderFLOPs is the number of operations of the encoder that all figures use: the matrix products of the model as
// published. It includes the padding tokens of windows, even if an implementation skips them.
const encoderFLOPs = 0.96e12

func main() {
	bin := flag.String("bin", "bin", "folder of the built commands")
	artifact := flag.String("artifact", "", "compiled model with a method encode; empty for that of the ViT-B golden")
	peak := flag.String("peak", "", "file with the output of bench/peak (optional)")
	precisions := flag.String("precision", "f32,bf16", "precisions to measure")
	threads := flag.Int("threads", 0, "threads; 0 for one per processor")
	runs := flag.Int("n", 5, "number of runs after the first")
	flag.Parse()
	if err := run(*bin, *artifact, *peak, strings.Split(*precisions, ","), *threads, *runs); err != nil {
		fmt.Fprintln(os.Stderr, "encode:", err)
		os.Exit(1)
	}
}

// measured is the part of rlxrun bench's output that this command uses.
type measured struct {
	Device         string    `json:"device"`
	Precision      string    `json:"precision"`
	LoadMS         float64   `json:"load_ms"`
	FirstMS        float64   `json:"first_ms"`
	RunsMS         []float64 `json:"runs_ms"`
	MedianMS       float64   `json:"median_ms"`
	MinMS          float64   `json:"min_ms"`
	MaxMS          float64   `json:"max_ms"`
	ArenaBytes     int64     `json:"arena_bytes"`
	WeightsBytes   int64     `json:"weights_bytes"`
	BackendPeakRSS int64     `json:"backend_peak_rss_bytes"`
	HostPeakRSS    int64     `json:"host_peak_rss_bytes"`
	Profile        []struct {
		Op    string  `json:"op"`
		Count int     `json:"count"`
		MS    float64 `json:"ms"`
		Share float64 `json:"share"`
		FLOPs int64   `json:"flops"`
		Bytes int64   `json:"bytes"`
	} `json:"profile"`
}

func run(bin, artifact, peak string, precisions []string, threads, runs int) error {
	var p measure.Peaks
	if peak != "" {
		text, err := os.ReadFile(peak)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &p); err != nil {
			return fmt.Errorf("%s: %w", peak, err)
		}
	}
	if artifact == "" {
		dir, err := os.MkdirTemp("", "rlx-encode")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if artifact, err = compileGolden(bin, dir); err != nil {
			return err
		}
	}
	count := "auto"
	if threads > 0 {
		count = strconv.Itoa(threads)
	}
	measurePeaks := func() error {
		q, err := measure.Machine(threads, time.Second/2)
		p = p.Best(q)
		return err
	}
	if err := measurePeaks(); err != nil {
		return err
	}
	var pairs [][2]measured // without and with a profile
	for _, precision := range precisions {
		args := []string{"bench", artifact, "-b", "cpu", "--method", "encode", "--precision", precision, "--threads",
			count, "--json"}
		var m [2]measured
		for i, more := range [][]string{{"-n", strconv.Itoa(runs)}, {"-n", "1", "--profile"}} {
			if err := command(&m[i], filepath.Join(bin, "rlxrun"), slices.Concat(args, more)...); err != nil {
				return err
			}
		}
		pairs = append(pairs, m)
		if err := measurePeaks(); err != nil {
			return err
		}
	}
	for _, m := range pairs {
		if err := report(p, m[0], m[1]); err != nil {
			return err
		}
	}
	return nil
}

// compileGolden writes the checkpoint of the ViT-B golden and compiles it.
func compileGolden(bin, dir string) (string, error) {
	es, err := synth.ReadManifest("testdata/goldens/sam_vit_b/manifest.json")
	if err != nil {
		return "", err
	}
	weights, artifact := filepath.Join(dir, "sam_vit_b.safetensors"), filepath.Join(dir, "sam_vit_b.rlx")
	if err := synth.Write(weights, es, dtype.F32); err != nil {
		return "", err
	}
	return artifact, command(nil, filepath.Join(bin, "rlxc"), weights, "-o", artifact)
}

// command runs one of our commands and decodes the JSON that it prints, if into is not nil.
func command(into any, name string, args ...string) error {
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(out.Bytes(), into)
}

// report prints the tables. The least time of an op is the time of its arithmetic at the peak of the precision, or the
// time to read its operands and write its results once at the bandwidth of copying, whichever is longer.
func report(p measure.Peaks, m, profiled measured) error {
	peak := p.Of(m.Precision)
	fmt.Printf("\n%s\n", m.Precision)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "op\tcount\tms\tof the encode\tGFLOP/s\tleast ms\tleast of actual\t\n")
	for _, o := range profiled.Profile {
		least := max(float64(o.FLOPs)/peak, float64(o.Bytes)/p.Copy) / 1e6
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f %%\t%.0f\t%.1f\t%.0f %%\t\n", o.Op, o.Count, o.MS, 100*o.Share,
			float64(o.FLOPs)/o.MS/1e6, least, 100*least/o.MS)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	floor := encoderFLOPs / peak / 1e6
	w = tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\ndevice\t%s\n", m.Device)
	fmt.Fprintf(w, "peak, %s, %s, %d threads\t%.0f GFLOP/s\n", m.Precision, p.Features, p.Threads, peak)
	fmt.Fprintf(w, "copying\t%.1f GB/s read and written\n", p.Copy)
	fmt.Fprintf(w, "encode, median of %d\t%.0f ms (%.0f to %.0f)\n", len(m.RunsMS), m.MedianMS, m.MinMS, m.MaxMS)
	fmt.Fprintf(w, "floor, %.2f TFLOP at the peak\t%.0f ms\n", encoderFLOPs/1e12, floor)
	fmt.Fprintf(w, "share of the peak, end to end\t%.1f %%\n", 100*floor/m.MedianMS)
	fmt.Fprintf(w, "first run over steady run\t%.2f\n", m.FirstMS/m.MedianMS)
	fmt.Fprintf(w, "load\t%.0f ms from process start to the first dispatch\n", m.LoadMS)
	fmt.Fprintf(w, "peak memory of the backend\t%.0f MB, of which weights %.0f, arena %.0f\n",
		float64(m.BackendPeakRSS)/1e6, float64(m.WeightsBytes)/1e6, float64(m.ArenaBytes)/1e6)
	fmt.Fprintf(w, "peak memory of the host process\t%.0f MB\n", float64(m.HostPeakRSS)/1e6)
	return w.Flush()
}
