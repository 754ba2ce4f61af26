package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/peakrss"
	"github.com/rlx-go/rlx/task"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name: "bench", Args: "FILE [flags]", Short: "measure the speed of a method",
		Long: `Measures a method, or the speed of a language model with --prompt-tokens and --tokens. Inputs are generated: floats from -1 to 1, integers 0 and 1, the
same in every run. Sizes known only at run time are 2 unless --size says otherwise. The host's clock measures from handing in inputs to readable outputs, so transfers to and
from a GPU count. The first run is reported separately; it and the other runs of the warm-up do not count.`,
		Examples: []cli.Example{
			{About: "the image encoder", Line: "rlxrun bench sam.rlx -b cpu --method encode -n 5 --json"},
			{About: "for half a minute, and is it faster than before?",
				Line: "rlxrun bench sam.rlx --method encode --duration 30s --compare before.json"},
			{About: "a language model: a prompt of 512 tokens, then 64 generated ones",
				Line: "rlxrun bench llama.rlx --prompt-tokens 512 --tokens 64"},
			{About: "the mask decoder with 10 prompt points on one thread",
				Line: "rlxrun bench sam.rlx --method decode --size N=10 --threads 1"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f benchFlags
			fs.Group("What is measured")
			fs.StringVar(&f.method, "method", "", "`NAME` the method (default the only one)")
			f.pace.declare(fs)
			fs.ListVarP(&f.sizes, "size", "", "`SYMBOL=N` a size known only at run time (repeatable)")
			fs.IntVar(&f.prompt, "prompt-tokens", 512, "`N` language models: length of the generated prompt")
			fs.IntVar(&f.tokens, "tokens", 64, "`N` language models: tokens to generate after the prompt, greedily")
			f.draft.declare(fs)
			f.host.declare(fs)
			f.debug.declare(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if fs.Changed("prompt-tokens") || fs.Changed("tokens") {
					if f.method != "" || len(f.sizes.Values) > 0 || f.debug.any() {
						return cli.Usagef(
							"--prompt-tokens", "cannot be combined with --method, --size and what watches single runs")
					}
					f.text = true
				}
				if f.draft.fs.Changed("draft") && !f.text {
					return cli.Usagef("--draft", "requires --prompt-tokens or --tokens")
				}
				if err := cmp.Or(f.pace.settle(fs), f.check(), f.draft.settle()); err != nil {
					return err
				}
				if env.JSON && f.pace.csv == "-" {
					return cli.Usagef("--csv -", "cannot be combined with --json")
				}
				return inSession(ctx, env, args, &f.host, &f.debug, func(ctx context.Context, s *session) error {
					if csv := f.pace.csv; csv != "" && csv != "-" {
						s.outputs = []string{csv}
					}
					if f.text {
						return s.benchText(ctx, &f)
					}
					return s.bench(ctx, &f)
				})
			}
		},
	}
}

type benchFlags struct {
	method string
	pace   paceFlags
	text   bool // whether a prompt and tokens are measured instead of a method
	prompt int
	tokens int
	draft  draftFlags
	sizes  cli.List
	host   hostFlags
	debug  debugFlags
}

// runtimeFacts describe what ran and its memory.
type runtimeFacts struct {
	Device         string        `json:"device"`
	Threads        string        `json:"threads"` // the value of --threads
	Precision      string        `json:"precision"`
	Activations    string        `json:"activations,omitempty"` // type of activations in products with packed weights
	Method         string        `json:"method"`
	Target         string        `json:"target"`
	Kernels        kernelSummary `json:"kernels"`
	LoadMS         float64       `json:"load_ms"` // from process start to the first dispatch
	ArenaBytes     int64         `json:"arena_bytes"`
	WeightsBytes   int64         `json:"weights_bytes"`
	KernelBytes    int64         `json:"kernel_bytes"` // upper bound of the scratch memory of kernels and the reference
	BackendPeakRSS int64         `json:"backend_peak_rss_bytes"`
	HostPeakRSS    int64         `json:"host_peak_rss_bytes"`
}

func (s *session) runtimeFacts(method string, f *benchFlags, first time.Time) runtimeFacts {
	l := s.loaded(method)
	return runtimeFacts{Device: deviceName(s.backend.Name, s.host.Device()), Threads: f.host.threads,
		Precision: s.host.Precision(), Activations: l.Activations(), Method: method, Target: l.Target,
		Kernels: kernelsOf(l), LoadMS: ms(first.Sub(cli.Started())), ArenaBytes: l.Arena,
		WeightsBytes: s.model.Facts().Weights, KernelBytes: l.Memory,
		BackendPeakRSS: s.host.PeakMemory(), HostPeakRSS: peakrss.Own()}
}

