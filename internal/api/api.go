// Package api is what the HTTP servers of rlxrun have in common: who may ask, limits of requests and connections, the
// access log, numbers for Prometheus, and an orderly end. Packages openai and inference add their paths to a Server.
package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/netutil"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/localpage"
)

// Options holds what a server needs to know.
type Options struct {
	// Keys are bearer tokens, of which requests must have one, with the name of the client that has it. None means that
	// none is needed; then a client is an address.
	Keys map[string]string
	// Local refuses requests whose Host is not this machine, so that no page of a browser can reach the server by a
	// name of its own.
	Local bool
	Log   *slog.Logger // a line for each request, and connections that fail; nil means none
	// Traces takes a span of each request, but for those of health and numbers, and of its parts; nil means none.
	Traces trace.TracerProvider
	// Drain is how long answers in progress may take when the server ends; 0 means DrainTime.
	Drain time.Duration
}

const (
	maxHeader      = 64 << 10
	maxConnections = 1024
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
)

// DrainTime is the default of Options.Drain.
const DrainTime = 10 * time.Second

// A Part is one of the APIs of a server.
type Part struct {
	Prefix string // of its paths, such as "/v1/"; "" for one that also answers paths of no part
	// Refuse answers a request in the form of this API. reason is one word.
	Refuse func(w http.ResponseWriter, status int, reason, message string)
	Ready  func() error        // why it does not take requests
	Drain  func()              // refuses requests from now on
	Gather prometheus.Gatherer // its numbers, or nil
}

// A Server is an http.Handler. It answers GET /livez, /readyz and /metrics itself.
type Server struct {
	options  Options
	tracer   trace.Tracer
	mux      http.ServeMux
	keys     []clientKey
	parts    []Part
	requests *prometheus.CounterVec
	numbers  prometheus.Gatherers
	progress progress
}

// A clientKey is the digest of a key, and the name of the client that has it.
type clientKey struct {
	digest [sha256.Size]byte
	name   string
}

// New returns a server without an API; see Add.
func New(o Options) *Server {
	o.Log, o.Drain = cmp.Or(o.Log, slog.New(slog.DiscardHandler)), cmp.Or(o.Drain, DrainTime)
	s := &Server{options: o, tracer: tracerOf(o.Traces)}
	for key, name := range o.Keys {
		s.keys = append(s.keys, clientKey{sha256.Sum256([]byte(key)), name})
	}
	own := prometheus.NewRegistry()
	s.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "rlx", Name: "http_requests_total",
		Help: "Requests that were answered."}, []string{"path", "status"})
	own.MustRegister(s.requests, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.numbers = prometheus.Gatherers{own}
	s.mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	s.mux.HandleFunc("GET /readyz", s.ready)
	s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		promhttp.HandlerFor(s.numbers, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.part(r).Refuse(w, http.StatusNotFound, "unknown_url",
			r.Method+" "+r.URL.Path+" is not part of the API of this server")
	})
	return s
}

// Add adds an API. The caller registers its paths with HandleFunc. A server has at least one.
func (s *Server) Add(p Part) {
	s.parts = append(s.parts, p)
	if p.Gather != nil {
		s.numbers = append(s.numbers, p.Gather)
	}
}

// HandleFunc makes f answer requests that match a pattern of http.ServeMux.
func (s *Server) HandleFunc(pattern string, f http.HandlerFunc) { s.mux.HandleFunc(pattern, f) }

// part returns the API to which the path of a request belongs.
func (s *Server) part(r *http.Request) Part {
	for _, p := range s.parts {
		if strings.HasPrefix(r.URL.Path, p.Prefix) {
			return p
		}
	}
	return s.parts[0]
}

// DrainTime returns how long answers in progress may take when the server ends.
func (s *Server) DrainTime() time.Duration { return s.options.Drain }

