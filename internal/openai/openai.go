// Package openai serves a language model over the HTTP API of OpenAI, which many programs speak: chat completions,
// completions, embeddings and models (https://platform.openai.com/docs/api-reference). Answers may be streamed. What
// the server cannot do, such as images, is refused with status 400 and the name of the parameter; parameters that the
// API does not have are ignored, as other servers do.
package openai

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/localpage"
	"github.com/rlx-go/rlx/text"
)

// Options holds what a server needs to know.
type Options struct {
	Model string // the name that /v1/models lists; requests may give any name
	// Keys are bearer tokens, of which requests must have one, with the name of the client that has it. None means that
	// none is needed; then a client is an address.
	Keys map[string]string
	// Local refuses requests whose Host is not this machine, so that no page of a browser can reach the server by a
	// name of its own.
	Local bool
	Log   *slog.Logger // a line for each request, and connections that fail; nil means none
}

const (
	maxBody        = 16 << 20 // bytes of a request
	maxHeader      = 64 << 10
	maxConnections = 1024
	headerTimeout  = 10 * time.Second
	bodyTimeout    = time.Minute
	idleTimeout    = 2 * time.Minute
	// drainTime is how long texts in progress may continue when the server ends.
	drainTime = 10 * time.Second
)

// A Server is an http.Handler.
type Server struct {
	options Options
	model   *rlx.Model
	engine  *Engine
	mux     http.ServeMux
	started time.Time
	keys    []clientKey

	grammars grammars
}

// A clientKey is the digest of a key, and the name of the client that has it.
type clientKey struct {
	digest [sha256.Size]byte
	name   string
}

// New returns a server. facts and the tokenizer are those of the engine's model, which must have the task text.
func New(m *rlx.Model, e *Engine, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{options: o, model: m, engine: e, started: time.Now()}
	for key, name := range o.Keys {
		s.keys = append(s.keys, clientKey{sha256.Sum256([]byte(key)), name})
	}
	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("GET /v1/models/{name}", s.models)
	s.mux.HandleFunc("POST /v1/chat/completions", s.chat)
	s.mux.HandleFunc("POST /v1/completions", s.complete)
	s.mux.HandleFunc("POST /v1/embeddings", s.embed)
	s.mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	s.mux.HandleFunc("GET /readyz", s.ready)
	s.mux.Handle("GET /metrics", e.metrics.handler())
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, &failure{http.StatusNotFound, r.Method + " " + r.URL.Path + " is not part of the API of this server",
			"", "unknown_url"})
	})
	return s
}

// Serve answers requests to a listener until ctx ends or the listener fails. When ctx ends, texts in progress may
// continue for ten seconds.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(s.options.Log.Handler(), slog.LevelWarn)}
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		s.engine.drain()
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
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
	began, out, about := time.Now(), &recorder{ResponseWriter: w}, &record{}
	about.client, _, _ = net.SplitHostPort(r.RemoteAddr)
	r = r.WithContext(context.WithValue(r.Context(), recordKey{}, about))
	s.serve(out, r)
	status := out.status
	if status == 0 {
		status = http.StatusOK
	}
	s.engine.metrics.request(r.Pattern, status)
	s.options.Log.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("method", r.Method),
		slog.String("path", r.URL.Path), slog.Int("status", status), slog.String("client", about.client),
		slog.Duration("took", time.Since(began)), slog.Int("prompt_tokens", about.Prompt),
		slog.Int("cached_tokens", about.Details.Cached), slog.Int("completion_tokens", about.Completion),
		slog.String("error", about.err))
}

// A record is what the log tells about a request.
type record struct {
	client string
	err    string
	usage
}

type recordKey struct{}

// recordOf returns the record of a request.
func recordOf(ctx context.Context) *record {
	if r, ok := ctx.Value(recordKey{}).(*record); ok {
		return r
	}
	return &record{}
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

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if s.options.Local && !localpage.IsLocal(r.Host) {
		fail(w, &failure{http.StatusForbidden, "the host " + diag.Printable(r.Host) + " is not this machine", "",
			"host_not_allowed"})
		return
	}
	if (strings.HasPrefix(r.URL.Path, "/v1/") || r.URL.Path == "/metrics") && !s.allowed(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		fail(w, &failure{http.StatusUnauthorized, "the request needs a key of the server: Authorization: Bearer KEY",
			"", "invalid_api_key"})
		return
	}
	s.mux.ServeHTTP(w, r)
}

