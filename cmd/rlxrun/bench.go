package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name: "bench", Args: "FILE [flags]", Short: "measure a method on made-up inputs",
		Long: `Measures a method. The inputs are made up: floats from -1 to 1, integers 0 and 1, the same in every run; sizes that
are known at run time only are 2 unless --size says otherwise. The time of a run reaches from inputs handed in to outputs
readable. The first run is reported apart, then come N more.`,
		Examples: []cli.Example{
			{About: "the image encoder", Line: "rlxrun bench sam.rlx -b cpu --method encode -n 5 --format json"},
			{About: "the mask decoder with 10 prompt points on one thread", Line: "rlxrun bench sam.rlx --method decode --size N=10 --threads 1"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f benchFlags
			fs.Group("What is measured")
			fs.StringVar(&f.method, "method", "", "`NAME` the method; may be left out where there is one only")
			fs.IntVarP(&f.runs, "runs", "n", 5, "`N` runs after the first")
			fs.ListVarP(&f.sizes, "size", "", "`SYMBOL=N` a size that is known at run time only (repeatable)")
			f.host.declare(fs)
			f.debug.declare(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error { return bench(ctx, env, args, &f) }
		},
	}
}

type benchFlags struct {
	method string
	runs   int
	sizes  cli.List
	host   hostFlags
	debug  debugFlags
}

// measured is the result of bench.
type measured struct {
	Device         string           `json:"device"`
	Precision      string           `json:"precision"`
	Method         string           `json:"method"`
	Target         string           `json:"target"`
	Kernels        kernelSummary    `json:"kernels"`
	Sizes          map[string]int64 `json:"sizes,omitempty"`
	LoadMS         float64          `json:"load_ms"`  // process start to first dispatch
	FirstMS        float64          `json:"first_ms"` // the first run
	RunsMS         []float64        `json:"runs_ms"`  // the others; inputs handed in to outputs readable
	MedianMS       float64          `json:"median_ms"`
	FLOPs          int64            `json:"flops"` // of one run
	GFLOPS         float64          `json:"gflop_per_s"`
	ArenaBytes     int64            `json:"arena_bytes"`
	WeightsBytes   int64            `json:"weights_bytes"`
	BackendPeakRSS int64            `json:"backend_peak_rss_bytes"`
	HostPeakRSS    int64            `json:"host_peak_rss_bytes"`
	Profile        []profileRow     `json:"profile,omitempty"` // of the last run
}

