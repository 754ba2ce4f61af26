package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/peakrss"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/text"
)

// textMeasured is the result of bench for a text model. Times are medians, from the host's monotonic clock.
type textMeasured struct {
	runtimeFacts
	Runs   int       `json:"runs"`
	RunsMS []float64 `json:"runs_ms"` // times of the prompt and all tokens
	percentiles
	Compared      *verdict `json:"compared,omitempty"`
	PromptTokens  int      `json:"prompt_tokens"`
	Tokens        int      `json:"tokens"`
	FirstTokenMS  float64  `json:"first_token_ms"` // from the start of the prompt to the first token
	PromptRate    float64  `json:"prompt_tokens_per_s"`
	DecodeRate    float64  `json:"decode_tokens_per_s"`
	MinDecodeRate float64  `json:"min_decode_tokens_per_s"`
	MaxDecodeRate float64  `json:"max_decode_tokens_per_s"`
	WeightsRead   int64    `json:"weights_read_bytes"` // per token
	// per token, when half of the tokens have been generated
	StateRead int64 `json:"state_read_bytes"`
	// read bandwidth of the host's threads, measured between the runs
	Bandwidth      float64 `json:"memory_bytes_per_s,omitempty"`
	BandwidthShare float64 `json:"memory_bandwidth_share,omitempty"` // share of that bandwidth that decoding reaches
	StateBytes     int64   `json:"state_bytes"`
	draftTimings
}

// benchText measures a prompt of generated tokens and the tokens that follow it.
func (s *session) benchText(ctx context.Context, f *benchFlags) error {
	t, ok := s.model.Task().(*task.Text)
	if !ok {
		return cli.Usagef("--prompt-tokens", "%s declares no task %q", s.model.Path(), task.KindText).WithHint(
			"measure a method with --method")
	}
	if err := f.checkText(t); err != nil {
		return err
	}
	method, err := s.model.Method(t.Method)
	if err != nil {
		return err
	}
	drafts, err := f.draft.methods(s.model)
	if err != nil {
		return err
	}
	if err := s.ready(ctx, nil, nil, append(drafts, method)...); err != nil {
		return err
	}
	g, err := text.NewGenerator(ctx, s.host)
	if err != nil {
		return err
	}
	if err := f.draft.start(ctx, g); err != nil {
		return err
	}
	r, err := s.timeText(ctx, g, t, f)
	if err != nil {
		return err
	}
	weights, state, err := s.tokenReads(t, method)
	if err != nil {
		return err
	}
	times := r.pace.timed()
	m := &textMeasured{runtimeFacts: s.runtimeFacts(t.Method, f, r.loaded), Runs: len(times), RunsMS: times,
		percentiles: percentilesOf(times), PromptTokens: f.prompt,
		Tokens: f.tokens, FirstTokenMS: median(r.first),
		DecodeRate: median(r.rate), MinDecodeRate: slices.Min(r.rate), MaxDecodeRate: slices.Max(r.rate),
		WeightsRead: weights,
		StateRead:   int64(float64(state) * min(1, float64(f.prompt+f.tokens/2)/float64(t.Context))),
		StateBytes:  s.model.StateSize(), draftTimings: r.accepted}
	m.HostPeakRSS = r.host // measured before the bandwidth was
	m.PromptRate = float64(f.prompt) / m.FirstTokenMS * 1e3
	if len(r.band) > 0 {
		m.Bandwidth = slices.Max(r.band)
		m.BandwidthShare = m.DecodeRate * float64(m.WeightsRead+m.StateRead) / m.Bandwidth
	}
	s.rememberTime(f, fmt.Sprintf("prompt %d tokens %d", f.prompt, f.tokens), nil, m.P50)
	if m.Compared, err = f.pace.compareWith(m.Method, nil, f.prompt, f.tokens, times); err != nil {
		return err
	}
	return f.pace.finish(ctx, s.env, r.pace, new(files), m.print, m.Compared)
}

// textTimes are the times of a prompt and its continuation.
type textTimes struct {
	pace     *pace
	first    []float64 // ms of the prompt
	rate     []float64 // tokens per second after it
	band     []float64 // read bandwidth of the host, in bytes per second
	loaded   time.Time
	host     int64 // peak memory before the bandwidth was measured
	accepted draftTimings
}