// table returns the facts as rows, with the measured rows in their middle.
func (r *runtimeFacts) table(sizes string, measured ...[]string) [][]string {
	precision := r.Precision
	if r.Activations != "" {
		precision += "; activations " + r.Activations + " with packed weights"
	}
	return slices.Concat([][]string{
		{"method", r.Method + " (" + r.Target + ")" + sizes},
		{"device", r.Device},
		{"threads", r.Threads},
		{"precision", precision},
		{"kernels", r.Kernels.String()},
		{"load", fmt.Sprintf("%.1f ms from process start to the first dispatch", r.LoadMS)},
	}, measured, [][]string{
		{"arena", cli.Size(r.ArenaBytes)},
		{"weights", cli.Size(r.WeightsBytes)},
		{"kernels' memory", cli.Size(r.KernelBytes)},
		{"peak memory", fmt.Sprintf("backend %s, host %s", cli.Size(r.BackendPeakRSS), cli.Size(r.HostPeakRSS))},
	})
}

// measured is the result of bench. Times are from the host's monotonic clock.
type measured struct {
	runtimeFacts
	Sizes    map[string]int64 `json:"sizes,omitempty"`
	FirstMS  float64          `json:"first_ms"` // time of the first run
	Warmup   int              `json:"warmup"`   // number of runs that are not counted, including the first
	RunsMS   []float64        `json:"runs_ms"`  // times of the counted runs, each from the call to readable outputs
	MedianMS float64          `json:"median_ms"`
	MinMS    float64          `json:"min_ms"`
	MaxMS    float64          `json:"max_ms"`
	percentiles
	Compared     *verdict     `json:"compared,omitempty"`
	FLOPs        int64        `json:"flops"`                   // per run, of the steps that ran
	FLOPsAtMost  bool         `json:"flops_at_most,omitempty"` // the backend does not say what it skips
	GFLOPS       float64      `json:"gflop_per_s"`
	DeviceMemory int64        `json:"device_memory_bytes,omitempty"` // for devices with their own memory
	Profile      []profileRow `json:"profile,omitempty"`             // profile of the last run
}

// check refuses flags that are only for a single run.
func (f *benchFlags) check() error {
	if f.debug.stats {
		return cli.Usagef("--stats", "is for one run: rlxrun FILE --stats")
	}
	return nil
}

func (s *session) bench(ctx context.Context, f *benchFlags) error {
	method, err := oneMethod(s.model, f.method)
	if err != nil {
		if e, ok := errors.AsType[*diag.Error](err); ok && f.method == "" {
			if _, is := s.model.Task().(*task.Text); is {
				e.WithHint("to measure a prompt and its continuation, give --prompt-tokens N")
			}
		}
		return err
	}
	sizes, err := benchSizes(method, f.sizes.Values)
	if err != nil {
		return err
	}
	inputs := sync.OnceValue(func() map[string]rlx.Tensor { return madeUp(method.Inputs, sizes, 1) })
	if inputBytes(method.Inputs, sizes) <= madeUpEarly {
		go inputs() // while the backend starts
	}
	if err := s.ready(ctx, nil, nil, method); err != nil {
		return err
	}
	if err := s.load(ctx, method); err != nil {
		return err
	}
	in := inputs() // load has checked that there is memory for them
	p := f.pace.pace()
	for more := true; more; {
		r, err := s.Run(ctx, rlx.Request{Method: method.Name, Inputs: in})
		if err != nil {
			return err
		}
		r.Outputs = nil // the outputs of all runs would fill the memory
		more = p.add(ms(r.Duration))
	}
	m, err := s.measured(method.Name, f, p)
	if err != nil {
		return err
	}
	if m.Compared, err = f.pace.compareWith(m.Method, m.Sizes, 0, 0, m.RunsMS); err != nil {
		return err
	}
	s.rememberTime(f, method.Name, m.Sizes, m.MedianMS)
	if err := s.count(ctx, m, in); err != nil {
		return err
	}
	var w files
	defer w.abort()
	if err := s.addTrace(ctx, &w); err != nil {
		return err
	}
	return f.pace.finish(ctx, s.env, p, &w, m.print, m.Compared)
}

// measured summarises the runs.
func (s *session) measured(method string, f *benchFlags, p *pace) (*measured, error) {
	first, last := s.runs[0], s.runs[len(s.runs)-1]
	flops, err := s.loaded(method).FLOPs(first.Sizes)
	if err != nil {
		return nil, err
	}
	m := &measured{runtimeFacts: s.runtimeFacts(method, f, first.Start), Sizes: first.Sizes,
		FirstMS: ms(first.Duration), Warmup: p.warm, FLOPs: flops, FLOPsAtMost: s.loaded(method).Varies()}
	for _, r := range s.runs[p.warm:] {
		m.RunsMS = append(m.RunsMS, ms(r.Duration))
		m.BackendPeakRSS = max(m.BackendPeakRSS, r.PeakMemory)
		m.DeviceMemory = max(m.DeviceMemory, r.DeviceMemory)
	}
	m.MedianMS, m.MinMS, m.MaxMS = median(m.RunsMS), slices.Min(m.RunsMS), slices.Max(m.RunsMS)
	m.percentiles = percentilesOf(m.RunsMS)
	if s.debug.profile {
		m.Profile = profileOf(last)
	}
	return m, nil
}