// allowed compares the key in time that does not depend on it, and notes whose it is.
func (s *Server) allowed(r *http.Request) bool {
	if len(s.keys) == 0 {
		return true
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	digest, found := sha256.Sum256([]byte(given)), false
	for _, k := range s.keys {
		if subtle.ConstantTimeCompare(digest[:], k.digest[:]) == 1 && ok {
			recordOf(r.Context()).client, found = k.name, true
		}
	}
	return found
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if err := s.engine.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ok\n")
}

type modelInfo struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (s *Server) models(w http.ResponseWriter, r *http.Request) {
	m := modelInfo{s.options.Model, "model", s.started.Unix(), "rlx"}
	switch r.PathValue("name") {
	case "":
		answer(w, map[string]any{"object": "list", "data": []modelInfo{m}})
	case m.ID:
		answer(w, m)
	default:
		fail(w, &failure{http.StatusNotFound, "the model does not exist; this server has " + m.ID, "model",
			"model_not_found"})
	}
}

// A failure is an error as the API has it.
type failure struct {
	status         int
	message, param string
	code           string
}

func (f *failure) Error() string { return f.message }

// refuse returns the failure for a parameter that is wrong or not supported.
func refuse(param, message string) *failure {
	return &failure{http.StatusBadRequest, param + ": " + message, param, "invalid_value"}
}

// statusClientGone is what nginx logs for clients that have gone. No client sees it.
const statusClientGone = 499

// failureOf returns the failure for an error.
func failureOf(err error) *failure {
	var f *failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, ErrBusy):
		return &failure{http.StatusTooManyRequests, err.Error(), "", "server_busy"}
	case errors.Is(err, ErrClient):
		return &failure{http.StatusTooManyRequests, err.Error(), "", "rate_limit_exceeded"}
	case errors.Is(err, errDraining):
		return &failure{http.StatusServiceUnavailable, err.Error(), "", "server_ending"}
	case errors.Is(err, context.Canceled):
		return &failure{statusClientGone, "the client has gone", "", "cancelled"}
	case errors.Is(err, text.ErrContext):
		return &failure{http.StatusBadRequest, err.Error(), "messages", "context_length_exceeded"}
	case errors.Is(err, rlx.ErrUsage), errors.Is(err, rlx.ErrInput), errors.Is(err, text.ErrText):
		return &failure{http.StatusBadRequest, err.Error(), "", "invalid_value"}
	case errors.Is(err, rlx.ErrMemory), errors.Is(err, rlx.ErrLost):
		return &failure{http.StatusServiceUnavailable, err.Error(), "", "server_error"}
	}
	var e *diag.Error
	if errors.As(err, &e) && e.Code.Exit() == 3 { // such as a conversation that the chat template rejects
		return &failure{http.StatusBadRequest, err.Error(), "", "invalid_value"}
	}
	return &failure{http.StatusInternalServerError, err.Error(), "", "server_error"}
}

type errorBody struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	} `json:"error"`
}

func (f *failure) body() (b errorBody) {
	b.Error.Message, b.Error.Code, b.Error.Type = f.message, f.code, "invalid_request_error"
	if f.status >= http.StatusInternalServerError {
		b.Error.Type = "server_error"
	}
	if f.param != "" {
		b.Error.Param = &f.param
	}
	return b
}

func fail(w http.ResponseWriter, f *failure) {
	if f.status == http.StatusTooManyRequests || f.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(f.status)
	json.NewEncoder(w).Encode(f.body())
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	json.NewEncoder(w).Encode(v)
}

// read decodes the body of a request.
func read(w http.ResponseWriter, r *http.Request, v any) error {
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	err := d.Decode(v)
	var large *http.MaxBytesError
	var f *failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &large):
		return &failure{http.StatusRequestEntityTooLarge, "the request has more than 16 MiB", "", "request_too_large"}
	case err != nil:
		return &failure{http.StatusBadRequest, "the body is no request in JSON: " + err.Error(), "", "invalid_json"}
	}
	if d.More() {
		return &failure{http.StatusBadRequest, "the body has more than one JSON value", "", "invalid_json"}
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}
