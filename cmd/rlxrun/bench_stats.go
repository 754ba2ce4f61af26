package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/regular"
)

const (
	// warmupTime and warmupRuns bound a warm-up until times are steady.
	warmupTime = 10 * time.Second
	warmupRuns = 100
	// The median of the last steadyRuns runs is compared with that of the steadyRuns runs before them.
	steadyRuns = 3
	// steadyWithin is how much the two may differ.
	steadyWithin = 0.05
	// resamples is the number of samples of the bootstrap, and confidence the part of them in the interval.
	resamples  = 10_000
	confidence = 0.95
	// resultSize bounds a file of --compare, in bytes.
	resultSize = 64 << 20
)

// paceFlags say how often bench runs a method.
type paceFlags struct {
	runs, warmup int // warmup 0 means until times are steady
	warmupText   string
	duration     time.Duration
	compare, csv string
}

func (f *paceFlags) declare(fs *cli.FlagSet) {
	fs.IntVarP(&f.runs, "runs", "n", 5, "`N` number of timed runs")
	fs.DurationVar(&f.duration, "duration", 0, "`TIME` time runs for as long as this, such as 30s, in place of -n")
	fs.StringVar(&f.warmupText, "warmup", "auto",
		"`N|auto` runs before the timed ones, including the first run; auto: until the medians of three runs and of the three before them differ by less than 5 %, for 10 s at most")
	fs.StringVar(&f.compare, "compare", "",
		"`FILE` an earlier result (--json): say whether this one is faster or slower, by a 95 % confidence interval; slower is status 1")
	fs.StringVar(&f.csv, "csv", "", "`FILE` write the time of each run as CSV; - is stdout, in place of the table")
}

// settle checks the values.
func (f *paceFlags) settle(fs *cli.FlagSet) error {
	if f.runs < 1 {
		return cli.Usagef("-n", "%d runs; allowed are 1 and more", f.runs)
	}
	if fs.Changed("duration") && (f.duration <= 0 || fs.Changed("runs")) {
		return cli.Usagef("--duration", "%v; it must be more than 0, and takes the place of -n", f.duration)
	}
	if f.warmupText != "auto" {
		n, err := strconv.Atoi(f.warmupText)
		if err != nil {
			return cli.Usagef("--warmup "+f.warmupText, "is neither auto nor a number of runs")
		}
		if n < 1 {
			return cli.Usagef("--warmup", "%d runs; allowed are 1 and more", n)
		}
		f.warmup = n
	}
	return nil
}

// A pace decides when a warm-up and a measurement end.
type pace struct {
	flags *paceFlags
	times []float64 // ms of all runs so far
	warm  int       // runs of the warm-up; 0 until it has ended
	since time.Time // the start of the current phase
	now   func() time.Time
}

func (f *paceFlags) pace() *pace { return &pace{flags: f, now: time.Now, since: time.Now()} }

// add notes the time of a run and reports whether another is needed.
func (p *pace) add(ms float64) (more bool) {
	p.times = append(p.times, ms)
	if p.warm == 0 {
		if p.warmedUp() {
			p.warm, p.since = len(p.times), p.now()
		}
		return true
	}
	if p.flags.duration > 0 {
		return p.now().Sub(p.since) < p.flags.duration
	}
	return len(p.times) < p.warm+p.flags.runs
}

func (p *pace) warmedUp() bool {
	n := len(p.times)
	if p.flags.warmup > 0 {
		return n >= p.flags.warmup
	}
	if n >= warmupRuns || p.now().Sub(p.since) >= warmupTime {
		return true
	}
	if n < 2*steadyRuns {
		return false
	}
	last, before := median(p.times[n-steadyRuns:]), median(p.times[n-2*steadyRuns:n-steadyRuns])
	return math.Abs(last-before) < steadyWithin*before
}

// timed returns the times that count.
func (p *pace) timed() []float64 { return p.times[p.warm:] }

