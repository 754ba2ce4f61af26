package inference

import "github.com/prometheus/client_golang/prometheus"

func newSharedPrompts() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "rlx", Name: "run_prompts",
		Help: "Prompts for masks that shared a run.", Buckets: prometheus.ExponentialBuckets(1, 2, 7)})
}

// metrics returns the numbers of the service, which GET /metrics tells.
func (s *Service) metrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	value := func(of func() int64) func() float64 {
		return func() float64 {
			s.kept.mu.Lock()
			defer s.kept.mu.Unlock()
			return float64(of())
		}
	}
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "rlx", Name: name, Help: help}
	}
	r.MustRegister(s.shared,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts("encodings_bytes", "Bytes of kept encodings of images.")),
			value(func() int64 { return s.kept.size })),
		prometheus.NewCounterFunc(prometheus.CounterOpts(opts("encodings_computed_total", "Images that were encoded.")),
			value(func() int64 { return s.kept.runs })),
		prometheus.NewCounterFunc(prometheus.CounterOpts(opts("encodings_reused_total",
			"Requests with an image that had been encoded before.")), value(func() int64 { return s.kept.reused })))
	return r
}