// timeText generates as often as the flags say.
func (s *session) timeText(ctx context.Context, g *text.Generator, t *task.Text, f *benchFlags) (*textTimes, error) {
	rng, ids := rand.New(rand.NewPCG(1, 1)), make([]int, f.prompt)
	for i := range ids {
		ids[i] = rng.IntN(t.Vocabulary)
	}
	threads := runtime.GOMAXPROCS(0)
	if o, err := f.host.options(s.env); err == nil && o.Threads > 0 {
		threads = o.Threads
	}
	var memory []byte
	r := &textTimes{pace: f.pace.pace()}
	for i, more := 0, true; more; i++ {
		if i > 0 { // a new state equals a reset one and has not used its memory yet
			if err := g.Reset(ctx); err != nil {
				return nil, err
			}
		}
		began := time.Now()
		x, err := g.Generate(ctx, ids, text.Options{Tokens: f.tokens, IgnoreEnd: true, Sampling: &text.Sampling{}})
		if err != nil {
			return nil, err
		}
		took := ms(time.Since(began))
		if r.loaded.IsZero() {
			r.loaded = x.Start
		}
		if i == 0 {
			r.host = peakrss.Own()
			if f.draft.head == "" { // with drafts, a token takes less than one run
				memory = s.bandwidthBuffer()
			}
		}
		more = r.pace.add(took)
		if r.pace.warm == 0 || len(r.pace.times) == r.pace.warm {
			continue
		}
		r.accepted.add(x.Drafted, x.Accepted)
		r.first, r.rate = append(r.first, ms(x.Prefill)), append(r.rate, timingsOf(x).DecodePerSecond)
		if memory != nil {
			r.band = append(r.band, readBandwidth(memory, threads))
		}
	}
	return r, nil
}

// checkText checks the numbers of tokens.
func (f *benchFlags) checkText(t *task.Text) error {
	switch {
	case f.prompt < 1:
		return cli.Usagef("--prompt-tokens", "is %d; allowed are 1 and more", f.prompt)
	case f.tokens < 2:
		return cli.Usagef("--tokens", "is %d; allowed are 2 and more", f.tokens)
	case f.prompt+f.tokens-1 > t.Most():
		return diag.New(code.TextContext, "--prompt-tokens", "a prompt of %d and %d tokens; the context has %d",
			f.prompt, f.tokens, t.Most())
	}
	return nil
}

// tokenReads returns how many bytes of weights and of state the step of a token reads, when the state is full.
func (s *session) tokenReads(t *task.Text, method *rlx.Method) (weights, state int64, err error) {
	sizes := map[string]int64{}
	for _, x := range method.Symbols {
		sizes[x.Name] = x.Min
	}
	token, logprob := t.Chosen(task.Sampling{})
	return s.loaded(t.Method).Reads(sizes, token, logprob)
}

// bandwidthBytes is the number of bytes read to measure the bandwidth. They do not fit in a cache.
const bandwidthBytes = 512 << 20

// bandwidthBuffer returns memory to read, or nil if the budget has no room for it or the device has its own memory.
func (s *session) bandwidthBuffer() []byte {
	if t := s.host.Device().Type; t != "" && t != "cpu" || s.memory.Fits("bandwidth", 2*bandwidthBytes) != nil {
		return nil
	}
	b := make([]byte, bandwidthBytes)
	for i := 0; i < len(b); i += 4096 { // touch every page, so that each gets its own memory
		b[i] = 1
	}
	return b
}

// readBandwidth returns the number of bytes per second that threads read together. It compares two halves of b, which
// uses vector instructions and two streams at a time. One stream would be slower, because processors stop prefetching
// at the end of a page.
func readBandwidth(b []byte, threads int) float64 {
	var all sync.WaitGroup
	half := len(b) / (2 * threads) &^ 4095
	start := time.Now()
	for i := range threads {
		part := b[2*half*i:][:2*half]
		all.Go(func() {
			if !bytes.Equal(part[:half], part[half:]) {
				panic("BUG: the pages of bandwidthBuffer differ")
			}
		})
	}
	all.Wait()
	return float64(2*half*threads) / time.Since(start).Seconds()
}

func (m *textMeasured) print(env *cli.Env) error {
	if env.JSON {
		return env.WriteJSON(m)
	}
	read := fmt.Sprintf("%s of weights and %s of state per token", cli.Size(m.WeightsRead), cli.Size(m.StateRead))
	if m.Bandwidth > 0 {
		read += fmt.Sprintf("; %.1f GB/s, %.0f %% of the %.1f GB/s that the host can read",
			m.DecodeRate*float64(m.WeightsRead+m.StateRead)/1e9, 100*m.BandwidthShare, m.Bandwidth/1e9)
	}
	rows := [][]string{
		{"first token", fmt.Sprintf("%.1f ms after the prompt, median of %d", m.FirstTokenMS, m.Runs)},
		{"prompt", fmt.Sprintf("%.1f tokens/s, of %d", m.PromptRate, m.PromptTokens)},
		{"decode", fmt.Sprintf("%.1f tokens/s, of %d; %.1f to %.1f", m.DecodeRate, m.Tokens, m.MinDecodeRate,
			m.MaxDecodeRate)},
	}
	rows = append(rows, []string{"whole runs", m.percentiles.String()})
	if m.Compared != nil {
		rows = append(rows, []string{"compared", m.Compared.String()})
	}
	if m.Drafted > 0 {
		rows = append(rows, []string{"drafts", m.draftTimings.String()})
	}
	return env.Table(m.table("", append(rows, []string{"read", read}, []string{"state", cli.Size(m.StateBytes)})...))
}