// percentile returns the value below which the given part of the sorted values lies. Between two values it interpolates
// linearly (Hyndman and Fan 1996, definition 7).
func percentile(sorted []float64, part float64) float64 {
	at := part * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// percentiles of times in milliseconds.
type percentiles struct {
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
	P95 float64 `json:"p95_ms"`
	P99 float64 `json:"p99_ms"`
}

func percentilesOf(times []float64) percentiles {
	s := slices.Sorted(slices.Values(times))
	return percentiles{percentile(s, 0.5), percentile(s, 0.9), percentile(s, 0.95), percentile(s, 0.99)}
}

func (p percentiles) String() string {
	return fmt.Sprintf("50 %% of runs within %s ms, 90 %% %s, 95 %% %s, 99 %% %s", cli.Digits(p.P50), cli.Digits(p.P90),
		cli.Digits(p.P95), cli.Digits(p.P99))
}

// A verdict compares two measurements.
type verdict struct {
	With    string  `json:"with"`    // the file of the earlier result
	Verdict string  `json:"verdict"` // faster, slower, or same: the interval contains 1
	Ratio   float64 `json:"ratio"`   // of the medians, this run's to the earlier run's
	Low     float64 `json:"low"`     // of the 95 % interval of the ratio
	High    float64 `json:"high"`
}

// compared returns the verdict on times and earlier ones: an interval of the ratio of their medians by the percentile
// bootstrap (Efron 1979).
func compared(times, earlier []float64) verdict {
	rng := rand.New(rand.NewPCG(1, 2)) // the same verdict for the same numbers
	sample := func(from, to []float64) float64 {
		for i := range to {
			to[i] = from[rng.IntN(len(from))]
		}
		return median(to)
	}
	a, b, ratios := make([]float64, len(times)), make([]float64, len(earlier)), make([]float64, resamples)
	for i := range ratios {
		ratios[i] = sample(times, a) / sample(earlier, b)
	}
	slices.Sort(ratios)
	v := verdict{Verdict: "same", Ratio: median(times) / median(earlier), Low: percentile(ratios, (1-confidence)/2),
		High: percentile(ratios, (1+confidence)/2)}
	switch {
	case v.High < 1:
		v.Verdict = "faster"
	case v.Low > 1:
		v.Verdict = "slower"
	}
	return v
}

func (v *verdict) String() string {
	interval := fmt.Sprintf("%.3f times the median of %s, 95 %% interval %.3f to %.3f", v.Ratio, v.With, v.Low, v.High)
	if v.Verdict == "same" {
		return "no difference shown: " + interval
	}
	return v.Verdict + ": " + interval
}

// err is the status of a slower result.
func (v *verdict) err() error {
	if v == nil || v.Verdict != "slower" {
		return nil
	}
	return diag.New(code.Slower, "--compare "+v.With, "this measurement is slower: %s", v)
}

// compareWith reads an earlier result and compares times of the same method, sizes and tokens with it; nil without
// --compare.
func (f *paceFlags) compareWith(method string, sizes map[string]int64, prompt, tokens int, times []float64) (
	*verdict, error) {
	if f.compare == "" {
		return nil, nil
	}
	b, err := regular.ReadFile(f.compare, resultSize)
	if err != nil {
		return nil, diag.New(code.InputTensor, f.compare, "cannot be read: %w", unpath(err))
	}
	var old struct {
		Method       string           `json:"method"`
		Sizes        map[string]int64 `json:"sizes"`
		PromptTokens int              `json:"prompt_tokens"`
		Tokens       int              `json:"tokens"`
		RunsMS       []float64        `json:"runs_ms"`
	}
	if err := json.Unmarshal(b, &old); err != nil || len(old.RunsMS) == 0 {
		return nil, cli.Usagef("--compare "+f.compare, "is not a result of rlxrun bench --json with the times of runs")
	}
	for _, ms := range old.RunsMS {
		if !(ms > 0) || math.IsInf(ms, 0) {
			return nil, cli.Usagef("--compare "+f.compare, "has a run of %v ms; times are more than 0", ms)
		}
	}
	if old.Method != method || !maps.Equal(old.Sizes, sizes) || old.PromptTokens != prompt || old.Tokens != tokens {
		return nil, cli.Usagef("--compare "+f.compare, "measured %s %v, and this is %s %v: only the same can be compared",
			old.Method, old.Sizes, method, sizes)
	}
	v := compared(times, old.RunsMS)
	v.With = f.compare
	return &v, nil
}

// writeCSV writes the times of all runs of a pace to the file of --csv.
func (f *paceFlags) writeCSV(ctx context.Context, env *cli.Env, p *pace, w *files) error {
	write := func(out io.Writer) error {
		if _, err := io.WriteString(out, "run,phase,ms\n"); err != nil {
			return err
		}
		for i, ms := range p.times {
			phase := "timed"
			if i < p.warm {
				phase = "warmup"
			}
			if _, err := fmt.Fprintf(out, "%d,%s,%.6g\n", i+1, phase, ms); err != nil {
				return err
			}
		}
		return nil
	}
	switch f.csv {
	case "":
		return nil
	case "-":
		return write(env.Stdout)
	}
	return w.add(ctx, f.csv, write)
}

// finish writes the files, prints the result, and returns the verdict as an error unless it is good.
func (f *paceFlags) finish(ctx context.Context, env *cli.Env, p *pace, w *files, print func(*cli.Env) error,
	v *verdict) error {
	defer w.abort()
	if err := f.writeCSV(ctx, env, p, w); err != nil {
		return err
	}
	if err := w.commit(); err != nil {
		return err
	}
	if f.csv != "-" {
		if err := print(env); err != nil {
			return err
		}
	}
	return v.err()
}
