//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// BenchmarkSplats measures the ops of splats on a scene of random splats: the time on the device, the time of a run
// with its transfers, and the time of each shader of an op, which is the time that it adds to a run with the shaders
// before it. RLX_SPLATS=N,WIDTH,HEIGHT,SIZE chooses another scene than a million splats at 1920x1080.
func BenchmarkSplats(b *testing.B) {
	n, width, height, size := 1_000_000, 1920, 1080, 0.005
	if text := os.Getenv("RLX_SPLATS"); text != "" {
		parts := strings.Split(text, ",")
		for k, to := range []*int{&n, &width, &height} {
			*to, _ = strconv.Atoi(parts[k])
		}
		size, _ = strconv.ParseFloat(parts[3], 64)
	}
	s := randomSplats(n, 1, width, height, size, 3)
	s.in["meta"].Floats[18] = 1
	section, program, node := s.program(b, false)
	for _, gradients := range []bool{false, true} {
		name := map[bool]string{false: "render", true: "gradients"}[gradients]
		if gradients {
			section, program, node = s.program(b, true)
		}
		b.Run(name, func(b *testing.B) {
			all := program.measure(b, section, 0)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(all.device, "ms-device")
			b.ReportMetric(all.run, "ms-run")
			k, why := kernels.Find(node)
			if why != "" {
				b.Fatal(why)
			}
			before := 0.0
			info, err := shared.Info(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			fmt.Printf("%s: %d splats of %v at %dx%d on %v\n", name, n, size, width, height, info.Devices[0].Name)
			shaders := k.Shaders(node, kernels.Limits{WorkgroupStorage: 48 << 10})
			for i, shader := range shaders {
				t := program.measure(b, section, i+1).device
				fmt.Printf("%-20s %8.3f ms\n", shader.Name, t-before)
				before = t
			}
			fmt.Printf("%-20s %8.3f ms on the device, %.3f ms with transfers\n", "all", all.device, all.run)
		})
	}
}

type splatProgram struct{ load device.Load }

type splatTimes struct{ device, run float64 } // medians in ms

// program makes a program of the scene with the splats as weights.
func (s splatScene) program(b *testing.B, gradients bool) (section []byte, p splatProgram, n *ir.Node) {
	g := ir.NewGraph("splats")
	var in []*ir.Node
	for _, name := range splatParts[:6] {
		in = append(in, op.Param(g, name, ir.TypeOf(s.in[name].DType, int64(s.in[name].Len()))))
	}
	in = append(in, op.Input(g, "meta", ir.TypeOf(s.in["meta"].DType, int64(s.in["meta"].Len()))))
	if gradients {
		d := op.Input(g, "d_rgba", ir.TypeOf(s.in["meta"].DType, int64(s.height), int64(s.width), 4))
		a := op.GaussianSplatRenderBackwardAttrs{Width: s.width, Height: s.height}
		out := g.AddResults(6, op.GaussianSplatRenderBackwardDef, a, append(in, d)...)
		for k, x := range out {
			g.Return("d_"+splatParts[k], x)
		}
		n, _ = out[0].Maker()
	} else {
		n = op.GaussianSplatRender(s.width, s.height, in[6], in...)
		g.Return("rgba", n)
	}
	weights := map[string][]byte{}
	at, total := map[string]int64{}, int64(0)
	for _, name := range splatParts[:6] {
		weights[name] = s.in[name].Tensor().Data
		at[name] = total
		total += (int64(len(weights[name])) + 255) &^ 255
	}
	built, _, err := sched.Build(g, sched.Options{Target: "portable",
		Weights: func(name string) (int64, bool) { return at[name], true }})
	if err != nil {
		b.Fatal(err)
	}
	section = make([]byte, max(total, built.WeightsExtent()))
	for name, data := range weights {
		copy(section[at[name]:], data)
	}
	io := tensor.AlignedBytes(int(built.IOSize))
	for _, node := range built.Graph.Nodes {
		if node.Op.Name == "input" {
			pl := built.Places[node.ID]
			to := tensor.View[float32](io[pl.Offset:][:pl.Size])
			if pl.Size == 4*int64(s.in["meta"].Len()) {
				for i, x := range s.in["meta"].Floats {
					to[i] = float32(x)
				}
				continue
			}
			for i := range to {
				to[i] = float32(i%7)/7 - 0.4
			}
		}
	}
	return section, splatProgram{device.Load{Program: built, IO: io}}, n
}

func (p splatProgram) measure(b *testing.B, section []byte, shaders int) splatTimes {
	backend := shared
	if shaders > 0 {
		backend = New(Options{Shaders: shaders})
	}
	l := p.load
	l.Weights, l.IO = section, nil
	exe, err := backend.Load(context.Background(), l)
	if err != nil {
		b.Fatal(err)
	}
	defer exe.Close()
	var onDevice, runs []float64
	for k := range 12 {
		r := device.Run{IO: p.load.IO}
		r.Opts.Profile = k%2 == 1
		begin := time.Now()
		stats, err := exe.Run(context.Background(), r)
		if err != nil {
			b.Fatal(err)
		}
		if !r.Opts.Profile {
			runs = append(runs, float64(time.Since(begin))/1e6)
			continue
		}
		total := time.Duration(0)
		for _, step := range stats.Steps {
			total += step.Time
		}
		onDevice = append(onDevice, float64(total)/1e6)
	}
	slices.Sort(onDevice)
	slices.Sort(runs)
	return splatTimes{onDevice[len(onDevice)/2], runs[len(runs)/2]}
}