// count replaces the arithmetic of a method that skips steps, or iterations, by the number from a profiled run. That is
// one more run, unless the measured runs were profiled. If the backend measures no times, the number stays an upper
// bound.
func (s *session) count(ctx context.Context, m *measured, in map[string]rlx.Tensor) error {
	last := s.runs[len(s.runs)-1].Result
	if m.FLOPsAtMost && !s.debug.profile && s.debug.trace == "" {
		var err error
		if last, err = s.Run(ctx, rlx.Request{Method: m.Method, Inputs: in, Profile: true}); err != nil {
			return err
		}
	}
	if m.FLOPsAtMost && len(last.Steps) > 0 {
		m.FLOPs, m.FLOPsAtMost = 0, false
		for _, t := range last.Steps {
			m.FLOPs += t.FLOPs
		}
	}
	if m.MedianMS > 0 {
		m.GFLOPS = float64(m.FLOPs) / m.MedianMS / 1e6
	}
	return nil
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
	sizes := ""
	for s, v := range m.Sizes {
		sizes += fmt.Sprintf(", %s = %d", s, v)
	}
	most := ""
	if m.FLOPsAtMost {
		most = "at most "
	}
	rows := m.table(sizes,
		[]string{"first run", fmt.Sprintf("%s ms, %s times the median", cli.Digits(m.FirstMS),
			cli.Digits(m.FirstMS/m.MedianMS))},
		[]string{
			"run", fmt.Sprintf(
				"%s ms median of %d after %d to warm up, %s to %s; host's clock, from the call to readable outputs",
				cli.Digits(m.MedianMS), len(m.RunsMS), m.Warmup, cli.Digits(m.MinMS), cli.Digits(m.MaxMS))},
		[]string{"percentiles", m.percentiles.String()},
		[]string{"arithmetic", fmt.Sprintf("%s%s GFLOP, %s GFLOP/s", most, cli.Digits(float64(m.FLOPs)/1e9),
			cli.Digits(m.GFLOPS))},
	)
	if m.DeviceMemory > 0 {
		rows = append(rows, []string{"device memory", cli.Size(m.DeviceMemory)})
	}
	if m.Compared != nil {
		rows = append(rows, []string{"compared", m.Compared.String()})
	}
	err := env.Table(rows)
	if err == nil && len(m.Profile) > 0 {
		err = env.Table(append([][]string{{}}, profileTable(m.Profile)...))
	}
	return err
}

// benchSize is the default value of sizes that are known only at run time, clamped to their range. For SAM it means a
// prompt of one point and its padding.
const benchSize = 2

// benchSizes returns the values of a method's symbols: those given with --size, otherwise benchSize.
func benchSizes(m *rlx.Method, sizes []string) (map[string]int64, error) {
	out := map[string]int64{}
	for _, s := range m.Symbols {
		out[s.Name] = min(max(benchSize, s.Min), s.Max)
	}
	for _, v := range sizes {
		name, n := cli.ParseSize(v)
		if name == "" {
			return nil, cli.Usagef("--size "+v, "is not SYMBOL=N")
		}
		i := slices.IndexFunc(m.Symbols, func(s rlx.Symbol) bool { return s.Name == name })
		if i < 0 || n < m.Symbols[i].Min || n > m.Symbols[i].Max {
			return nil, cli.Usagef("--size "+v, "is not allowed; %s", m)
		}
		out[name] = n
	}
	return out, nil
}

// madeUpEarly is the size of inputs in bytes that are generated before it is known that there is memory for them.
const madeUpEarly = 64 << 20

// inputBytes returns the size of inputs in bytes.
func inputBytes(inputs []rlx.Value, sizes map[string]int64) (n int64) {
	for _, v := range inputs {
		bytes := int64(dtype.DType(v.DType).Size())
		for _, d := range v.ShapeAt(sizes) {
			bytes *= int64(d)
		}
		n += bytes
	}
	return n
}

// madeUpChunk is the number of elements that are generated at a time. Generating takes 8 bytes for each.
const madeUpChunk = 1 << 16

// madeUp generates inputs from a seed.
func madeUp(inputs []rlx.Value, sizes map[string]int64, seed uint64) map[string]rlx.Tensor {
	in := map[string]rlx.Tensor{}
	for i, v := range inputs {
		r, d := ir.Range{Lo: -1, Hi: 1}, dtype.DType(v.DType)
		if !d.IsFloat() {
			r = ir.Range{Lo: 0, Hi: 1}
		}
		t, rng := tensor.New(d, v.ShapeAt(sizes)...), rand.New(rand.NewPCG(uint64(i), seed))
		for rest := t.Data; len(rest) > 0; {
			some := min(len(rest)/t.DType.Size(), madeUpChunk)
			rest = rest[copy(rest, interp.Random(rng, ir.TypeOf(t.DType, int64(some)), nil, r).Tensor().Data):]
		}
		in[v.Name] = forModel(t)
	}
	return in
}