// Serve answers requests to a listener until ctx ends or the listener fails. When ctx ends, answers in progress may
// take DrainTime. Meanwhile the parts refuse others, so that a balancer that asks /readyz sends no more.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(s.options.Log.Handler(), slog.LevelWarn)}
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		for _, p := range s.parts {
			p.Drain()
		}
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Drain)
		defer cancel()
		select {
		case <-s.progress.end():
		case <-limit.Done():
		}
		if server.Shutdown(limit) != nil {
			server.Close()
		}
	})
	defer stop()
	err := server.Serve(netutil.LimitListener(l, maxConnections))
	if ctx.Err() != nil {
		<-drained
		return context.Cause(ctx)
	}
	return err
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.progress.begin()()
	out, about := &recorder{ResponseWriter: w}, &Record{began: time.Now()}
	about.Client, _, _ = net.SplitHostPort(r.RemoteAddr)
	ctx := r.Context()
	if !slices.Contains(open, r.URL.Path) && r.URL.Path != "/metrics" {
		ctx = s.Begin(ctx, propagation.HeaderCarrier(r.Header), r.Method)
	}
	r = r.WithContext(context.WithValue(ctx, recordKey{}, about))
	s.serve(out, r)
	s.Done(r.Context(), r.Method, r.URL.Path, r.Pattern, cmp.Or(out.status, http.StatusOK))
}

// Done counts a request that was answered, writes it to the log, and ends its span. pattern is what the request
// matched. ctx has the request's Record.
func (s *Server) Done(ctx context.Context, method, path, pattern string, status int) {
	about := RecordOf(ctx)
	s.requests.WithLabelValues(pattern, strconv.Itoa(status)).Inc()
	line := []slog.Attr{slog.String("method", method), slog.String("path", path), slog.Int("status", status),
		slog.String("client", about.Client), slog.Duration("took", time.Since(about.began))}
	if about.More != nil {
		line = append(line, about.More()...)
	}
	line = append(line, endTrace(ctx, method, path, pattern, status, about)...)
	s.options.Log.LogAttrs(ctx, slog.LevelInfo, "request", append(line, slog.String("error", about.Err))...)
}

// A Record is what the log tells about a request.
type Record struct {
	Client string
	Err    string             // what was wrong, if anything was
	More   func() []slog.Attr // further attributes, or nil

	began time.Time
}

type recordKey struct{}

// RecordOf returns the record of a request.
func RecordOf(ctx context.Context) *Record {
	if r, ok := ctx.Value(recordKey{}).(*Record); ok {
		return r
	}
	return &Record{began: time.Now()}
}

// WithRecord returns a context with the record of a request that does not come by HTTP/1, from a client's address.
func WithRecord(ctx context.Context, client string) context.Context {
	return context.WithValue(ctx, recordKey{}, &Record{Client: client, began: time.Now()})
}

// A recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// open are the paths that need no key.
var open = []string{"/livez", "/readyz", "/v2/health/live", "/v2/health/ready"}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if s.options.Local && !localpage.IsLocal(r.Host) {
		s.part(r).Refuse(w, http.StatusForbidden, "host_not_allowed",
			"the host "+diag.Printable(r.Host)+" is not this machine")
		return
	}
	// Pages of other origins may send some requests, though they cannot read the answers.
	if http.NewCrossOriginProtection().Check(r) != nil {
		s.part(r).Refuse(w, http.StatusForbidden, "origin_not_allowed",
			"the request comes from a page of another origin")
		return
	}
	if !slices.Contains(open, r.URL.Path) && !s.Allows(r.Context(), r.Header.Get("Authorization")) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.part(r).Refuse(w, http.StatusUnauthorized, "invalid_api_key", NeedsKey)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// NeedsKey is the answer to a request without a key.
const NeedsKey = "the request needs a key of the server: Authorization: Bearer KEY"

// Allows reports whether the header Authorization of a request has a key of the server, and notes whose it is in the
// request's Record. Keys are compared in time that does not depend on them.
func (s *Server) Allows(ctx context.Context, authorization string) bool {
	if len(s.keys) == 0 {
		return true
	}
	scheme, given, _ := strings.Cut(authorization, " ")
	ok := strings.EqualFold(scheme, "Bearer") // RFC 9110: its case does not matter
	digest, found := sha256.Sum256([]byte(strings.TrimSpace(given))), false
	for _, k := range s.keys {
		if subtle.ConstantTimeCompare(digest[:], k.digest[:]) == 1 && ok {
			RecordOf(ctx).Client, found = k.name, true
		}
	}
	return found
}

// Reply answers a request with a value as JSON, which the client has to take within a time. Clients that are refused
// for a while are told when to try again.
func Reply(w http.ResponseWriter, status int, v any, within time.Duration) {
	busy := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	if busy && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within))
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	for _, p := range s.parts {
		if err := p.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	io.WriteString(w, "ok\n")
}
