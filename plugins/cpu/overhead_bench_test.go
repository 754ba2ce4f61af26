package main_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

// BenchmarkLargeResults times a run that computes little and returns four results of 64 MB. Image encoders return as
// much, and the copies from the backend to the caller then take a large part of the time.
func BenchmarkLargeResults(b *testing.B) {
	const results, elements = 4, 16 << 20
	g := ir.NewGraph("large")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, results))
	for i := range results {
		g.Return(fmt.Sprint("y", i), op.Expand(op.Narrow(x, 0, i, 1), ir.Shape{ir.Static(elements)}))
	}
	p, _, err := sched.Build(
		g, sched.Options{Method: "large", Target: "portable", Weights: func(string) (int64, bool) { return 0, false }})
	if err != nil {
		b.Fatal(err)
	}
	s, err := host.Start(b.Context(), host.Options{Path: plugin, IOSize: p.IOSize, Encode: format.EncodeProgram})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	e, err := s.Load(b.Context(), device.Load{Program: p})
	if err != nil {
		b.Fatal(err)
	}
	var total, inside []time.Duration
	data := tensor.Bytes([]float32{1, 2, 3, 4})
	for b.Loop() {
		start := time.Now()
		out, st, err := e.(*host.Executable).RunTensors(b.Context(), device.Run{}, [][]byte{data})
		if err != nil || len(out) != results || tensor.View[float32](out[results-1])[elements-1] != 4 {
			b.Fatal(err)
		}
		total, inside = append(total, time.Since(start)), append(inside, st.Total)
	}
	slices.Sort(total)
	slices.Sort(inside)
	b.ReportMetric(float64(total[len(total)/2].Microseconds())/1e3, "median-ms")
	b.ReportMetric(float64(inside[len(inside)/2].Microseconds())/1e3, "backend-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkHostOverhead times a run of one step with up to 4 KB of input and output, from the call to the result, with
// the backend in its own process: at the same size each time ("same") and at sizes that change ("new").
// docs/measurements.md quotes median-us.
func BenchmarkHostOverhead(b *testing.B) {
	g := ir.NewGraph("one", ir.Sym{Name: "N", Min: 512, Max: 1024})
	x := op.Input(g, "x", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("N")}})
	g.Return("y", op.Relu(x))
	p, _, err := sched.Build(
		g, sched.Options{Method: "one", Target: "portable", Weights: func(string) (int64, bool) { return 0, false }})
	if err != nil {
		b.Fatal(err)
	}
	s, err := host.Start(b.Context(), host.Options{Path: plugin, IOSize: p.IOSize, Encode: format.EncodeProgram})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	e, err := s.Load(b.Context(), device.Load{Program: p, Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		n    func(i int) int64
	}{{"same", func(int) int64 { return 1024 }}, {"new", func(i int) int64 { return 1024 - int64(i)%512 }}} {
		b.Run(c.name, func(b *testing.B) {
			data := make([]byte, 4096)
			var times []time.Duration
			for i := 0; b.Loop(); i++ {
				n := c.n(i)
				start := time.Now()
				out, _, err := e.(*host.Executable).RunTensors(b.Context(), device.Run{Syms: map[string]int64{"N": n}},
					[][]byte{data[:4*n]})
				if err != nil || len(out[0]) != int(4*n) {
					b.Fatal(len(out), err)
				}
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "median-us")
		})
	}
}
