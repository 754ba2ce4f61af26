package openai

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rlx-go/rlx/text"
)

// metrics count what engines do, for GET /metrics. They belong to a model's name: an engine that takes the place of
// another continues its counts, as does one whose backend was started anew.
type metrics struct {
	registry *prometheus.Registry

	refused                   *prometheus.CounterVec // by reason
	ended                     *prometheus.CounterVec // texts, by the reason of their end
	prompt, cached, generated prometheus.Counter
	lost, repeated            prometheus.Counter
	evicted, preempted        prometheus.Counter
	queue, first, whole       prometheus.Histogram
	steps, sharing            prometheus.Histogram
}

// registryOf returns a new registry, and a view of it that adds the model's name as a label if there is one.
func registryOf(l Limits) (*prometheus.Registry, prometheus.Registerer) {
	r := prometheus.NewRegistry()
	if l.Label == "" {
		return r, r
	}
	return r, prometheus.WrapRegistererWith(prometheus.Labels{"model": l.Label}, r)
}

func newMetrics(l Limits) *metrics {
	registry, to := registryOf(l)
	m := &metrics{registry: registry}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "rlx", Name: name, Help: help})
		to.MustRegister(c)
		return c
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "rlx", Name: name, Help: help}, labels)
		to.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "rlx", Name: name, Help: help,
			Buckets: buckets})
		to.MustRegister(h)
		return h
	}
	seconds := prometheus.ExponentialBuckets(0.001, 2, 18) // up to 131 s
	m.refused = counters("refused_total", "Texts that did not begin: the queue was full (busy), the client had too many "+
		"(client) or had used its tokens (tokens), the server was ending (ending), or the client went while it waited (gone).", "reason")
	m.ended = counters("texts_total",
		"Texts that have ended, by reason: end, stop, grammar, length, context, cancelled or error.", "reason")
	m.prompt = counter("prompt_tokens_total", "Tokens of prompts, and of texts for which vectors were computed.")
	m.cached = counter("cached_tokens_total", "Tokens of prompts that were not computed again.")
	m.generated = counter("generated_tokens_total", "Tokens that were generated.")
	m.lost = counter("backend_lost_total", "Times that the backend was lost and started again.")
	m.repeated = counter("repeated_total", "Texts that were started again because the backend was lost.")
	m.queue = histogram("queue_seconds", "Time that texts waited for a place.", seconds)
	m.first = histogram("first_token_seconds", "Time from a request to its first token.", seconds)
	m.whole = histogram("text_seconds", "Time from a request to the end of its text.", seconds)
	m.steps = histogram("step_seconds", "Time of a step of all texts that share runs.", seconds)
	m.sharing = histogram("step_texts", "Texts in a step.", prometheus.ExponentialBuckets(1, 2, 7))
	m.evicted = counter("cache_pages_evicted_total", "Pages of kept keys and values that were dropped for others.")
	m.preempted = counter("texts_preempted_total", "Times that a text gave up its pages to another.")
	return m
}

// newGauges returns what an engine has at present.
func newGauges(e *Engine) *prometheus.Registry {
	registry, to := registryOf(e.limits)
	gauge := func(name, help string, value func() float64) {
		to.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "rlx", Name: name, Help: help}, value))
	}
	gauge("texts_in_progress", "Texts in progress.", func() float64 {
		n, _ := e.places.counts()
		return float64(n)
	})
	gauge("texts_waiting", "Texts that wait for a place.", func() float64 {
		_, n := e.places.counts()
		return float64(n)
	})
	if x, ok := e.way.(*together); ok && x.pages.Load() != nil {
		for _, g := range []struct {
			name, help string
			of         func(text.PageStats) int
		}{
			{"cache_pages", "Pages of keys and values.", func(s text.PageStats) int { return s.Pages }},
			{"cache_pages_used", "Pages that texts in progress have.", func(s text.PageStats) int { return s.Used }},
			{"cache_pages_shared", "Pages that several texts in progress have.",
				func(s text.PageStats) int { return s.Shared }},
			{"cache_pages_kept", "Pages that no text in progress has, kept for those that begin alike.",
				func(s text.PageStats) int { return s.Kept }},
		} {
			gauge(g.name, g.help, func() float64 { return float64(g.of(*x.pages.Load())) })
		}
	}
	return registry
}

func (m *metrics) refuse(err error) {
	reason := "gone"
	switch {
	case errors.Is(err, ErrBusy):
		reason = "busy"
	case errors.Is(err, ErrTokens):
		reason = "tokens"
	case errors.Is(err, ErrClient):
		reason = "client"
	case errors.Is(err, errDraining):
		reason = "ending"
	}
	m.refused.WithLabelValues(reason).Inc()
}

// step counts a step of n texts.
func (m *metrics) step(n int, took time.Duration) {
	m.steps.Observe(took.Seconds())
	m.sharing.Observe(float64(n))
}

// text counts a text that has ended. t may be nil.
func (m *metrics) text(t *text.Result, err error, began time.Time) {
	reason := "error"
	if t != nil {
		m.prompt.Add(float64(t.Prompt))
		m.cached.Add(float64(t.Cached))
		m.generated.Add(float64(len(t.Tokens)))
		if len(t.Tokens) > 0 {
			m.first.Observe(t.Start.Add(t.Prefill).Sub(began).Seconds())
		}
		if err == nil || t.Stop == text.StopCancelled && !isFailure(err) {
			reason = string(t.Stop)
		}
	}
	m.ended.WithLabelValues(reason).Inc()
	m.whole.Observe(time.Since(began).Seconds())
}

// isFailure tells errors of the server from clients that have gone.
func isFailure(err error) bool {
	return err != nil && failureOf(err).status >= http.StatusInternalServerError
}