func bench(ctx context.Context, env *cli.Env, args []string, f *benchFlags) error {
	path, err := oneFile(args)
	if err != nil {
		return err
	}
	if f.runs < 1 {
		return cli.Usagef("-n", "%d runs; allowed are 1 and more", f.runs)
	}
	if err := f.debug.prepare(); err != nil {
		return err
	}
	ctx, cancel, err := f.host.deadline(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	s, err := openSession(ctx, env, path, &f.host, f.debug)
	if err != nil {
		return f.host.explain(ctx, err)
	}
	err = s.bench(ctx, f)
	s.close()
	return f.host.explain(ctx, err)
}

func (s *session) bench(ctx context.Context, f *benchFlags) error {
	name, err := oneMethod(s.model, f.method)
	if err != nil {
		return err
	}
	in, err := madeUpInputs(s.model.targets(name)[0].Graph, f.sizes.Values)
	if err != nil {
		return err
	}
	if f.debug.trace != "" {
		if err := checkSinks(nil, []string{f.debug.trace}, s.model.path); err != nil {
			return err
		}
	}
	if err := f.debug.checkGlobs(s.model, []string{name}); err != nil {
		return err
	}
	h, err := s.host(ctx)
	if err != nil {
		return err
	}
	ready, err := h.loadAll(ctx, name)
	if err != nil {
		return err
	}
	l := ready[name]
	for range f.runs + 1 {
		if _, err := l.run(ctx, in); err != nil {
			return err
		}
	}
	m, err := h.measured(l)
	if err != nil {
		return err
	}
	var w files
	defer w.abort()
	if f.debug.trace != "" {
		if err := h.writeTrace(&w, f.debug.trace); err != nil {
			return err
		}
		if err := w.commit(); err != nil {
			return err
		}
	}
	return m.print(s.env)
}

// measured sums the runs up.
func (h *host) measured(l *loaded) (*measured, error) {
	first, last := h.runs[0], h.runs[len(h.runs)-1]
	bound, err := l.prog.Bind(first.syms)
	if err != nil {
		return nil, err
	}
	m := &measured{Device: h.deviceName(), Precision: h.precision, Method: l.prog.Method, Target: l.prog.Target, Sizes: first.syms,
		Kernels: kernelsOf(map[string]*loaded{l.prog.Method: l}), LoadMS: ms(first.begin.Sub(cli.Started())), FirstMS: ms(first.wall),
		FLOPs: flopsOf(bound), ArenaBytes: l.prog.ArenaSize, WeightsBytes: h.model.weights, HostPeakRSS: peakRSS()}
	for _, r := range h.runs[1:] {
		m.RunsMS = append(m.RunsMS, ms(r.wall))
		m.BackendPeakRSS = max(m.BackendPeakRSS, r.stats.PeakRSS)
	}
	m.BackendPeakRSS = max(m.BackendPeakRSS, h.peakRSS())
	m.MedianMS = median(m.RunsMS)
	if m.MedianMS > 0 {
		m.GFLOPS = float64(m.FLOPs) / m.MedianMS / 1e6
	}
	if h.debug.profile {
		if m.Profile, err = profileOf(last); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

func (m *measured) print(env *cli.Env) error {
	if env.JSON {
		return env.WriteJSON(m)
	}
	name := m.Method + " (" + m.Target + ")"
	for s, v := range m.Sizes {
		name += fmt.Sprintf(", %s = %d", s, v)
	}
	low, high := slices.Min(m.RunsMS), slices.Max(m.RunsMS)
	err := env.Table([][]string{
		{"method", name},
		{"device", m.Device},
		{"precision", m.Precision},
		{"kernels", m.Kernels.String()},
		{"load", fmt.Sprintf("%.1f ms from process start to the first dispatch", m.LoadMS)},
		{"first run", fmt.Sprintf("%.2f ms", m.FirstMS)},
		{"run", fmt.Sprintf("%.2f ms median of %d, %.2f to %.2f", m.MedianMS, len(m.RunsMS), low, high)},
		{"arithmetic", fmt.Sprintf("%.3f GFLOP, %.1f GFLOP/s", float64(m.FLOPs)/1e9, m.GFLOPS)},
		{"arena", cli.Size(m.ArenaBytes)},
		{"weights", cli.Size(m.WeightsBytes)},
		{"peak memory", fmt.Sprintf("backend %s, host %s", cli.Size(m.BackendPeakRSS), cli.Size(m.HostPeakRSS))},
	})
	if err == nil && len(m.Profile) > 0 {
		err = env.Table(append([][]string{{}}, profileTable(m.Profile)...))
	}
	return err
}

// benchSize is what sizes known at run time only are, within their range: a prompt of one point and its padding.
const benchSize = 2

// madeUpInputs makes the inputs of a method, the same every time.
func madeUpInputs(g *ir.Graph, sizes []string) (map[string]tensor.Tensor, error) {
	syms := map[string]int64{}
	for _, s := range g.Syms {
		syms[s.Name] = min(max(benchSize, s.Min), s.Max)
	}
	for _, v := range sizes {
		var name string
		var n int64
		if name, n = parseSizeFlag(v); name == "" {
			return nil, cli.Usagef("--size "+v, "is not SYMBOL=N")
		}
		sym, ok := g.Syms.Find(name)
		if !ok || n < sym.Min || n > sym.Max {
			return nil, cli.Usagef("--size "+v, "is not allowed; %s", signature(g))
		}
		syms[name] = n
	}
	in := map[string]tensor.Tensor{}
	for i, n := range g.Inputs() {
		r := ir.Range{Lo: -1, Hi: 1}
		if !n.Type.DType.IsFloat() {
			r = ir.Range{Lo: 0, Hi: 1}
		}
		in[n.Name] = interp.Random(rand.New(rand.NewPCG(uint64(i), 1)), n.Type, syms, r).Tensor()
	}
	return in, nil
}

// parseSizeFlag reads SYMBOL=N; the name is empty where it is anything else.
func parseSizeFlag(s string) (name string, n int64) {
	name, num, _ := strings.Cut(s, "=")
	n, err := strconv.ParseInt(num, 10, 64)
	if err != nil {
		return "", 0
	}
	return name, n
}
